"""mbarrier objects in shared memory. PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".

A phase completes when no arrival is pending and the transaction count is zero; the next phase then expects the same
number of arrivals again. The transaction count may be negative for a while: bytes may land before they are expected.
"""

from __future__ import annotations

from croq.ptx.units.fault import UnitFault, require

# PTX ISA, "Contents of the mbarrier object": the valid ranges of the counts.
COUNT_MAX = 2**20 - 1
TX_MAX = 2**20 - 1
# PTX ISA, "Size and alignment of mbarrier object".
SIZE = 8

_PENDING_BITS = 20


def token_phase(token: int) -> int:
    """The phase, counted from `mbarrier.init`, in which the arrival of a state token was made."""
    return token >> _PENDING_BITS


def token_pending(token: int) -> int:
    """mbarrier.pending_count: the arrivals that were pending just before the arrival of the token."""
    return token & COUNT_MAX


class Mbarrier:
    """One mbarrier object.

    `phase` counts completed phases since the initialisation, `pending` the arrivals that the current phase still
    waits for, `tx` the bytes it still waits for, `expected` the arrivals of every later phase.
    """

    __slots__ = ("expected", "pending", "phase", "tx")

    def __init__(self, count: int) -> None:
        """mbarrier.init with `count` expected arrivals. Faults: `mbarrier-count`."""
        require(1 <= count <= COUNT_MAX, "mbarrier-count", f"mbarrier.init with {count} arrivals, not 1..{COUNT_MAX}")
        self.expected = count
        self.pending = count
        self.phase = 0
        self.tx = 0

    def arrive(self, count: int = 1, *, no_complete: bool = False) -> int:
        """mbarrier.arrive: `count` arrivals; the state token of the phase they were made in.

        Faults: `mbarrier-count`, `mbarrier-over-arrival`, `mbarrier-no-complete` (with .noComplete, where the
        arrivals would complete the phase).
        """
        self._check_arrivals(count)
        completes = count == self.pending and self.tx == 0
        require(
            not (no_complete and completes),
            "mbarrier-no-complete",
            f"an arrival of {count} with .noComplete completes the phase",
        )
        token = self.phase << _PENDING_BITS | self.pending
        self.pending -= count
        self._advance()
        return token

    def arrive_drop(self, count: int = 1, *, no_complete: bool = False) -> int:
        """mbarrier.arrive_drop: as `arrive`, and every later phase expects `count` arrivals fewer.

        A barrier that all participants have dropped expects nobody; any further arrival is then one too many.
        """
        self._check_arrivals(count)
        require(
            count <= self.expected,
            "mbarrier-count",
            f"arrive_drop of {count} where only {self.expected} arrivals are expected",
        )
        self.expected -= count
        return self.arrive(count, no_complete=no_complete)

    def expect_tx(self, size: int) -> None:
        """mbarrier.expect_tx: the current phase waits for `size` bytes more. Faults: `mbarrier-tx`, `mbarrier-late-tx`.

        Only arrive-on and complete-tx are said to complete a phase. Where an expectation meets the conditions, after
        the last arrival and after bytes that came early, the ISA does not say what happens: a fault.
        """
        require(0 <= size <= TX_MAX, "mbarrier-tx", f"{size} bytes are expected at once, not 0..{TX_MAX}")
        require(
            self.pending > 0 or self.tx + size != 0,
            "mbarrier-late-tx",
            f"{size} bytes are expected after the last arrival of phase {self.phase} and after they have landed",
        )
        self._set_tx(self.tx + size)

    def arrive_expect_tx(self, size: int, count: int = 1) -> int:
        """mbarrier.arrive.expect_tx: the expectation first, then the arrival; the state token."""
        self._check_arrivals(count)
        self.expect_tx(size)
        return self.arrive(count)

    def complete_tx(self, size: int) -> None:
        """`size` bytes of an asynchronous operation have landed (or mbarrier.complete_tx). Faults: `mbarrier-tx`."""
        require(0 <= size <= TX_MAX, "mbarrier-tx", f"{size} bytes land at once, not 0..{TX_MAX}")
        self._set_tx(self.tx - size)
        self._advance()

    def test_parity(self, parity: int) -> bool:
        """mbarrier.{test,try}_wait.parity: has the phase of that parity completed?

        Even phases have parity 0. Only the current phase, which is incomplete, and the one before it, which is
        complete, can be told apart: a wait that is two phases late gets the answer of the wrong phase, as on the chip.
        """
        require(parity in (0, 1), "mbarrier-parity", f"phaseParity is {parity}, not 0 or 1")
        return (self.phase & 1) != parity

    def test_state(self, token: int) -> bool:
        """mbarrier.{test,try}_wait with a state token of the current or the phase before it."""
        issued = token_phase(token)
        require(
            issued in (self.phase, self.phase - 1),
            "mbarrier-stale-state",
            f"a state of phase {issued} is waited for in phase {self.phase}",
        )
        return issued < self.phase

    def _check_arrivals(self, count: int) -> None:
        require(1 <= count <= COUNT_MAX, "mbarrier-count", f"an arrival of {count}, not 1..{COUNT_MAX}")
        require(
            count <= self.pending,
            "mbarrier-over-arrival",
            f"an arrival of {count} in phase {self.phase}, which waits for {self.pending} more of {self.expected}",
        )

    def _set_tx(self, tx: int) -> None:
        require(abs(tx) <= TX_MAX, "mbarrier-tx", f"the transaction count becomes {tx}, beyond +-{TX_MAX}")
        self.tx = tx

    def _advance(self) -> None:
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.pending = self.expected


class Mbarriers:
    """The mbarrier objects of one CTA by shared byte address.

    `mbarrier.init` is an ordinary write: only behind a fence may asynchronous operations use what it made. Whose fence
    is not asked.
    """

    def __init__(self) -> None:
        self._objects: dict[int, Mbarrier] = {}
        self._unpublished: set[int] = set()

    def publish(self) -> None:
        """fence.mbarrier_init or fence.proxy.async."""
        self._unpublished.clear()

    def at_async(self, address: int) -> Mbarrier:
        """The object that an asynchronous operation uses. Faults: as `at`, `mbarrier-unpublished`."""
        require(
            address not in self._unpublished,
            "mbarrier-unpublished",
            f"an asynchronous operation uses the mbarrier at {address:#x} with no fence.mbarrier_init or "
            "fence.proxy.async since its mbarrier.init",
        )
        return self.at(address)

    def init(self, address: int, count: int) -> Mbarrier:
        """mbarrier.init. Faults: `mbarrier-alignment`, `mbarrier-live`, `mbarrier-count`."""
        self._check_alignment(address)
        require(
            address not in self._objects,
            "mbarrier-live",
            f"mbarrier.init of the mbarrier at {address:#x}, which is initialised and was not invalidated",
        )
        barrier = self._objects[address] = Mbarrier(count)
        self._unpublished.add(address)
        return barrier

    def at(self, address: int) -> Mbarrier:
        """The object that an operation other than init uses. Faults: `mbarrier-alignment`, `mbarrier-uninitialised`."""
        self._check_alignment(address)
        barrier = self._objects.get(address)
        if barrier is None:
            raise UnitFault(
                "mbarrier-uninitialised",
                f"the mbarrier at {address:#x} is used before mbarrier.init or after mbarrier.inval",
            )
        return barrier

    def inval(self, address: int) -> None:
        """mbarrier.inval: the memory may be used for anything again. Faults as `at`."""
        self.at(address)
        del self._objects[address]
        self._unpublished.discard(address)

    @staticmethod
    def _check_alignment(address: int) -> None:
        require(
            address % SIZE == 0, "mbarrier-alignment", f"an mbarrier at {address:#x}, which is not {SIZE}-byte aligned"
        )
