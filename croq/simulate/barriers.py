"""The two kinds of barriers (croq/target/handshakes.py), and what may not be done to them."""

from __future__ import annotations

from croq.ir.core import Op
from croq.ir.objects import Event, slot_name
from croq.simulate.faults import fault
from croq.target import handshakes
from croq.target.cuda import MBARRIER_MAX_TX, WARP


class Mbarrier(handshakes.Mbarrier):
    """One slot of an event."""

    def __init__(self, event: Event, slot: int) -> None:
        self.event = event
        self.name = slot_name(event, slot)
        self.slot = slot
        self.last: Op | None = None  # the arrival that completed the last phase

    def init(self, count: int, op: Op) -> None:
        if self.expected:
            raise fault("E-5016", op, f"the barrier of `{self.name}` is initialised twice")
        if count < 1:
            raise fault("E-5016", op, f"the barrier of `{self.name}` is initialised with {count} arrivals")
        self.start(count)

    def check(self, op: Op) -> None:
        if not self.expected:
            raise fault(
                "E-5016",
                op,
                f"the barrier of `{self.name}` is used before it is initialised",
                notes=["one thread initialises all barriers, and the CTA synchronises, before any other use"],
            )

    def come(self, count: int, op: Op, size: int = 0) -> None:
        """`count` arrivals, each of which expects `size` bytes more."""
        self.check(op)
        if count > self.pending:
            raise self._too_many(count, op)
        self.expect(count * size)
        if abs(self.tx) > MBARRIER_MAX_TX:
            raise fault("E-5015", op, f"`{self.name}` expects {self.tx} bytes; a barrier counts to {MBARRIER_MAX_TX}")
        self.arrive(count)
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
        self.land(size)
        self._advance(op)

    def _advance(self, op: Op) -> None:
        if self.overdrawn:
            raise fault(
                "E-5015",
                op,
                f"more bytes land on `{self.name}` than were expected: {-self.tx} too many in phase {self.phase}",
                notes=["the transaction count went below zero with no arrival pending: the phase can never complete"],
            )
        if self.advance():
            self.last = op

    def _too_many(self, count: int, op: Op) -> Exception:
        return fault(
            "E-5014",
            op,
            f"too many arrivals at `{self.name}`: {count} more where {self.pending} of {self.expected} are pending",
            notes=[
                f"phase {self.phase} is still incomplete because {self.tx} bytes have not landed"
                if self.tx
                else f"one generation takes {self.expected} arrivals"
            ],
            hint="the number of arrivals in one generation must be what the barrier was initialised with",
        )

    def describe(self, parity: int) -> str:
        have = self.expected - self.pending
        bytes_ = f", {self.tx} bytes still to come" if self.tx else ""
        return (
            f"`{self.name}` to complete its phase {self.phase} (parity {parity & 1}): "
            f"{have} of {self.expected} arrivals{bytes_}"
        )


class NamedBarrier(handshakes.NamedBarrier):
    """bar.sync / bar.arrive with one id."""

    def __init__(self, id_: int, name: str) -> None:
        self.id = id_
        self.name = name
        self.there: set[int] = set()  # warps of the generation under way

    def come(self, count: int, op: Op, warp: int = 0) -> bool:
        """One warp arrives for a generation of `count` threads; True when that completes it."""
        if count % WARP or count <= 0:
            raise fault("E-5017", op, f"{self.name} is used with {count} threads, no positive multiple of 32")
        if not self.fits(count):
            raise fault(
                "E-5017",
                op,
                f"{self.name} is used with {count} threads while {self.count} are awaited",
                notes=[f"{self.arrived} threads have arrived with the other count"],
            )
        self.arrive(count)
        self.there.add(warp)
        if self.advance():
            self.there.clear()
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
