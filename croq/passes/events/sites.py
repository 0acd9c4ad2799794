"""Who waits for an event, who triggers it, and which loads complete it; and where implicit generations are counted."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from croq.diagnostics import Sink
from croq.ir.core import Block, Op, Value
from croq.ir.hw import Section
from croq.ir.objects import Event, Kernel, View
from croq.ir.tile import EventTrigger, EventWait, FutureWait, Move, TmaLoad
from croq.ir.types import BYTES, ThreadSet


@dataclass
class Load:
    """A TMA load and what completes with it."""

    op: TmaLoad
    event: Event
    trigger: EventTrigger | None  # None: an event of its own (B7)
    leads: bool = True  # the first load of its trigger: it announces the bytes of all
    total_bytes: int = 0


@dataclass(frozen=True)
class Place:
    """Where an operation stands: the outermost role around it, unless a loop repeats that role; None is the CTA."""

    section: Section | None = None
    in_loop: bool = False

    def enter(self, op: Op) -> Place:
        """The place of the code in the operation's regions."""
        if isinstance(op, Section) and op.role and self == Place():
            return Place(op)
        return Place(self.section, self.in_loop or op.CONTROL == "loop")


@dataclass
class Sites:
    """Of one kernel. `add_loads` gives every TMA load its event, and adds events where there are none."""

    kernel: Kernel
    waits: dict[Event, list[EventWait | FutureWait | TmaLoad]] = field(default_factory=lambda: defaultdict(list))
    triggers: dict[Event, list[EventTrigger]] = field(default_factory=lambda: defaultdict(list))
    loads: dict[TmaLoad, Load] = field(default_factory=dict)
    producer: dict[Value, Move] = field(default_factory=dict)
    own_event: dict[Value, Event] = field(default_factory=dict)  # future -> its event (B7)
    own_load: dict[Event, TmaLoad] = field(default_factory=dict)
    by_warp: set[Event] = field(default_factory=set)  # whose triggers arrive once a warp (B4)
    places: dict[Op, Place] = field(default_factory=dict)  # of waits and loads

    def __post_init__(self) -> None:
        self._index(self.kernel.body, Place())

    def _index(self, block: Block, place: Place) -> None:
        for op in block.ops:
            if isinstance(op, (EventWait, FutureWait, TmaLoad)):
                self.places[op] = place
            if isinstance(op, EventWait):
                for ref in op.refs:
                    self.waits[ref.event].append(op)
            elif isinstance(op, EventTrigger):
                for ref in op.refs:
                    self.triggers[ref.event].append(op)
            elif isinstance(op, Move) and op.future is not None:
                self.producer[op.future] = op
            for region in op.regions():
                self._index(region, place.enter(op))

    def add_loads(self, sink: Sink) -> None:
        """Bind every TMA load to an event: the one that its trigger names, or one of its own."""
        order = {op: n for n, op in enumerate(self.kernel.walk())}
        for op in order:
            if isinstance(op, EventTrigger) and op.after:
                self._bind(op, order)
        waits: dict[Value, list[FutureWait]] = defaultdict(list)
        for op in order:
            for future in op.futures if isinstance(op, FutureWait) else ():
                waits[future].append(op)
        for op in order:
            if isinstance(op, TmaLoad) and op not in self.loads:
                self._add_event(op, waits, sink)

    def _bind(self, trigger: EventTrigger, order: dict[Op, int]) -> None:
        producers = [self.producer[f] for f in trigger.after]
        loads = sorted((op for op in producers if isinstance(op, TmaLoad)), key=lambda op: order[op])
        total = sum(tile_bytes(op.dest) for op in loads)
        for n, op in enumerate(loads):
            self.loads[op] = Load(op, trigger.refs[0].event, trigger, n == 0, total)

    def _add_event(self, op: TmaLoad, waits: dict[Value, list[FutureWait]], sink: Sink) -> None:
        event = Event(self.kernel.fresh(_own_name(op)), span=op.span)
        self.kernel.events.append(event)
        self.loads[op] = Load(op, event, None, True, tile_bytes(op.dest))
        self.own_load[event] = op
        if op.future is None:
            self.waits[event].append(op)
        elif waits[op.future]:
            self.own_event[op.future] = event
            self.waits[event] += waits[op.future]
        else:
            sink.error(
                "E-815",
                op.span,
                "this load is never waited for and no event is triggered after it",
                hint="write `trigger EVENT after FUTURE;` or `wait FUTURE;` where threads come",
            )

    def wait_sets(self, event: Event) -> list[ThreadSet | None]:
        return [op.threads for op in self.waits[event]]

    def may_run_twice(self, event: Event) -> bool:
        """Whether a thread may wait for the event more than once."""
        waits = self.waits[event]
        return any(self.places[op].in_loop for op in waits) or _overlap([op.threads for op in waits])


class Paths:
    """B6: which waits count an event's generations together, so that every thread goes through them in order."""

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        self.together = {event for event in sites.waits if self._share(event)}

    def home(self, event: Event, place: Place) -> Section | None:
        """The role whose variable counts the event's generations at the place; None: a variable of the CTA's code."""
        return None if event in self.together else place.section

    def waits_once(self, event: Event, place: Place) -> bool:
        """Whether each thread that comes to the place waits for the event here and never again."""
        home = self.home(event, place)
        places = [self.sites.places[op] for op in self.sites.waits[event]]
        together = [other for other in places if self.home(event, other) is home]
        return len(together) == 1 and not together[0].in_loop

    def _share(self, event: Event) -> bool:
        """Roles count on their own unless a thread may wait in two of them."""
        sections = {self.sites.places[op].section for op in self.sites.waits[event]}
        if len(sections) == 1:
            return False
        return None in sections or _overlap([section.threads for section in sections if section is not None])


def _overlap(sets: list[ThreadSet | None]) -> bool:
    """Whether two of the sets may have a thread in common."""
    seen = ThreadSet(())
    for threads in sets:
        if threads is None:
            return len(sets) > 1
        if len(seen & threads):
            return True
        seen = seen | threads
    return False


def union(sets: list[ThreadSet | None]) -> ThreadSet | None:
    result = ThreadSet(())
    for threads in sets:
        if threads is None:
            return None
        result = result | threads
    return result


def leader(op: TmaLoad) -> ThreadSet | None:
    """The elected thread: the lowest of the active set."""
    if op.threads is None or not len(op.threads):
        return None
    return ThreadSet(((op.threads.first, op.threads.first + 1),))


def tile_bytes(view: View) -> int:
    """Bytes that a transaction of the whole tile counts: out-of-range elements are counted too (and read as zero)."""
    count = BYTES[view.root.type]
    for extent in view.extents:
        count *= extent.known or 1
    return count


def _own_name(op: TmaLoad) -> str:
    return f"{op.future.name}_full" if op.future is not None and op.future.name else f"{op.dest.root.name}_full"
