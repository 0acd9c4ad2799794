"""Buffers that are given back while an MMA still reads them. A check; it changes nothing.

Rules
    L1  A load into a buffer is guarded by the ready events that its role waits for before it, in the same block: all of
        them must have been triggered before the copy engine may overwrite a slot.
    L2  A trigger by which the last guard of a buffer falls, for the very slot that an MMA in flight reads, is an error
        (E-1121): the next load may land under the MMA. Slots are compared as expressions; where they cannot be shown
        equal (a kernel that releases the previous stage, say) nothing is reported here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op, Value
from croq.ir.hw import (
    BulkTensorLoad,
    Elect,
    MbarrierArrive,
    MbarrierWait,
    NamedBarrierArrive,
    NamedBarrierSync,
    WgmmaCommit,
    WgmmaIssue,
    WgmmaWait,
)
from croq.ir.objects import Buffer, Event, Kernel, View
from croq.ir.scalar import If
from croq.passes.analysis.flow import Forward
from croq.passes.analysis.keys import expression_keys
from croq.passes.base import Pass

State = dict[Value, frozenset[Event]]  # MMA in flight -> events triggered since its issue, on every path


@dataclass(frozen=True)
class Releases(Pass):
    name: ClassVar[str] = "releases"
    needs = ("futures", "moves")

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        guards = _guards(kernel.body)
        if guards:
            _Flow(guards, expression_keys(kernel), sink).block(kernel.body, {})


def _guards(body: Block) -> dict[Buffer, list[frozenset[Event]]]:
    """L1: for each load of a buffer, the ready events waited for before it."""
    found: dict[Buffer, list[frozenset[Event]]] = defaultdict(list)

    def visit(block: Block) -> None:
        waited: set[Event] = set()
        for op in block.ops:
            if isinstance(op, MbarrierWait) and op.event.ready:
                waited.add(op.event)
            elif isinstance(op, If) and (named := _named_wait(op)) is not None:
                waited.add(named)
            elif isinstance(op, (Elect, BulkTensorLoad)):
                for inner in op.walk():
                    if isinstance(inner, MbarrierWait) and inner.event.ready:  # of who issues alone
                        waited.add(inner.event)
                    elif isinstance(inner, BulkTensorLoad) and isinstance(inner.dest.root, Buffer) and waited:
                        found[inner.dest.root].append(frozenset(waited))
            else:
                for region in op.regions():
                    visit(region)

    visit(body)
    return found


def _named_wait(op: If) -> Event | None:
    """The event of a wait that became a named barrier: skipped once, so it stands under a condition."""
    first = op.then.ops[0] if op.then.ops else None
    return first.event if isinstance(first, NamedBarrierSync) else None


class _Flow(Forward[State]):
    def __init__(self, guards: dict[Buffer, list[frozenset[Event]]], keys: dict[Value, Hashable], sink: Sink) -> None:
        super().__init__()
        self.guards = guards
        self.keys = keys
        self.sink = sink
        self.issues: dict[Value, WgmmaIssue] = {}
        self.last_issue: WgmmaIssue | None = None

    def join(self, a: State, b: State) -> State:
        return {f: a.get(f, b.get(f, frozenset())) & b.get(f, a.get(f, frozenset())) for f in {**a, **b}}

    def after(self, op: Op, state: State) -> State:
        if isinstance(op, WgmmaIssue):
            self.last_issue = op
        elif isinstance(op, WgmmaCommit):
            assert op.future is not None and self.last_issue is not None
            self.issues[op.future] = self.last_issue
            return {**state, op.future: frozenset()}
        elif isinstance(op, WgmmaWait):
            return {f: events for f, events in state.items() if f not in op.futures}
        elif isinstance(op, (MbarrierArrive, NamedBarrierArrive)) and op.event is not None:
            state = {f: events | {op.event} for f, events in state.items()}
            self.check(op, op.event, state)
        return state

    def check(self, op: MbarrierArrive | NamedBarrierArrive, event: Event, state: State) -> None:
        slot = op.slot if isinstance(op, MbarrierArrive) else None
        for future, triggered in state.items():
            issue = self.issues[future]
            for view in (issue.a, issue.b):
                if (
                    isinstance(view, View)
                    and isinstance(view.root, Buffer)
                    and self.falls(event, slot, view, triggered)
                ):
                    self.report(op, event, issue, view.root, future)

    def falls(self, event: Event, slot: Value | None, view: View, triggered: frozenset[Event]) -> bool:
        """L2: whether this trigger is the last that a load of the view's slot needs."""
        assert isinstance(view.root, Buffer)
        sites = self.guards.get(view.root, [])
        if not sites or not all(event in guard and guard <= triggered for guard in sites):
            return False
        return self.key(slot) == self.key(view.slot)

    def key(self, slot: Value | int | None) -> Hashable:
        if slot is None:
            return 0
        return slot if isinstance(slot, int) else self.keys.get(slot, id(slot))

    def report(self, op: Op, event: Event, issue: WgmmaIssue, buffer: Buffer, future: Value) -> None:
        name = future.name or "the future"
        self.sink.error(
            "E-1121",
            op.span,
            f"`{event.name}` gives `{buffer.name}` back while an MMA still reads it",
            labels=[(issue.span, "the MMA is issued here")] if issue.span else [],
            notes=[f"once `{event.name}` is complete the next load may overwrite the tile"],
            hint=f"put `wait {name};` before this trigger",
        )
