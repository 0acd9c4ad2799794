"""Ordinary writes over what an MMA of the same warpgroup has read: the four warps meet first.

Rules (PTX ISA, "wgmma.wait_group": it waits for the groups of the executing threads)
    U1  A warp that has waited for an MMA knows that its own part is complete, not that of the other three warps, whose
        parts read the same shared operands. A write by ordinary stores to a buffer that an MMA of the writing warpgroup
        has read, with no barrier of the warpgroup in between, is preceded by one.
    U2  Writers of other warpgroups are ordered by the program's events; the copy engine's writes by the same, or by the
        barrier that its lowering puts before them.
    U3  The barrier stands where whole warpgroups run: in front of the outermost loop, branch or map that holds the
        write and no MMA.

Needs: moves, mma (what is read and written, and the barriers of moves). Before fences, which look at barriers. Adds
barriers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op
from croq.ir.hw import Section, WgmmaIssue
from croq.ir.objects import Buffer, Kernel, View
from croq.ir.scalar import For, If, While
from croq.ir.types import ThreadSet
from croq.passes.analysis.barriers import barrier_each
from croq.passes.base import Pass

State = dict[Buffer, ThreadSet]  # read by MMAs of these threads, which have not met since


@dataclass(frozen=True)
class Reuse(Pass):
    name: ClassVar[str] = "reuse"

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        if any(isinstance(op, WgmmaIssue) for op in kernel.walk()):
            _Flow(kernel, sink).block(kernel.body, {})


@dataclass
class _Flow:
    kernel: Kernel
    sink: Sink
    inserting: bool = True
    escapes: list[State] = field(default_factory=list)  # of the loops around: states at `break` and `continue`

    def block(self, block: Block, state: State) -> State:
        result: list[Op] = []
        for op in block.ops:
            if self.escapes and any(inner.CONTROL == "exit" for inner in op.walk()):
                self.escapes[-1] = _union(self.escapes[-1], state)
            if _descends(op):
                state = self.inside(op, state)
            else:
                barriers = self.before(op, state)
                result += barriers
                state = _after(op, _met(state, op.threads) if barriers else state)
            result.append(op)
        if self.inserting:
            block.ops[:] = result
        return state

    def before(self, op: Op, state: State) -> list[Op]:
        """U1, U3."""
        threads = op.threads
        if threads is None or not threads.whole_warpgroups():
            return []
        if not any(len(state.get(buffer, ThreadSet(())) & threads) for buffer in _written(op)):
            return []
        if not self.inserting:
            return [op]  # only whether there is one counts
        return barrier_each(self.kernel, threads.warpgroups(), op.span, self.sink)

    def inside(self, op: Op, state: State) -> State:
        if isinstance(op, If):
            after = self.block(op.then, state)
            return _union(after, self.block(op.otherwise, state) if op.otherwise is not None else state)
        if isinstance(op, (For, While)):
            return self.loop(op, state)
        assert isinstance(op, Section)
        after = self.block(op.body, state)
        return _union(state, after) if op.condition is not None else after

    def loop(self, op: For | While, state: State) -> State:
        inserting, self.inserting = self.inserting, False
        while (head := _union(state, self.iteration(op, state))) != state:
            state = head
        self.inserting = inserting
        return _union(state, self.iteration(op, state))

    def iteration(self, op: For | While, state: State) -> State:
        """What holds at the end of one iteration, or where it is left."""
        self.escapes.append({})
        for region in op.regions():
            state = self.block(region, state)
        return _union(state, self.escapes.pop())


def _descends(op: Op) -> bool:
    """Control flow is entered where MMAs are in it; all else is taken as a whole."""
    if isinstance(op, Section):
        return True
    return isinstance(op, (If, For, While)) and any(isinstance(inner, WgmmaIssue) for inner in op.walk())


def _written(op: Op) -> Iterator[Buffer]:
    """Buffers that the operation, or one inside it, writes by ordinary stores."""
    for effect in op.effects():
        if effect.kind == "write" and effect.until is None and isinstance(effect.root, Buffer):
            yield effect.root


def _after(op: Op, state: State) -> State:
    if op.MEETS == "threads":
        return _met(state, op.threads)
    if isinstance(op, WgmmaIssue) and op.threads is not None:
        read = {v.root: op.threads for v in (op.a, op.b) if isinstance(v, View) and isinstance(v.root, Buffer)}
        return _union(state, read)
    return state


def _met(state: State, threads: ThreadSet | None) -> State:
    """After a barrier of `threads`."""
    if threads is None:
        return state
    return {buffer: left for buffer, readers in state.items() if len(left := readers - threads)}


def _union(a: State, b: State) -> State:
    joined = dict(a)
    for buffer, readers in b.items():
        joined[buffer] = joined.get(buffer, ThreadSet(())) | readers
    return joined
