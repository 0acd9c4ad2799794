"""WGMMA matrix descriptors of tiles in the slab layout of `swizzle.py`.

A descriptor names one operand of one instruction: 64 x K of A or K x N of B, K being 32 bytes. It holds the start
address, two strides and the swizzle; the canonical layouts, in units of 16 bytes (T elements), are (PTX ISA,
"Canonical Layouts"):

    K-major   none   ((8, m), (T, 2k)) : ((1T, SBO), (1, LBO))
              W      ((8, m), (T, 2k)) : ((W/16 T, SBO), (1, T))            LBO unused, 1
    MN-major  none   ((T, 1, m), (8, k)) : ((1, T, SBO), (1T, LBO))
              W      ((T, W/16, m), (8, k)) : ((1, T, LBO), (W/16 T, SBO))

Matched with a tile of `rows` rows in slabs of W bytes (16 for "none"), whose slabs lie rows * W bytes apart:

  rule K-W      rows are M or N. Eight rows are 8 * W bytes: SBO = 8 W. A K step moves 32 bytes within the slab; when
                the slab is used up, the next one follows.
  rule K-none   eight rows are 128 bytes: SBO = 128; the second 16 bytes of K lie one slab on: LBO = rows * 16.
                A K step moves two slabs.
  rule MN-W     rows are K. Eight rows are 8 * W bytes: SBO = 8 W; the next W bytes of M or N lie one slab on:
                LBO = rows * W. A K step of 16 rows moves 16 W bytes.
  rule MN-none  eight rows are 128 bytes: LBO = 128; the next 16 bytes of M or N lie one slab on: SBO = rows * 16.
                A K step of 16 rows moves 256 bytes.

Stepping the start address inside a swizzle pattern is right because the pattern is one of addresses; the base-offset
field stays 0 as long as tiles start on a pattern boundary. Both 128-byte cases are verified by results on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from croq.target.sm90 import limits
from croq.target.sm90.swizzle import CHUNK, PATTERN_ROWS, check_width

Major = Literal["k", "mn"]

# PTX ISA, "Matrix Descriptor Format", bits 62-63
LAYOUT_TYPE = {16: 0, 128: 1, 64: 2, 32: 3}
UNUSED_LBO = 16  # encodes as 1, which the ISA says is assumed
MAX_ENCODED = 0x3FFF  # fourteen bits


@dataclass(frozen=True)
class Descriptor:
    """The descriptors of one tile; `lbo` and `sbo` in bytes, as the PTX ISA names them.

    `row_bytes` is the width of a slab, `slab_bytes` the distance to the next one, `k_steps` the number of
    instructions that the whole K of the tile takes.
    """

    lbo: int
    sbo: int
    layout_type: int
    major: Major
    elem_bytes: int
    row_bytes: int
    slab_bytes: int
    k_steps: int

    def k_step_offset_bytes(self, step: int) -> int:
        """Bytes from the tile's start to the operand of K step `step`."""
        if not 0 <= step < self.k_steps:
            raise ValueError(f"K step {step} of {self.k_steps}")
        if self.major == "k":
            slab, within = divmod(step * limits.WGMMA_K_BYTES, self.row_bytes)
            return slab * self.slab_bytes + within
        return step * (limits.WGMMA_K_BYTES // self.elem_bytes) * self.row_bytes

    def mn_offset_bytes(self, start: int) -> int:
        """Bytes from the tile's start to M or N index `start`, at which an instruction's operand may begin.

        K-major: a multiple of 8 rows. MN-major: a multiple of one slab's columns. Raises ValueError otherwise.
        """
        unit = PATTERN_ROWS if self.major == "k" else self.row_bytes // self.elem_bytes
        if start % unit:
            raise ValueError(f"an operand cannot begin at {start}, which is no multiple of {unit}")
        return start * self.row_bytes if self.major == "k" else start // unit * self.slab_bytes

    @property
    def low_word(self) -> int:
        """Bits 0-31 but for the start address, which `(address >> 4)` adds: LBO in bits 16-29."""
        return (self.lbo >> 4) << 16

    @property
    def high_word(self) -> int:
        """Bits 32-63: SBO in bits 32-45, the layout in 62-63."""
        return (self.sbo >> 4) | (self.layout_type << 30)

    def encode(self, address: int) -> int:
        """The 64-bit descriptor for an operand that starts at shared-window `address`."""
        return (self.high_word << 32) | self.low_word | ((address >> 4) & MAX_ENCODED)


def describe(rows: int, cols: int, elem_bytes: int, major: Major, swizzle: int) -> Descriptor:
    """The descriptors of a tile [rows, cols] in shared memory, cols contiguous, in slabs of `swizzle` bytes.

    `major` "k": rows are M or N and cols are K. "mn": rows are K and cols are M or N (16-bit types only). `swizzle`:
    32, 64 or 128; 16 for the unswizzled slab layout (core matrices). Raises ValueError for what no descriptor can
    describe: a plain row-major tile (0), K that is no whole number of steps, rows in broken groups of eight, offsets
    over 2^18.
    """
    check_width(swizzle)
    if swizzle == 0:
        raise ValueError("WGMMA cannot read a plain row-major tile; it needs a swizzle, or slabs of 16 bytes")
    if rows % PATTERN_ROWS:
        raise ValueError(f"{rows} rows, which is no multiple of {PATTERN_ROWS}")
    if (cols * elem_bytes) % swizzle:
        raise ValueError(f"rows of {cols * elem_bytes} bytes, which is no multiple of the {swizzle}-byte slab")
    return _k_major(rows, cols, elem_bytes, swizzle) if major == "k" else _mn_major(rows, elem_bytes, swizzle)


def _k_major(rows: int, cols: int, elem_bytes: int, width: int) -> Descriptor:
    k_bytes = cols * elem_bytes
    if k_bytes % limits.WGMMA_K_BYTES:
        raise ValueError(f"K of {k_bytes} bytes, which is no multiple of {limits.WGMMA_K_BYTES}")
    slab = rows * width
    lbo = slab if width == CHUNK else UNUSED_LBO
    k_steps = k_bytes // limits.WGMMA_K_BYTES
    return _checked(Descriptor(lbo, PATTERN_ROWS * width, LAYOUT_TYPE[width], "k", elem_bytes, width, slab, k_steps))


def _mn_major(rows: int, elem_bytes: int, width: int) -> Descriptor:
    if elem_bytes != 2:
        raise ValueError(f"an MN-major operand of {elem_bytes}-byte elements; only 16-bit types have it")
    k_per_step = limits.WGMMA_K_BYTES // elem_bytes
    if rows % k_per_step:
        raise ValueError(f"K of {rows}, which is no multiple of {k_per_step}")
    slab, pattern = rows * width, PATTERN_ROWS * width
    lbo, sbo = (pattern, slab) if width == CHUNK else (slab, pattern)  # the ISA swaps the two for "none"
    return _checked(Descriptor(lbo, sbo, LAYOUT_TYPE[width], "mn", elem_bytes, width, slab, rows // k_per_step))


def _checked(descriptor: Descriptor) -> Descriptor:
    for what, value in (("leading", descriptor.lbo), ("stride", descriptor.sbo)):
        if value >> 4 > MAX_ENCODED:
            raise ValueError(f"a {what} dimension offset of {value} bytes, which the descriptor cannot hold")
    return descriptor
