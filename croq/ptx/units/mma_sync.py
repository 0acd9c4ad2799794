"""mma.sync of a warp. PTX ISA, "Matrix Fragments for mma.m16n8k4 .. m16n8k256" and "mma".

The fragments of every 16x8 shape and element size follow one rule in bytes. With g = lane / 4 and t = lane % 4:
register i of A has the bytes 4 * t + 16 * (i / 2) of row g + 8 * (i % 2); register i of B the bytes 4 * t + 16 * i of
the K of column g; element 2 * h + e of C and D is row g + 8 * h, column 2 * t + e. K is 16 or 32 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from croq.ptx.units.fault import require
from croq.ptx.units.mma_arithmetic import BITS, Values, Words, accumulated, check_types, decode

_ACCUMULATORS: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "s32": np.int32}


@dataclass(frozen=True)
class MmaSync:
    """mma.sync.aligned.m16n8kK.row.col. Faults of the construction: `mma-type`, `mma-shape`, `mma-modifier`.

    `bit_operation` is `and` or `xor` for b1 operands (`.and.popc`, `.xor.popc`).
    """

    k: int
    d: str
    a: str
    b: str
    satfinite: bool = False
    bit_operation: str = ""

    def __post_init__(self) -> None:
        check_types(self.a, self.b, self.d)
        require(self.k_bytes in (16, 32), "mma-shape", f"mma.sync m16n8k{self.k} of {self.a} is not modelled")
        operations = ("and", "xor") if self.a == "b1" else ("",)
        require(
            self.bit_operation in operations, "mma-modifier", f"mma.sync of {self.a} with `{self.bit_operation}.popc`"
        )
        require(not self.satfinite or self.a in ("s8", "u8"), "mma-modifier", f".satfinite of {self.a}, not an integer")

    @property
    def k_bytes(self) -> int:
        return self.k * BITS[self.a] // 8

    @property
    def registers(self) -> tuple[int, int, int]:
        """32-bit registers of a lane for A, B, and C or D."""
        return self.k_bytes // 8, self.k_bytes // 16, 2 if self.d == "f16" else 4

    def compute(self, a: Words, b: Words, c: Words) -> Words:
        """[32 lanes, registers] of A, B and C to those of D."""
        product_a, product_b = self.a_matrix(a), self.b_matrix(b)
        if self.bit_operation == "xor":  # |x ^ y| = |x| + |y| - 2 |x & y|
            ones = product_a.sum(axis=1)[:, None] + product_b.sum(axis=0)
            counts = ones - 2 * (product_a @ product_b)
            return matrix_to_registers((counts + self.c_matrix(c)).astype(np.int64).astype(np.int32))
        return matrix_to_registers(accumulated(self.d, product_a, product_b, self.c_matrix(c), self.satfinite))

    def a_matrix(self, registers: Words) -> Values:
        """[16, k] values from [32, registers]."""
        halves = self.k_bytes // 16
        parts = registers.reshape(8, 4, halves, 2)  # g, t, i / 2, i % 2
        words = np.ascontiguousarray(parts.transpose(3, 0, 2, 1)).reshape(16, 4 * halves)
        return decode(self.a, words.view(np.uint8))

    def b_matrix(self, registers: Words) -> Values:
        """[k, 8] values from [32, registers]."""
        parts = registers.reshape(8, 4, self.k_bytes // 16)  # g, t, i
        words = np.ascontiguousarray(parts.transpose(0, 2, 1)).reshape(8, self.k_bytes // 4)
        return decode(self.b, words.view(np.uint8)).T

    def c_matrix(self, registers: Words) -> Values:
        """[16, 8] values from [32, registers]."""
        elements: Values = np.ascontiguousarray(registers).view(_ACCUMULATORS[self.d])
        return elements.reshape(8, 4, 2, 2).transpose(2, 0, 1, 3).reshape(16, 8)


def matrix_to_registers(matrix: Values) -> Words:
    """[16, 8] of int32, float32 or float16 to the accumulator registers of 32 lanes."""
    parts = matrix.reshape(2, 8, 4, 2).transpose(1, 2, 0, 3)  # g, t, h, e
    return np.ascontiguousarray(parts).reshape(32, 4).view(np.uint32)
