"""Threads that wait together for a phase stay within one phase of one another.

A parity tells a phase from the one before it only (PTX ISA, "mbarrier.try_wait"). A thread that waits for completion T
must therefore have returned before completion T + 1 can happen: that completion must depend on its return. What a
thread lets others depend on, it *publishes*: arrivals, and loads that it issues.

Rules
    K1  Where threads wait for an mbarrier together, and a part of them publishes what the next completion depends on,
        all of them meet before that part does; else the others could be left behind. They meet at a barrier of exactly
        these threads, `__syncwarp` within one warp, as late as their block allows.
    K2  What all of them publish, with one arrival a warp or a thread, leaves nobody behind; and a barrier that is there
        for another reason does as well.
    K3  A completion depends on what is published on its own event, and on the events that the roles which bring it
        about wait for, and so on; what the waiting role itself does in between, it publishes in turn.
    K4  Threads that wait for different slots have nothing to meet for. Roles that only feed have narrowed their waits
        to the thread that issues before (`narrow`), which is cheaper.
    K5  Roles that go in rounds, one iteration each, keep step by themselves where all who wait for e publish x in every
        round, and the role that brings e about waits for that x in every round, in time: a wait for a ready event of N
        slots in round r is for what was published in round r - N, one for another event for round r. So after a wait
        for e in round r the next completion of its slot comes in round r - (N of e, if ready) + slots of e, and it must
        not come before the round in which x of round r is waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op
from croq.ir.hw import CtaSync, Elect, MbarrierWait, NamedBarrierSync, Section, WarpSync
from croq.ir.objects import Event, Kernel
from croq.ir.rewrite import by
from croq.ir.scalar import If
from croq.ir.types import ThreadSet
from croq.passes.analysis.barriers import barrier
from croq.passes.analysis.flow import Forward
from croq.passes.analysis.threads import ThreadAnalysis
from croq.passes.base import Pass

State = dict[MbarrierWait, ThreadSet]  # waits whose threads may be apart since


@dataclass(frozen=True)
class Pace(Pass):
    name: ClassVar[str] = "pace"
    needs = ("moves", "mma", "narrow", "reuse")
    adds = (CtaSync, NamedBarrierSync, WarpSync)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        _Flow(kernel, sink).run()


class _Flow(Forward[State]):
    """Where barriers are missing. One behind a wait changes what reaches other places: then all is followed anew."""

    def __init__(self, kernel: Kernel, sink: Sink) -> None:
        super().__init__()
        self.kernel, self.sink = kernel, sink
        self.analysis = ThreadAnalysis(kernel)
        self.dependences = Dependences(kernel)
        self.rounds = Rounds(kernel, self.dependences.home)
        self.parting = {op for op in kernel.walk() if isinstance(op, MbarrierWait) and self._may_part(op)}
        self.around: dict[Op, Block] = {}
        self.publishing: dict[Op, ThreadSet | None] = {}  # where threads may have to meet first -> who comes there
        self.in_front: list[tuple[Op, list[MbarrierWait]]] = []  # of an operation, for these waits
        self.behind: dict[MbarrierWait, list[MbarrierWait]] = {}
        self.known = -1  # of `behind`, when this walk began
        self._index(kernel.body, ThreadSet.all(kernel.threads))

    def _index(self, block: Block, threads: ThreadSet | None) -> bool:
        """Whether anything is published in the block."""
        any_publishes = False
        for op in block.ops:
            self.around[op] = block
            executing = [_threads_of(op, region) for region in op.regions()]
            parts = [self._index(region, who) for region, who in zip(op.regions(), executing, strict=True)]
            publishes = any(parts) or bool(op.feeds)
            if publishes and (not self.enters(op) or not parts or any(who != threads for who in executing)):
                self.publishing[op] = threads
            any_publishes |= publishes
        return any_publishes

    def run(self) -> None:
        while self.known < len(self.behind):
            self.known = len(self.behind)
            self.in_front.clear()
            self.block(self.kernel.body, {})
        for op, met in self.in_front:
            self._put(self.around[op].ops, self.around[op].ops.index(op), met)
        for wait, met in self.behind.items():
            self._put(self.around[wait].ops, self.around[wait].ops.index(wait) + 1, met)

    def _put(self, ops: list[Op], at: int, met: list[MbarrierWait]) -> None:
        threads = met[0].threads
        assert threads is not None
        ops[at:at] = by("pace.K1", barrier(self.kernel, threads, met[0].span, self.sink))
        for wait in met:
            line = f" of line {wait.span.line}" if wait.span is not None else ""
            wait.event.why += f"; its waiters{line} meet before one of them goes on for all (pace.K1)"

    def join(self, a: State, b: State) -> State:
        return {**a, **b}

    def enters(self, op: Op) -> bool:
        return not isinstance(op, Elect)

    def before(self, op: Op, rest: list[Op], state: State) -> tuple[list[Op], State]:
        """K1: who would be left behind by what the operation publishes meets first."""
        if not state or op not in self.publishing:
            return [], state
        published = [found for inner in op.walk() for found in _own(inner)]
        while (wait := self._left_behind(published, state)) is not None:
            met = self._place(op, wait, [w for w, who in state.items() if who == state[wait]])
            state = {w: who for w, who in state.items() if w not in met}
        return [], state

    def _left_behind(self, published: list[tuple[Event, ThreadSet | None]], state: State) -> MbarrierWait | None:
        for wait, waiting in state.items():
            for event, who in published:
                part = who is not None and len(who & waiting) and not _covers(who, waiting)
                if part and event in self.dependences.needs(wait):
                    return wait
        return None

    def _place(self, op: Op, wait: MbarrierWait, same: list[MbarrierWait]) -> list[MbarrierWait]:
        """In front of the operation where exactly these threads come to it, else behind their last wait. Who meets."""
        if self.publishing[op] == wait.threads:
            if self.settled:
                self.in_front.append((op, same))
            return same
        block = self.around[wait]
        met = [w for w in same if self.around[w] is block]
        if len(self.behind) == self.known:
            self.behind.setdefault(max(met, key=block.ops.index), met)
        return met

    def after(self, op: Op, state: State) -> State:
        """K2."""
        if not isinstance(op, MbarrierWait):
            return state if op.MEETS is None else _met(state, op.threads, op.MEETS == "warp")
        if op in self.behind:
            return _met(state, op.threads, False)
        return {**state, op: op.threads} if op.threads and op in self.parting else state

    def _may_part(self, op: MbarrierWait) -> bool:
        """K4, K5."""
        if op.threads is None or self.rounds.tie(op):
            return False
        slot = [] if op.slot is None or isinstance(op.slot, int) else [op.slot]
        return len(op.threads) > 1 and len(self.analysis.groups(slot, op.threads)) == 1


def _met(state: State, threads: ThreadSet | None, alone: bool) -> State:
    """Behind a barrier of the threads, or of each of their warps alone."""
    return {w: who for w, who in state.items() if (alone and len(who.warps()) > 1) or not _covers(threads, who)}


def _threads_of(op: Op, region: Block) -> ThreadSet | None:
    """Who executes a region of the operation."""
    if isinstance(op, If):
        return next((inner.threads for inner in region.ops if not isinstance(inner, Section)), None)
    return op.threads


@dataclass
class Dependences:
    """K3: which events the completions of an event depend on."""

    kernel: Kernel
    roles: list[tuple[Section | None, list[Op]]] = field(default_factory=list)  # None: the CTA's own code
    home: dict[Op, Section | None] = field(default_factory=dict)
    known: dict[Section | None, dict[Event, set[Event]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.roles = [(None, []), *((op, list(op.body.walk())) for op in _outer_roles(self.kernel.body))]
        inside = {op for _, ops in self.roles for op in ops}
        self.roles[0][1].extend(op for op in self.kernel.walk() if op not in inside)
        self.home = {op: role for role, ops in self.roles for op in ops}

    def needs(self, wait: MbarrierWait) -> set[Event]:
        """What the wait's event needs, beside what the waiting role does itself in between: that it publishes too."""
        role = self.home[wait]
        if role not in self.known:
            self.known[role] = self._without(role)
        return self.known[role][wait.event]

    def _without(self, waiting: Section | None) -> dict[Event, set[Event]]:
        needs: dict[Event, set[Event]] = {event: {event} for event in self.kernel.events}
        everywhere = self.roles[0][1]
        for role, ops in self.roles:
            if role is not waiting:
                waits = {event for op in [*everywhere, *ops] for event in op.awaits}
                for event, _ in (found for op in ops for found in _own(op)):
                    needs[event] |= waits
        while True:
            size = sum(map(len, needs.values()))
            for known in needs.values():
                known |= {far for near in known for far in needs[near]}
            if sum(map(len, needs.values())) == size:
                return needs


class Rounds:
    """K5: which waits are in step by what all of their threads publish. What it says is judged by the verifier; a wait
    of which it says nothing costs a barrier."""

    def __init__(self, kernel: Kernel, home: dict[Op, Section | None]) -> None:
        self.home = home
        self.order = {op: n for n, op in enumerate(kernel.walk())}
        self.loops: dict[Op, tuple[Op, ...] | None] = {}  # around the operation; None under a condition
        self._index(kernel.body, ())
        self.waits = [op for op in self.order if op.awaits]
        self.publications = [(op, event, threads) for op in self.order for event, threads in _own(op)]

    def _index(self, block: Block, loops: tuple[Op, ...] | None) -> None:
        for op in block.ops:
            self.loops[op] = loops
            inner = loops
            if isinstance(op, If) and not isinstance(op.then.ops[0] if op.then.ops else None, NamedBarrierSync):
                inner = None
            elif op.CONTROL == "loop" and loops is not None:
                inner = (*loops, op)
            for region in op.regions():
                self._index(region, inner)

    def tie(self, wait: MbarrierWait) -> bool:
        role, event = self.home[wait], wait.event
        sources = {self.home[op] for op, e, _ in self.publications if e is event}
        if len(sources) != 1 or role in sources or self._waits(role, event) != [wait]:
            return False
        (source,) = sources
        feed = [op for op, e, _ in self.publications if e is event]
        answers = {
            e
            for op, e, who in self.publications
            if self.home[op] is role and _covers(who, wait.threads or ThreadSet(()))
        }
        return any(self._in_time(wait, feed[0], role, source, answer) for answer in answers)

    def _in_time(
        self, wait: MbarrierWait, feed: Op, role: Section | None, source: Section | None, answer: Event
    ) -> bool:
        given = [op for op, e, _ in self.publications if e is answer and self.home[op] is role]
        taken = self._waits(source, answer)
        if (
            len(given) != 1
            or len(taken) != 1
            or not self._together(wait, given[0])
            or not self._together(feed, taken[0])
        ):
            return False
        late = (self.order[taken[0]] > self.order[feed]) + (self.order[given[0]] < self.order[wait])
        return wait.event.slots - _offset(wait.event) - _offset(answer) - late >= 0

    def _waits(self, role: Section | None, event: Event) -> list[Op]:
        return [op for op in self.waits if event in op.awaits and self.home[op] is role]

    def _together(self, one: Op, other: Op) -> bool:
        return self.loops[one] is not None and self.loops[one] == self.loops[other]


def _offset(event: Event) -> int:
    """How many rounds before a wait what it waits for was published."""
    return event.slots if event.ready else 0


def _outer_roles(block: Block) -> Iterator[Section]:
    for op in block.ops:
        if isinstance(op, Section) and op.role:
            yield op
        else:
            for region in op.regions():
                yield from _outer_roles(region)


def _own(op: Op) -> Iterator[tuple[Event, ThreadSet | None]]:
    for event in op.feeds:
        yield event, op.threads


def _covers(threads: ThreadSet | None, others: ThreadSet) -> bool:
    return threads is not None and not len(others - threads)
