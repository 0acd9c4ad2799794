"""Pure operations, and readings of variables, that nothing uses are dropped.

Rules
    D1  What other passes computed and then did without leaves no trace in the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.objects import Kernel
from croq.ir.rewrite import remove_dead
from croq.ir.scalar import VarGet
from croq.passes.base import Pass


@dataclass(frozen=True)
class DeadCode(Pass):
    name: ClassVar[str] = "dead-code"
    needs = ("contract",)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        remove_dead(kernel.body, lambda op: isinstance(op, VarGet))  # D1
