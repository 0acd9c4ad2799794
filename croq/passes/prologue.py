"""The kernel's beginning: barriers are initialised before anybody uses them; and the last tidying.

One thread initialises every mbarrier and makes them visible to the async proxy, then the CTA synchronises (PTX ISA,
"mbarrier.init", "fence.mbarrier_init"). Pure operations that nothing uses are dropped, and every parameter learns how
the device reaches it: an array that only TMA touches may have any strides a tensor map can express, one that is also
addressed by a pointer must be contiguous.

Needs: every other lowering. Adds: `access` of parameters; nothing is left to lower.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op
from croq.ir.hw import CtaSync, Elect, MbarrierInit, MbarrierInitFence
from croq.ir.objects import Kernel, Param, View
from croq.ir.rewrite import remove_dead
from croq.ir.scalar import VarGet
from croq.ir.types import ThreadSet
from croq.passes.base import Pass


@dataclass(frozen=True)
class Prologue(Pass):
    name: ClassVar[str] = "prologue"

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        remove_dead(kernel.body, lambda op: isinstance(op, VarGet))
        used = {event for op in kernel.walk() if "mbarrier" in (op.ARRIVES, op.WAITS) for event in op.events}
        barriers = [e for e in kernel.events if e in used]
        if barriers:
            first, everyone = ThreadSet.all(1), ThreadSet.all(kernel.threads)
            init: list[Op] = [MbarrierInit(e, e.arrivals, span=e.span, threads=first) for e in barriers]
            init.append(MbarrierInitFence(threads=first))
            kernel.body.ops[:0] = [Elect("set", 0, Block(init), threads=everyone), CtaSync(threads=everyone)]
        for effect in kernel.effects():
            if isinstance(effect.root, Param) and isinstance(effect.target, View):
                effect.root.access.add("pointer")
        for tensor_map in kernel.tensor_maps:
            tensor_map.param.access.add("tma")
