"""wgmma.mma_async: one instruction from its operands to its accumulator. PTX ISA, "wgmma.mma_async".

The order of execution, groups, fences and who may touch which registers when are the machine's; this is what one
instruction computes, and what it may not ask for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croq.ptx.units import wgmma_operands
from croq.ptx.units.fault import require
from croq.ptx.units.mma_arithmetic import BITS, FLOATS, Bytes, Values, Words, accumulated, check_types, decode
from croq.ptx.units.swizzle import Addresses
from croq.ptx.units.wgmma_operands import Descriptor

M = 64
WARP_ROWS, WARP_THREADS = 16, 32
K_BYTES = 32  # of every instruction, whatever its type
# PTX ISA, wgmma.mma_async: the N of integer and single-bit shapes.
_INTEGER_N = (8, 16, 24, *range(32, 257, 16))


@dataclass(frozen=True)
class Wgmma:
    """The static part of an instruction. Faults of the construction: `mma-type`, `wgmma-shape`, `wgmma-modifier`.

    `d` is the accumulator's type, `scale_a` and `scale_b` are 1 or -1, `trans_a` and `trans_b` say MN-major.
    """

    n: int
    d: str
    a: str
    b: str
    satfinite: bool = False
    scale_a: int = 1
    scale_b: int = 1
    trans_a: bool = False
    trans_b: bool = False

    def __post_init__(self) -> None:
        check_types(self.a, self.b, self.d)
        allowed = range(8, 257, 8) if self.a in FLOATS else _INTEGER_N
        require(self.n in allowed, "wgmma-shape", f"no wgmma of {self.a} has n = {self.n}")
        require(
            not (self.trans_a or self.trans_b) or BITS[self.a] == 16,
            "wgmma-modifier",
            f"a transposed operand of {self.a}; only f16 and bf16 operands can be MN-major",
        )
        scales = (self.scale_a, self.scale_b)
        require(set(scales) <= {1, -1}, "wgmma-modifier", f"imm-scale is {scales}, not 1 or -1")
        require(
            scales == (1, 1) or self.a in FLOATS, "wgmma-modifier", f"imm-scale of {self.a}, which is no float type"
        )
        require(
            not self.satfinite or self.a in ("s8", "u8"), "wgmma-modifier", f".satfinite of {self.a}, not an integer"
        )

    @property
    def k(self) -> int:
        return K_BYTES * 8 // BITS[self.a]

    @property
    def accumulator_registers(self) -> int:
        """32-bit registers of a thread: two columns of f16 share one."""
        return self.n // 4 if self.d == "f16" else self.n // 2

    def a_chunks(self, descriptor: int) -> Addresses:
        """Addresses of every 16-byte chunk of A in shared memory (see `wgmma_operands.chunks`)."""
        return wgmma_operands.chunks(Descriptor.decode(descriptor), M, self.k, self.trans_a)

    def b_chunks(self, descriptor: int) -> Addresses:
        return wgmma_operands.chunks(Descriptor.decode(descriptor), self.n, self.k, self.trans_b)

    def a_from_shared(self, memory: Bytes, descriptor: int) -> Values:
        """A as [64, k] values. `memory`: shared bytes from address 0. Faults: `wgmma-descriptor`, `wgmma-bounds`."""
        data = wgmma_operands.read(memory, Descriptor.decode(descriptor), M, self.k, self.trans_a)
        values = decode(self.a, data)
        return values.T if self.trans_a else values

    def b_from_shared(self, memory: Bytes, descriptor: int) -> Values:
        """B as [k, n] values."""
        data = wgmma_operands.read(memory, Descriptor.decode(descriptor), self.n, self.k, self.trans_b)
        values = decode(self.b, data)
        return values if self.trans_b else values.T

    def a_from_registers(self, registers: Words) -> Values:
        """A as [64, k] values from [128 threads, 4 registers]. Faults: `wgmma-modifier`."""
        require(not self.trans_a, "wgmma-modifier", "a transposed A comes from shared memory, not from registers")
        return decode(self.a, a_bytes(registers))

    def compute(self, a: Values, b: Values, registers: Words, scale_d: bool) -> Words:
        """The new accumulator registers [128, `accumulator_registers`]; without `scale_d` the old ones are not read.

        Or of some of the four warps: 16 rows of A and 32 threads each.
        """
        a = -a if self.scale_a < 0 else a
        b = -b if self.scale_b < 0 else b
        c = accumulator_matrix(registers, self.d) if scale_d else None
        return accumulator_registers(accumulated(self.d, a, b, c, self.satfinite))


def a_bytes(registers: Words) -> Bytes:
    """[128 threads, 4 registers] of A to [64 rows, 32 bytes]; or of fewer warps, 16 rows each.

    PTX ISA, "Register Fragments for wgmma.mma_async": register i of lane l in warp w has the bytes 4 * (l % 4) + 16 *
    (i / 2) .. +3 of row 16 * w + l / 4 + 8 * (i % 2), for every element size.
    """
    warps = len(registers) // WARP_THREADS
    rows = np.empty((warps, 2, 8, 2, 4), np.uint32)  # warp, half of the rows, row, half of the columns, column
    parts = registers.reshape(warps, 8, 4, 2, 2)  # warp, lane / 4, lane % 4, i / 2, i % 2
    rows[:] = parts.transpose(0, 4, 1, 3, 2)
    return rows.reshape(warps * WARP_ROWS, 8).view(np.uint8)


def accumulator_matrix(registers: Words, dtype: str) -> Values:
    """[128 threads, registers] to [64, n] of int32, float32 or float16; or of fewer warps, 16 rows each.

    PTX ISA, "Accumulator D": lane l of warp w has the columns 8 * j + 2 * (l % 4) + e, e of 0 and 1, of the rows
    16 * w + l / 4 + 8 * h, in the elements 4 * j + 2 * h + e; f16 pairs share a register, the low half is e = 0.
    """
    elements = _elements(registers, dtype)
    n = elements.shape[1] * 2
    parts = elements.reshape(-1, 8, 4, n // 8, 2, 2)  # warp, lane / 4, lane % 4, j, h, e
    return parts.transpose(0, 4, 1, 3, 2, 5).reshape(-1, n)


def accumulator_registers(matrix: Values) -> Words:
    """[64, n] of int32, float32 or float16 to [128 threads, registers]: the inverse of `accumulator_matrix`."""
    n = matrix.shape[1]
    parts = matrix.reshape(-1, 2, 8, n // 8, 4, 2)  # warp, h, row, j, lane % 4, e
    return np.ascontiguousarray(parts.transpose(0, 2, 4, 3, 1, 5).reshape(-1, n // 2)).view(np.uint32)


_ACCUMULATORS: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "s32": np.int32}


def _elements(registers: Words, dtype: str) -> NDArray[Any]:
    return np.ascontiguousarray(registers).view(_ACCUMULATORS[dtype])
