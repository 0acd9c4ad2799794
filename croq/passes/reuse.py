"""Ordinary writes over what an MMA of the same warpgroup has read: the four warps meet first.

Rules (PTX ISA, "wgmma.wait_group": it waits for the groups of the executing threads)
    U1  A warp that has waited for an MMA knows that its own part is complete, not that of the other three warps, whose
        parts read the same shared operands. A write by ordinary stores to a buffer that an MMA of the writing warpgroup
        has read, with no barrier of the warpgroup in between, is preceded by one.
    U2  Writers of other warpgroups are ordered by the program's events; the copy engine's writes by the same, or by the
        barrier that its lowering puts before them.
    U3  The barrier stands where whole warpgroups run: in front of the outermost loop, branch or map that holds the
        write and no MMA.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Op
from croq.ir.hw import CtaSync, NamedBarrierSync, Section, WgmmaIssue
from croq.ir.objects import Buffer, Kernel, View
from croq.ir.rewrite import by
from croq.ir.types import ThreadSet
from croq.passes.analysis.barriers import barrier_each
from croq.passes.analysis.flow import Forward
from croq.passes.base import Pass

NOBODY = ThreadSet(())
State = dict[Buffer, ThreadSet]  # read by MMAs of these threads, which have not met since


@dataclass(frozen=True)
class Reuse(Pass):
    name: ClassVar[str] = "reuse"
    needs = ("moves", "mma")
    adds = (CtaSync, NamedBarrierSync)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        if any(isinstance(op, WgmmaIssue) for op in kernel.walk()):
            _Flow(kernel, sink).block(kernel.body, {})


class _Flow(Forward[State]):
    def __init__(self, kernel: Kernel, sink: Sink) -> None:
        super().__init__()
        self.kernel, self.sink = kernel, sink

    def join(self, a: State, b: State) -> State:
        return {buffer: a.get(buffer, NOBODY) | b.get(buffer, NOBODY) for buffer in {**a, **b}}

    def enters(self, op: Op) -> bool:
        """Control flow is entered where MMAs are in it; all else is taken as a whole."""
        has_mma = any(isinstance(inner, WgmmaIssue) for inner in op.walk())
        return isinstance(op, Section) or (has_mma and op.CONTROL in ("branch", "loop"))

    def before(self, op: Op, rest: list[Op], state: State) -> tuple[list[Op], State]:
        """U1, U3."""
        threads = op.threads
        if self.enters(op) or threads is None or not threads.whole_warpgroups():
            return [], state
        if not any(len(state.get(buffer, NOBODY) & threads) for buffer in _written(op)):
            return [], state
        met = _met(state, threads)
        if not self.settled:
            return [], met
        return by("reuse.U1", barrier_each(self.kernel, threads.warpgroups(), op.span, self.sink)), met

    def after(self, op: Op, state: State) -> State:
        if op.MEETS == "threads":
            return _met(state, op.threads)
        if isinstance(op, WgmmaIssue) and op.threads is not None:
            read = {v.root: op.threads for v in (op.a, op.b) if isinstance(v, View) and isinstance(v.root, Buffer)}
            return self.join(state, read)
        return state


def _written(op: Op) -> Iterator[Buffer]:
    """Buffers that the operation, or one inside it, writes by ordinary stores."""
    for effect in op.effects():
        if effect.kind == "write" and effect.until is None and isinstance(effect.root, Buffer):  # U2
            yield effect.root


def _met(state: State, threads: ThreadSet | None) -> State:
    """After a barrier of `threads`."""
    if threads is None:
        return state
    return {buffer: left for buffer, readers in state.items() if len(left := readers - threads)}
