"""The two kinds of barriers, with the counting that the PTX ISA gives them ("mbarrier", "bar, barrier")."""

from __future__ import annotations

from croq.ir.core import Op
from croq.ir.objects import Event
from croq.simulate.faults import fault
from croq.target.cuda import MBARRIER_MAX_TX, WARP


class Mbarrier:
    """One slot of an event. `phase` counts completed phases; its parity is what waits are about.

    A phase completes when no arrival is pending and the transaction count is zero. The transaction count may go below
    zero for a while: bytes may land before they are expected, as long as an arrival is still pending.
    """

    __slots__ = ("event", "expected", "last", "phase", "slot", "tx", "waiting_for")

    def __init__(self, event: Event, slot: int) -> None:
        self.event = event
        self.slot = slot
        self.expected = 0  # 0: not initialised
        self.waiting_for = 0  # pending arrivals of the current phase
        self.tx = 0
        self.phase = 0
        self.last: Op | None = None  # the arrival that completed the last phase

    @property
    def name(self) -> str:
        return f"{self.event.name}[{self.slot}]" if self.event.array or self.event.slots > 1 else self.event.name

    def init(self, count: int, op: Op) -> None:
        if self.expected:
            raise fault("E-5016", op, f"the barrier of `{self.name}` is initialised twice")
        if count < 1:
            raise fault("E-5016", op, f"the barrier of `{self.name}` is initialised with {count} arrivals")
        self.expected = self.waiting_for = count

    def check(self, op: Op) -> None:
        if not self.expected:
            raise fault(
                "E-5016",
                op,
                f"the barrier of `{self.name}` is used before it is initialised",
                notes=["one thread initialises all barriers, and the CTA synchronises, before any other use"],
            )

    def arrive(self, count: int, op: Op) -> None:
        self.expect(count, 0, op)

    def expect(self, count: int, size: int, op: Op) -> None:
        """`count` arrivals, each of which expects `size` bytes more."""
        self.check(op)
        if count > self.waiting_for:
            raise self._too_many(count, op)
        self.tx += count * size
        if abs(self.tx) > MBARRIER_MAX_TX:
            raise fault("E-5015", op, f"`{self.name}` expects {self.tx} bytes; a barrier counts to {MBARRIER_MAX_TX}")
        self.waiting_for -= count
        self._advance(op)

    def complete(self, size: int, phase: int, op: Op) -> None:
        """`size` bytes of an operation that was issued in `phase` have landed."""
        self.check(op)
        if phase != self.phase:
            raise fault(
                "E-5015",
                op,
                f"{size} bytes land on `{self.name}` after the phase of their issue has completed",
                notes=[
                    f"issued in phase {phase}, landed in phase {self.phase}: fewer bytes were expected than are moved"
                ],
            )
        self.tx -= size
        self._advance(op)

    def done(self, parity: int) -> bool:
        """mbarrier.try_wait.parity: the phase of that parity has completed."""
        return (self.phase & 1) != (parity & 1)

    def _advance(self, op: Op) -> None:
        if self.waiting_for:
            return
        if self.tx < 0:
            raise fault(
                "E-5015",
                op,
                f"more bytes land on `{self.name}` than were expected: {-self.tx} too many in phase {self.phase}",
                notes=["the transaction count went below zero with no arrival pending: the phase can never complete"],
            )
        if self.tx == 0:
            self.phase += 1
            self.waiting_for = self.expected
            self.last = op

    def _too_many(self, count: int, op: Op) -> Exception:
        return fault(
            "E-5014",
            op,
            f"too many arrivals at `{self.name}`: {count} more where {self.waiting_for} of {self.expected} are pending",
            notes=[
                f"phase {self.phase} is still incomplete because {self.tx} bytes have not landed"
                if self.tx
                else f"one generation takes {self.expected} arrivals"
            ],
            hint="the number of arrivals in one generation must be what the barrier was initialised with",
        )

    def describe(self, parity: int) -> str:
        have = self.expected - self.waiting_for
        bytes_ = f", {self.tx} bytes still to come" if self.tx else ""
        return (
            f"`{self.name}` to complete its phase {self.phase} (parity {parity & 1}): "
            f"{have} of {self.expected} arrivals{bytes_}"
        )


class NamedBarrier:
    """bar.sync / bar.arrive with one id. Arrivals count whole warps: 32 threads each."""

    __slots__ = ("arrived", "count", "generation", "id", "name", "there")

    def __init__(self, id_: int, name: str) -> None:
        self.id = id_
        self.name = name
        self.count = 0  # of the generation under way; 0: nobody has arrived
        self.arrived = 0
        self.generation = 0
        self.there: set[int] = set()  # warps of the generation under way

    def arrive(self, count: int, op: Op, warp: int = 0) -> bool:
        """One warp arrives for a generation of `count` threads; True when that completes it."""
        if count % WARP or count <= 0:
            raise fault("E-5017", op, f"{self.name} is used with {count} threads, no positive multiple of 32")
        if self.arrived and count != self.count:
            raise fault(
                "E-5017",
                op,
                f"{self.name} is used with {count} threads while {self.count} are awaited",
                notes=[f"{self.arrived} threads have arrived with the other count"],
            )
        self.count = count
        self.arrived += WARP
        self.there.add(warp)
        if self.arrived == count:
            self.arrived = 0
            self.there.clear()
            self.generation += 1
            return True
        return False

    def describe(self) -> str:
        return f"{self.name}: {self.arrived} of {self.count} threads have arrived"


class Barriers:
    """All barriers of one CTA, by event and by id."""

    def __init__(self, events: list[Event]) -> None:
        self.mbarriers: dict[Event, list[Mbarrier]] = {
            event: [Mbarrier(event, slot) for slot in range(event.slots)] for event in events
        }
        self.named: dict[int, NamedBarrier] = {}

    def slot(self, event: Event, slot: int, op: Op) -> Mbarrier:
        slots = self.mbarriers[event]
        if not 0 <= slot < len(slots):
            raise fault("E-5012", op, f"slot {slot} of event `{event.name}`, which has {len(slots)}")
        return slots[slot]

    def barrier(self, id_: int, event: Event | None) -> NamedBarrier:
        found = self.named.get(id_)
        if found is None:
            name = "the barrier of the CTA" if id_ == 0 else f"named barrier {id_}"
            if event is not None:
                name += f" of `{event.name}`"
            found = self.named[id_] = NamedBarrier(id_, name)
        return found
