"""How the device reaches each parameter.

Rules
    A1  An array that only TMA touches may have any strides that a tensor map can express; one that is also addressed by
        a pointer must be contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.objects import Kernel, Param, View
from croq.passes.base import Pass


@dataclass(frozen=True)
class Access(Pass):
    name: ClassVar[str] = "access"
    needs = ("dead-code",)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        for effect in kernel.effects():
            if isinstance(effect.root, Param) and isinstance(effect.target, View):  # A1
                effect.root.access.add("pointer")
        for tensor_map in kernel.tensor_maps:
            tensor_map.param.access.add("tma")
