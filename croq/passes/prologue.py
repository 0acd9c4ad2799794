"""The kernel's beginning: barriers are initialised before anybody uses them.

Rules (PTX ISA, "mbarrier.init", "fence.mbarrier_init")
    I1  One thread initialises every mbarrier that is used and makes them visible to the async proxy, then the CTA
        synchronises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op
from croq.ir.facts import REASONS
from croq.ir.hw import CtaSync, Elect, MbarrierInit, MbarrierInitFence
from croq.ir.objects import Kernel
from croq.ir.rewrite import by
from croq.ir.types import ThreadSet
from croq.passes.base import Pass


@dataclass(frozen=True)
class Prologue(Pass):
    name: ClassVar[str] = "prologue"
    needs = ("shared-memory", "dead-code")
    adds = (MbarrierInit, MbarrierInitFence, CtaSync, Elect, REASONS)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        used = {event for op in kernel.walk() if "mbarrier" in (op.ARRIVES, op.WAITS) for event in op.events}
        barriers = [e for e in kernel.events if e in used]
        if barriers:
            first, everyone = ThreadSet.all(1), ThreadSet.all(kernel.threads)
            init: list[Op] = [MbarrierInit(e, e.arrivals, span=e.span, threads=first) for e in barriers]
            init.append(MbarrierInitFence(threads=first))
            start: list[Op] = [Elect("set", 0, Block(init), threads=everyone), CtaSync(threads=everyone)]
            kernel.body.ops[:0] = by("prologue.I1", start)
