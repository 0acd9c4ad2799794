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
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Effect, Op
from croq.ir.hw import CtaSync, Elect, NamedBarrierSync, ProxyFence, WgmmaFence
from croq.ir.objects import Buffer, Kernel, Param
from croq.ir.rewrite import by
from croq.ir.types import ThreadSet
from croq.passes.analysis.barriers import barrier_each
from croq.passes.analysis.flow import Forward
from croq.passes.base import Pass

NOBODY = ThreadSet(())
State = dict[Buffer, ThreadSet | None]  # written since the last fence on some path -> by whom; None: by somebody


@dataclass(frozen=True)
class Fences(Pass):
    name: ClassVar[str] = "fences"
    needs = ("reuse", "pace")
    adds = (ProxyFence, CtaSync, NamedBarrierSync)

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


class _Flow(Forward[State]):
    def __init__(self, kernel: Kernel, sink: Sink, relevant: set[Buffer]) -> None:
        super().__init__()
        self.kernel, self.sink, self.relevant = kernel, sink, relevant

    def join(self, a: State, b: State) -> State:
        return {buffer: _union(a.get(buffer, NOBODY), b.get(buffer, NOBODY)) for buffer in {**a, **b}}

    def before(self, op: Op, rest: list[Op], state: State) -> tuple[list[Op], State]:
        """P2, P3: what goes in front of `op`. The threads of `op` have nothing unfenced behind it."""
        reads = async_buffers(rest[0].effects()) if isinstance(op, WgmmaFence) and rest else set()
        unfenced = {buffer for buffer, writers in state.items() if _meet(writers, op.threads)}
        parts = list(op.walk()) if isinstance(op, Elect) else [op]
        starts = async_buffers(effect for part in parts if part.ENGINE == "tma" for effect in part.own_effects())
        if not unfenced or not (any(part.releases for part in parts) or unfenced & (reads | starts)):
            return [], state
        left = {buffer: _without(writers, op.threads) for buffer, writers in state.items()}
        fence = ProxyFence(span=op.span, threads=op.threads)
        meet: list[Op] = []
        if self.settled and reads and op.threads is not None:
            meet = barrier_each(self.kernel, op.threads.warpgroups(), op.span, self.sink)
        made = by("fences.P3" if reads else "fences.P2", [fence, *meet])
        return made, {buffer: writers for buffer, writers in left.items() if writers != NOBODY}

    def after(self, op: Op, state: State) -> State:
        for effect in op.own_effects():
            if effect.kind == "write" and effect.until is None and effect.root in self.relevant:  # P4
                state = {**state, effect.root: _union(state.get(effect.root, NOBODY), op.threads)}
        return state


def _union(a: ThreadSet | None, b: ThreadSet | None) -> ThreadSet | None:
    return None if a is None or b is None else a | b


def _meet(writers: ThreadSet | None, threads: ThreadSet | None) -> bool:
    return writers is None or threads is None or bool(len(writers & threads))


def _without(writers: ThreadSet | None, threads: ThreadSet | None) -> ThreadSet:
    """Who has stores behind a fence of `threads`: of threads that are not known, all are taken to have fenced."""
    return NOBODY if writers is None or threads is None else writers - threads


def async_buffers(effects: Iterable[Effect]) -> set[Buffer]:
    """P1: buffers that the copy engine or the tensor cores touch."""
    return {effect.root for effect in effects if effect.until is not None and isinstance(effect.root, Buffer)}
