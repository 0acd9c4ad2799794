"""Threads that wait together for a phase stay within one phase of one another.

A parity tells a phase from the one before it only (PTX ISA, "mbarrier.try_wait"). A thread that waits for completion T
must therefore have returned before completion T + 1 can happen: that completion must depend on its return. What a
thread lets others depend on, it *publishes*: arrivals, and loads that it issues.

Rules
    K1  Where threads wait for an mbarrier together, and a part of them publishes what the next completion depends on,
        all of them meet before that part does; else the others could be left behind. They meet at a barrier of exactly
        these threads, `__syncwarp` within one warp, as late as their block allows.
    K2  What they publish together, with one arrival a warp or a thread, ties them all, and so does a barrier that is
        there for another reason.
    K3  A completion depends on what is published on its own event, and on the events that the roles which bring it
        about wait for, and so on; what the waiting role itself does in between, it publishes in turn.
    K4  Threads that wait for different slots have nothing to meet for. Roles that only feed have narrowed their waits
        to the thread that issues before (`narrow`), which is cheaper.

Needs: moves, mma, reuse (whose barriers may do). Before fences, which look at barriers. Adds barriers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op
from croq.ir.hw import (
    BulkTensorLoad,
    CtaSync,
    Elect,
    MbarrierArrive,
    MbarrierExpectTx,
    MbarrierWait,
    NamedBarrierArrive,
    NamedBarrierSync,
    Section,
    WarpSync,
)
from croq.ir.objects import Event, Kernel
from croq.ir.scalar import For, While
from croq.ir.types import ThreadSet
from croq.passes.barriers import barrier
from croq.passes.base import Pass
from croq.passes.threads import ThreadAnalysis

_PUBLISHES = (MbarrierArrive, MbarrierExpectTx, BulkTensorLoad, NamedBarrierArrive)
_WAITS = (MbarrierWait, NamedBarrierSync)


@dataclass(frozen=True)
class _Waited:
    """A wait whose threads may be apart since."""

    wait: MbarrierWait
    threads: ThreadSet
    block: Block


@dataclass(frozen=True)
class Pace(Pass):
    name: ClassVar[str] = "pace"

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        _Flow(kernel, sink, ThreadAnalysis(kernel), Dependences(kernel)).block(kernel.body, [])


@dataclass
class _Flow:
    kernel: Kernel
    sink: Sink
    analysis: ThreadAnalysis
    dependences: Dependences

    def block(self, block: Block, waited: list[_Waited]) -> list[_Waited]:
        for op in list(block.ops):
            regions = [] if isinstance(op, Elect) else list(op.regions())
            if not regions or any(inner.threads != op.threads for region in regions for inner in region.ops):
                waited = self.meet(block, op, waited)
            waited = self.inside(op, regions, waited) if regions else self.after(block, op, waited)
        return waited

    def inside(self, op: Op, regions: list[Block], waited: list[_Waited]) -> list[_Waited]:
        """A loop is walked twice: its second iteration comes behind its first."""
        after = list(waited)
        for _ in range(2 if isinstance(op, (For, While)) else 1):
            before = list(after)
            for region in regions:
                after += [w for w in self.block(region, list(before)) if w not in after]
        return after

    def after(self, block: Block, op: Op, waited: list[_Waited]) -> list[_Waited]:
        if isinstance(op, MbarrierWait):
            return [*waited, _Waited(op, op.threads, block)] if op.threads and self._may_part(op) else waited
        if isinstance(op, WarpSync):
            return [w for w in waited if len(w.threads.warps()) > 1 or not _covers(op.threads, w.threads)]
        if isinstance(op, (CtaSync, NamedBarrierSync)):
            return [w for w in waited if not _covers(op.threads, w.threads)]
        published = list(_published(op))
        return [w for w in waited if not any(_covers(who, w.threads) and self.matters(e, w) for e, who in published)]

    def _may_part(self, op: MbarrierWait) -> bool:
        """K4."""
        assert op.threads is not None
        slot = [] if op.slot is None or isinstance(op.slot, int) else [op.slot]
        return len(op.threads) > 1 and len(self.analysis.groups(slot, op.threads)) == 1

    def matters(self, published: Event, waited: _Waited) -> bool:
        return published in self.dependences.needs(waited.wait)

    def meet(self, block: Block, op: Op, waited: list[_Waited]) -> list[_Waited]:
        """K1: barriers before the operation, of those whom what it publishes would leave behind."""
        published = list(_published(op))
        for item in waited:
            for event, who in published:
                part = who is not None and len(who & item.threads) and not _covers(who, item.threads)
                if part and self.matters(event, item):
                    self._insert(block, op, item)
                    return self.meet(block, op, [w for w in waited if w.threads != item.threads])
        return waited

    def _insert(self, block: Block, op: Op, waited: _Waited) -> None:
        """Before the operation where exactly these threads come to it, else behind their wait."""
        here = op.threads == waited.threads
        where = block if here else waited.block
        at = block.ops.index(op) if here else where.ops.index(waited.wait) + 1
        where.ops[at:at] = barrier(self.kernel, waited.threads, waited.wait.span, self.sink)
        line = f" of line {waited.wait.span.line}" if waited.wait.span is not None else ""
        waited.wait.event.why += f"; its waiters{line} meet before one of them goes on for all (K1)"


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
                waits = {op.event for op in [*everywhere, *ops] if isinstance(op, _WAITS) and op.event is not None}
                for event, _ in (found for op in ops for found in _own(op)):
                    needs[event] |= waits
        while True:
            size = sum(map(len, needs.values()))
            for known in needs.values():
                known |= {far for near in known for far in needs[near]}
            if sum(map(len, needs.values())) == size:
                return needs


def _outer_roles(block: Block) -> Iterator[Section]:
    for op in block.ops:
        if isinstance(op, Section) and op.role:
            yield op
        else:
            for region in op.regions():
                yield from _outer_roles(region)


def _published(op: Op) -> Iterator[tuple[Event, ThreadSet | None]]:
    yield from _own(op)
    for region in op.regions():
        for inner in region.walk():
            yield from _own(inner)


def _own(op: Op) -> Iterator[tuple[Event, ThreadSet | None]]:
    if isinstance(op, _PUBLISHES) and op.event is not None:
        yield op.event, op.threads


def _covers(threads: ThreadSet | None, others: ThreadSet) -> bool:
    return threads is not None and not len(others - threads)
