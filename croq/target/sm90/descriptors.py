"""WGMMA matrix descriptors: what they hold for a tile in the slab layout of `swizzle.py`, and what the chip reads then.

A descriptor names one operand of one instruction: 64 x K of A or K x N of B, K being 32 bytes. It holds the start
address, two strides, the base offset and the swizzle; the canonical layouts, in units of 16 bytes (T elements), are
(PTX ISA, "Canonical Layouts"):

    K-major   none   ((8, m), (T, 2k)) : ((1T, SBO), (1, LBO))
              W      ((8, m), (T, 2k)) : ((W/16 T, SBO), (1, T))            LBO unused, 1
    MN-major  none   ((T, 1, m), (8, k)) : ((1, T, SBO), (1T, LBO))
              W      ((T, W/16, m), (8, k)) : ((1, T, LBO), (W/16 T, SBO))

Matched with a tile of `rows` rows in slabs of W bytes (16 for "none"), whose slabs lie rows * W bytes apart:

  rule K-W      rows are M or N. Eight rows are 8 * W bytes: SBO = 8 W.
  rule K-none   eight rows are 128 bytes: SBO = 128; the second 16 bytes of K lie one slab on: LBO = rows * 16.
  rule MN-W     rows are K. Eight rows are 8 * W bytes: SBO = 8 W; the next W bytes of M or N lie one slab on:
                LBO = rows * W.
  rule MN-none  eight rows are 128 bytes: LBO = 128; the next 16 bytes of M or N lie one slab on: SBO = rows * 16.

The swizzle is an XOR of address bits. Starting inside a row of the pattern is therefore right, and the base-offset
field stays 0 as long as operands start on a repeat of 8 rows (passes/operands.py). Both 128-byte cases are verified by
results on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from croq.target.sm90.wgmma import K_BYTES
from croq.target.swizzle import CHUNK, PATTERN_ROWS, check_width, swizzle_offset

Major = Literal["k", "mn"]

# PTX ISA, "Matrix Descriptor Format", bits 62-63
LAYOUT_TYPE = {16: 0, 128: 1, 64: 2, 32: 3}
WIDTH = {layout: width for width, layout in LAYOUT_TYPE.items()}
UNIT = 16  # bytes: addresses and offsets count in such
UNUSED_LBO = UNIT  # encodes as 1, which the ISA says is assumed
MAX_ENCODED = 0x3FFF  # fourteen bits


@dataclass(frozen=True)
class Descriptor:
    """A descriptor but for its start address; `lbo` and `sbo` in bytes, as the PTX ISA names them."""

    lbo: int
    sbo: int
    layout: int
    base: int = 0

    @property
    def width(self) -> int:
        """Bytes in a row of the pattern."""
        return WIDTH[self.layout]

    @property
    def low_word(self) -> int:
        """Bits 0-31 but for the start address, which `(address >> 4)` adds: LBO in bits 16-29."""
        return (self.lbo >> 4) << 16

    @property
    def high_word(self) -> int:
        """Bits 32-63: SBO in bits 32-45, the base offset in 49-51, the layout in 62-63."""
        return (self.sbo >> 4) | self.base << 17 | self.layout << 30

    def encode(self, address: int) -> int:
        """The 64-bit descriptor for an operand that starts at shared-window `address`."""
        return (self.high_word << 32) | self.low_word | ((address >> 4) & MAX_ENCODED)


def describe(rows: int, cols: int, elem_bytes: int, major: Major, swizzle: int) -> Descriptor:
    """The descriptors of a tile [rows, cols] in shared memory, cols contiguous, in slabs of `swizzle` bytes.

    `major` "k": rows are M or N and cols are K. "mn": rows are K and cols are M or N (16-bit types only). `swizzle`:
    32, 64 or 128; 16 for the unswizzled slab layout (core matrices). Raises ValueError for what no descriptor can
    describe: a plain row-major tile (0), slabs that are cut or do not start on a repeat, offsets over 2^18.
    """
    check_width(swizzle)
    if swizzle == 0:
        raise ValueError("WGMMA cannot read a plain row-major tile; it needs a swizzle, or slabs of 16 bytes")
    if (cols * elem_bytes) % swizzle:
        raise ValueError(f"rows of {cols * elem_bytes} bytes, which is no multiple of the {swizzle}-byte slab")
    if rows % PATTERN_ROWS and cols * elem_bytes > swizzle:
        raise ValueError(f"{rows} rows in several slabs, which is no multiple of {PATTERN_ROWS}")
    if major == "mn" and elem_bytes != 2:
        raise ValueError(f"an MN-major operand of {elem_bytes}-byte elements; only 16-bit types have it")
    slab, pattern = rows * swizzle, PATTERN_ROWS * swizzle
    if major == "k":
        lbo, sbo = slab if swizzle == CHUNK else UNUSED_LBO, pattern
    else:
        lbo, sbo = (pattern, slab) if swizzle == CHUNK else (slab, pattern)  # the ISA swaps the two for "none"
    for what, value in (("leading", lbo), ("stride", sbo)):
        if value >> 4 > MAX_ENCODED:
            raise ValueError(f"a {what} dimension offset of {value} bytes, which the descriptor cannot hold")
    return Descriptor(lbo, sbo, LAYOUT_TYPE[swizzle])


def decode(word: int) -> tuple[int, Descriptor]:
    """Start address and the other fields of a 64-bit descriptor."""
    lbo, sbo = (word >> 16 & MAX_ENCODED) << 4, (word >> 32 & MAX_ENCODED) << 4
    return (word & MAX_ENCODED) << 4, Descriptor(lbo, sbo, word >> 62 & 3, word >> 49 & 7)


def chunks_read(word: int, major: Major, mn: int, elem_bytes: int) -> NDArray[np.int64]:
    """Addresses of the 16-byte chunks that an instruction with the descriptor `word` reads of `mn` rows or columns.

    K-major: [mn, 2], a chunk being neighbours along K. MN-major: [K, mn / T], neighbours along M or N. Raises
    ValueError for a base offset, which croq never makes.
    """
    start, fields = decode(word)
    if fields.base:
        raise ValueError(f"a base offset of {fields.base}")
    unswizzled, width = fields.layout == 0, fields.width
    if major == "k":
        row = np.arange(mn, dtype=np.int64)[:, None]
        column = np.arange(K_BYTES // CHUNK, dtype=np.int64) * (fields.lbo if unswizzled else CHUNK)
        linear = start + row % PATTERN_ROWS * width + row // PATTERN_ROWS * fields.sbo + column
    else:
        near, far = (fields.lbo, fields.sbo) if unswizzled else (fields.sbo, fields.lbo)
        row = np.arange(K_BYTES // elem_bytes, dtype=np.int64)[:, None]
        chunk = np.arange(mn * elem_bytes // CHUNK, dtype=np.int64)
        column = chunk % (width // CHUNK) * CHUNK + chunk // (width // CHUNK) * far
        linear = start + row % PATTERN_ROWS * width + row // PATTERN_ROWS * near + column
    return swizzle_offset(linear, width)
