"""How deep each wait for an MMA must be.

Rules (PTX ISA, "wgmma.wait_group")
    F1  Every MMA is a commit group of its own; groups of a warp complete in the order of their commits.
    F2  `wait f` becomes `wait_group d` with the largest d that still guarantees f: the fewest groups committed after f
        on any path that leads here, through branches, loops, `break` and `continue`; loops are followed until nothing
        changes. Waiting for several futures is one wait.
    F3  A wait with depth d also completes every older group. A wait for what an earlier one has completed is dropped.
    F4  Between the issue of an MMA and the first wait that covers it nothing may touch its accumulator, nor write a
        fragment that it reads (E-1120). Another MMA on the same accumulator is in order and may follow (PTX ISA,
        "wgmma").
    F5  The registers of what a wait completes are pinned behind it: the compiler must not move their reads above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op, Value
from croq.ir.hw import WgmmaCommit, WgmmaIssue, WgmmaWait
from croq.ir.objects import Fragment, FragRef, Kernel, Wait
from croq.ir.tile import FutureWait
from croq.passes.analysis.flow import Forward
from croq.passes.base import Pass

State = dict[Value, int]  # future in flight -> fewest groups committed after it on any path


@dataclass(frozen=True)
class Futures(Pass):
    name: ClassVar[str] = "futures"
    needs = ("mma",)
    adds = (WgmmaWait,)
    leaves_no = (FutureWait,)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        flow = _Flow(sink)
        flow.block(kernel.body, {})
        flow.report = True
        flow.block(kernel.body, {})
        kernel.waits.clear()
        _rewrite(kernel.body, flow, kernel.waits)


@dataclass
class _Batch:
    issue: WgmmaIssue

    @property
    def reads(self) -> Fragment | None:
        return self.issue.a.frag if isinstance(self.issue.a, FragRef) else None

    @property
    def frags(self) -> tuple[FragRef, ...]:
        a = self.issue.a
        return (self.issue.acc, a) if isinstance(a, FragRef) else (self.issue.acc,)


class _Flow(Forward[State]):
    """`depth` and `completes` gather what holds on every visit."""

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self.sink = sink
        self.report = False
        self.depth: dict[FutureWait, int] = {}
        self.completes: dict[FutureWait, dict[Value, None]] = {}
        self.batches: dict[Value, _Batch] = {}
        self.last_issue: WgmmaIssue | None = None

    def join(self, a: State, b: State) -> State:
        return {f: min(a.get(f, n), b.get(f, n)) for f, n in {**a, **b}.items()}

    def enters(self, op: Op) -> bool:
        return op.CONTROL != "map"

    def before(self, op: Op, rest: list[Op], state: State) -> tuple[list[Op], State]:
        self.check(op, state)
        return [], state

    def after(self, op: Op, state: State) -> State:
        if isinstance(op, WgmmaIssue):
            self.last_issue = op
        elif isinstance(op, WgmmaCommit):
            assert op.future is not None and self.last_issue is not None
            self.batches[op.future] = _Batch(self.last_issue)
            return {**{f: n + 1 for f, n in state.items()}, op.future: 0}  # F1
        elif isinstance(op, FutureWait):
            return self.wait(op, state)
        return state

    def wait(self, op: FutureWait, state: State) -> State:
        waited = [state[f] for f in op.futures if f in state]
        if not waited:
            return state
        depth = min(waited)
        self.depth[op] = min(depth, self.depth.get(op, depth))
        depth = self.depth[op]
        done = {f: None for f, n in state.items() if n >= depth}  # F3
        self.completes.setdefault(op, {}).update(done)
        return {f: n for f, n in state.items() if f not in done}

    def check(self, op: Op, state: State) -> None:
        """F4."""
        if not self.report or not state:
            return
        effects = op.own_effects() if self.enters(op) else op.effects()
        accesses = {(e.op, e.root): e.kind for e in effects if isinstance(e.root, Fragment)}  # a write comes last
        for (inner, frag), kind in accesses.items():
            self.check_access(inner, frag, kind, state)

    def check_access(self, op: Op, frag: Fragment, kind: str, state: State) -> None:
        for future in state:
            batch = self.batches[future]
            same_accumulator = isinstance(op, WgmmaIssue) and op.acc.frag is frag
            if batch.issue.acc.frag is frag and not same_accumulator:
                what = (
                    f"`{frag.name}` is {'read' if kind == 'read' else 'written'} while an MMA still accumulates into it"
                )
            elif batch.reads is frag and kind == "write":
                what = f"`{frag.name}` is written while an MMA still reads it"
            else:
                continue
            name = future.name or "the future"
            self.sink.error(
                "E-1120",
                op.span,
                what,
                labels=[(batch.issue.span, "the MMA is issued here")] if batch.issue.span else [],
                notes=["an asynchronous MMA may use its registers until it has been waited for"],
                hint=f"put `wait {name};` before this statement",
            )


def _rewrite(block: Block, flow: _Flow, waits: list[Wait]) -> None:
    result: list[Op] = []
    for op in block.ops:
        for region in op.regions():
            _rewrite(region, flow, waits)
        if not isinstance(op, FutureWait):
            result.append(op)
            continue
        names = tuple(f.name for f in op.futures if f.name)
        if op not in flow.depth:
            why = "an earlier wait has completed it already (futures.F3)"
            waits.append(Wait(f"wait_{len(waits)}", names, 0, why, span=op.span))
            continue
        depth = flow.depth[op]
        done = flow.completes[op]
        frags = {ref.frag: ref for future in done for ref in flow.batches[future].frags}
        registers = tuple(frags.values())  # F5
        result.append(WgmmaWait(depth, tuple(done), registers, span=op.span, threads=op.threads, rule="futures.F2"))
        if names:
            younger = f"{depth} younger MMA{'s' if depth != 1 else ''} may be in flight here on every path"
            why = f"{younger if depth else 'no younger MMA is in flight on some path'} (futures.F2)"
            waits.append(Wait(f"wait_{len(waits)}", names, depth, why, span=op.span))
    block.ops[:] = result
