"""Proxy fences: where ordinary stores to shared memory meet the copy engine or the tensor cores.

Rules (PTX ISA, "Proxies", "fence.proxy.async")
    P1  Only buffers that the async proxy reads matter (operands of WGMMA in shared memory, sources of TMA stores).
    P2  A thread that has written such a buffer by ordinary stores executes `fence.proxy.async` before the next point
        where it lets others go on: an arrival, a barrier. Once; with nothing written since the last fence, none.
    P3  A WGMMA that reads what its own warpgroup wrote without a barrier in between gets the fence and a barrier of the
        warpgroup: all four warps write, each warp's instruction reads.
    P4  Loads by TMA need none: they are the async proxy, and its completion on an mbarrier is what waiters acquire.

Needs: moves, mma, events. Adds fences and those barriers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op
from croq.ir.hw import (
    BulkTensorStore,
    CtaSync,
    Elect,
    MbarrierArrive,
    NamedBarrierArrive,
    NamedBarrierSync,
    ProxyFence,
    Section,
    WarpSync,
    WgmmaIssue,
)
from croq.ir.objects import Buffer, Kernel, View
from croq.ir.scalar import For, If, While
from croq.ir.types import ThreadSet
from croq.passes.barriers import barrier_each
from croq.passes.base import Pass

_RELEASES = (CtaSync, NamedBarrierSync, NamedBarrierArrive, MbarrierArrive, WarpSync)


@dataclass(frozen=True)
class Fences(Pass):
    name: ClassVar[str] = "fences"

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        _Walk(kernel, sink).block(kernel.body, set())


class _Walk:
    def __init__(self, kernel: Kernel, sink: Sink) -> None:
        self.kernel = kernel
        self.sink = sink
        self.async_read = set(_read_by_async_proxy(kernel))

    def block(self, block: Block, dirty: set[Buffer]) -> set[Buffer]:
        """Insert fences; `dirty`: what was written since the last fence, on some path. Gives the set at the end."""
        result: list[Op] = []
        for op in block.ops:
            before, dirty = self._before(op, dirty)
            result += [*before, op]
            dirty = self._inside(op, dirty)
            dirty |= self._writes(op)
        block.ops[:] = result
        return dirty

    def _before(self, op: Op, dirty: set[Buffer]) -> tuple[list[Op], set[Buffer]]:
        if not dirty:
            return [], dirty
        fence = ProxyFence(span=op.span, threads=op.threads)
        if isinstance(op, WgmmaIssue):
            read = {v.root for v in (op.a, op.b) if isinstance(v, View) and isinstance(v.root, Buffer)}
            if not read & dirty or op.threads is None:
                return [], dirty
            groups = [ThreadSet(((start, start + 128),)) for a, b in op.threads.ranges for start in range(a, b, 128)]
            return [fence, *barrier_each(self.kernel, groups, op.span, self.sink)], set()
        if isinstance(op, _RELEASES) or (isinstance(op, Elect) and _has_release(op)):
            return [fence], set()
        return [], dirty

    def _inside(self, op: Op, dirty: set[Buffer]) -> set[Buffer]:
        if isinstance(op, If):
            after = self.block(op.then, set(dirty))
            other = self.block(op.otherwise, set(dirty)) if op.otherwise is not None else dirty
            return after | other
        if isinstance(op, (For, While)):
            carried = self._written_in(op)
            for region in op.regions():
                carried = self.block(region, dirty | carried)
            return dirty | carried
        if isinstance(op, Section):
            after = self.block(op.body, set(dirty))
            return dirty | after if op.condition is not None else after
        for region in op.regions():
            dirty = self.block(region, dirty)
        return dirty

    def _written_in(self, op: Op) -> set[Buffer]:
        """What one iteration may leave written at its end: everything after the last release on its top level."""
        left: set[Buffer] = set()
        for region in op.regions():
            for inner in region.ops:
                if isinstance(inner, _RELEASES):
                    left = set()
                for nested in [inner, *(o for r in inner.regions() for o in r.walk())]:
                    left |= self._writes(nested)
        return left

    def _writes(self, op: Op) -> set[Buffer]:
        """Buffers that matter (P1) and that `op` writes by ordinary stores."""
        return {
            effect.target.root
            for effect in op.effects()
            if effect.kind == "write"
            and not effect.until_wait
            and isinstance(effect.target, View)
            and effect.target.root in self.async_read
        }


def _read_by_async_proxy(kernel: Kernel) -> list[Buffer]:
    found: list[Buffer] = []
    for op in kernel.walk():
        views = [op.source] if isinstance(op, BulkTensorStore) else []
        if isinstance(op, WgmmaIssue):
            views = [v for v in (op.a, op.b) if isinstance(v, View)]
        found += [v.root for v in views if isinstance(v.root, Buffer)]
    return found


def _has_release(op: Elect) -> bool:
    return any(isinstance(inner, MbarrierArrive) for inner in op.body.walk())
