"""Barriers that do the work of one: each of two moves in a row brings its own.

Rules
    J1  Two barriers of the same threads with nothing but scalar work in between, one after a move and one before the
        next, are one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op
from croq.ir.hw import CtaSync, NamedBarrierSync
from croq.ir.objects import Kernel, Variable
from croq.passes.base import Pass


@dataclass(frozen=True)
class Joins(Pass):
    name: ClassVar[str] = "joins"
    needs = ("fences",)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        _join(kernel.body)


def _join(block: Block) -> None:
    """J1."""
    kept: list[Op] = []
    last: Op | None = None  # a barrier with only scalar work behind it
    for op in block.ops:
        if last is not None and _same_barrier(last, op):
            continue
        kept.append(op)
        if op.MEETS == "threads":
            last = op
        elif not op.ORDINARY or op.CONTROL or not all(isinstance(e.root, Variable) for e in op.own_effects()):
            last = None
        for region in op.regions():
            _join(region)
    block.ops = kept


def _same_barrier(first: Op, second: Op) -> bool:
    if isinstance(first, NamedBarrierSync) and isinstance(second, NamedBarrierSync):
        return first.event is None and second.event is None and first.barrier == second.barrier
    return isinstance(first, CtaSync) and isinstance(second, CtaSync)
