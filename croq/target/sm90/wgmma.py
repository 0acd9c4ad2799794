"""The products of WGMMA. PTX ISA, "wgmma.mma_async": shapes, element types, majorness; confirmed by runs on an H200."""

from __future__ import annotations

from croq.target.base import Element, TensorCore

M = 64  # rows of one instruction
K_BYTES = 32  # of each row, whatever the type

WGMMA = TensorCore(
    m=M,
    n=range(8, 257, 8),
    elements={
        "bf16": Element(16, ("f32",), transposes=True, in_registers=True),
        "f16": Element(16, ("f32", "f16"), transposes=True, in_registers=True),
        "tf32": Element(8, ("f32",)),
        "f8_e4m3": Element(32, ("f32", "f16"), mixes=("f8_e5m2",)),
        "f8_e5m2": Element(32, ("f32", "f16"), mixes=("f8_e4m3",)),
    },
)
