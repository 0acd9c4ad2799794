"""Proxy fences: where ordinary stores to shared memory meet the copy engine or the tensor cores.

Rules (PTX ISA, "Proxies", "fence.proxy.async")
    P1  Only buffers that the async proxy uses matter: operands of WGMMA in shared memory, sources of TMA stores,
        destinations of TMA loads.
    P2  A thread that has written such a buffer by ordinary stores executes `fence.proxy.async` before the next point
        where it lets others go on: an arrival, a barrier; or before it starts the copy itself. Once; with nothing
        written since the last fence, none. A wait for an event lets nobody go on.
    P3  A WGMMA that reads what its own warpgroup wrote without a barrier in between gets the fence and a barrier of the
        warpgroup, in front of its `wgmma.fence`: all four warps write, each warp's instruction reads.
    P4  Loads by TMA need none: they are the async proxy, and its completion on an mbarrier is what waiters acquire.
    P5  Global memory is not followed: a parameter that a kernel both writes by ordinary stores and loads by TMA is
        E-2108.

Needs: moves, mma, events. Adds fences and those barriers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Effect, Op
from croq.ir.hw import Elect, ProxyFence, Section, WgmmaFence
from croq.ir.objects import Buffer, Kernel, Param
from croq.ir.scalar import Break, Continue, For, If, While
from croq.ir.types import ThreadSet
from croq.passes.analysis.barriers import barrier_each
from croq.passes.base import Pass

State = dict[Buffer, ThreadSet | None]  # written since the last fence on some path -> by whom; None: by somebody


@dataclass(frozen=True)
class Fences(Pass):
    name: ClassVar[str] = "fences"

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        _reject_global_handover(kernel, sink)
        _Flow(kernel, sink, async_buffers(kernel.effects())).block(kernel.body, {})


def _reject_global_handover(kernel: Kernel, sink: Sink) -> None:
    """P5."""
    loads = {e.root: e.op for e in kernel.effects() if e.until and e.kind == "read" and isinstance(e.root, Param)}
    for effect in kernel.effects():
        if effect.kind == "write" and effect.until is None and effect.root in loads:
            loaded = loads[effect.root].span
            sink.error(
                "E-2108",
                effect.op.span,
                f"`{effect.root.name}` is written by ordinary stores and loaded by TMA in one kernel",
                labels=[(loaded, "loaded here")] if loaded is not None else [],
                notes=["croq does not order ordinary stores to global memory against the copy engine's loads"],
                hint="load it by `dma.copy`, store it by `tma.copy` from shared memory, or use two kernels",
            )


@dataclass
class _Flow:
    """Forward data flow. Loops are followed without `inserting` until nothing changes, then once more with it."""

    kernel: Kernel
    sink: Sink
    relevant: set[Buffer]
    inserting: bool = True
    breaks: list[State | None] = field(default_factory=list)  # of the loops around: states at their `break`s,
    continues: list[State | None] = field(default_factory=list)  # and at their `continue`s

    def block(self, block: Block, state: State | None) -> State | None:
        """The state at the end of the block; None where its end is not reached."""
        result: list[Op] = []
        for position, op in enumerate(block.ops):
            if state is not None:
                result += self.before(op, block.ops[position + 1 : position + 2], state)
                state = self.through(op, state)
            result.append(op)
        if self.inserting:
            block.ops[:] = result
        return state

    def before(self, op: Op, following: list[Op], state: State) -> list[Op]:
        """P2, P3: what goes in front of `op`. The threads of `op` have nothing unfenced behind it."""
        reads = async_buffers(following[0].effects()) if isinstance(op, WgmmaFence) and following else set()
        unfenced = {buffer for buffer, writers in state.items() if _meet(writers, op.threads)}
        parts = list(op.walk()) if isinstance(op, Elect) else [op]
        starts = async_buffers(effect for part in parts if part.ENGINE == "tma" for effect in part.own_effects())
        if not unfenced or not (any(part.releases for part in parts) or unfenced & (reads | starts)):
            return []
        for buffer in unfenced:
            _remove(state, buffer, op.threads)
        fence = ProxyFence(span=op.span, threads=op.threads)
        if not reads or op.threads is None or not self.inserting:
            return [fence]
        return [fence, *barrier_each(self.kernel, op.threads.warpgroups(), op.span, self.sink)]

    def through(self, op: Op, state: State) -> State | None:
        if isinstance(op, If):
            other = dict(state)
            after = self.block(op.then, state)
            return _join(after, self.block(op.otherwise, other) if op.otherwise is not None else other)
        if isinstance(op, (For, While)):
            return self.loop(op, state)
        if isinstance(op, (Break, Continue)):
            exits = self.breaks if isinstance(op, Break) else self.continues
            exits[-1] = _join(exits[-1], state)
            return None
        if isinstance(op, Section) and op.condition is not None:
            return _join(dict(state), self.block(op.body, state))
        after = state
        for region in op.regions():
            after = self.block(region, after) or {}
        for effect in op.own_effects():
            if effect.kind == "write" and effect.until is None and effect.root in self.relevant:
                self.write(effect.root, op.threads, after)
        return after

    def write(self, buffer: Buffer, threads: ThreadSet | None, state: State) -> None:
        before = state.get(buffer, ThreadSet(()))
        state[buffer] = None if before is None or threads is None else before | threads

    def loop(self, op: For | While, state: State) -> State | None:
        inserting, self.inserting = self.inserting, False
        head: State | None = state
        while (again := _join(head, self.iteration(op, head)[1])) != head:
            head = again
        self.inserting = inserting
        return self.iteration(op, head)[0]

    def iteration(self, op: For | While, head: State | None) -> tuple[State | None, State | None]:
        """States behind the loop, and at the end of an iteration that begins with `head`."""
        self.breaks.append(None)
        self.continues.append(None)
        start = dict(head) if head is not None else None
        if isinstance(op, While):
            start = self.block(op.head, start)
        after = self.block(op.body, dict(start) if start is not None else None)
        return _join(start, self.breaks.pop()), _join(after, self.continues.pop())


def _join(a: State | None, b: State | None) -> State | None:
    if a is None or b is None:
        return b if a is None else a
    joined = dict(a)
    for buffer, threads in b.items():
        mine = joined.get(buffer, ThreadSet(()))
        joined[buffer] = None if mine is None or threads is None else mine | threads
    return joined


def _meet(writers: ThreadSet | None, threads: ThreadSet | None) -> bool:
    return writers is None or threads is None or bool(len(writers & threads))


def _remove(state: State, buffer: Buffer, threads: ThreadSet | None) -> None:
    writers = state[buffer]
    rest = ThreadSet(()) if writers is None or threads is None else writers - threads
    if len(rest):
        state[buffer] = rest
    else:
        del state[buffer]


def async_buffers(effects: Iterable[Effect]) -> set[Buffer]:
    """P1: buffers that the copy engine or the tensor cores touch."""
    return {effect.root for effect in effects if effect.until is not None and isinstance(effect.root, Buffer)}
