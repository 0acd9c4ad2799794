"""Where an element of a tile lies in shared memory: the XOR patterns of TMA and WGMMA, and the slab layout.

A W-byte swizzle (W = 32, 64, 128) permutes the 16-byte chunks within each W-byte row of a tile whose rows lie W bytes
apart: address bits 4 and up are XORed with bits 7 and up, as many as W / 32 doubles. The pattern repeats every 8 * W
bytes and is one of *addresses*, so a tile must start at a multiple of 8 * W; then offsets may be used instead.

Rows wider than W are cut into slabs: columns of W bytes, each slab holding all rows before the next slab starts. That
is what a sequence of TMA boxes (inner extent W bytes) writes, and what WGMMA descriptors describe.

Width 16 means slabs without a swizzle: each 8 rows of a slab are a core matrix (128 contiguous bytes), which is the
unswizzled layout of WGMMA operands. Width 0 means plain row-major.

Source: PTX ISA, "Swizzling modes" of tensors, and "Shared Memory Matrix Layout" of WGMMA (`Swizzle<B, 4, 3>`).
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from croq.target import cuda

Offset = TypeVar("Offset", int, npt.NDArray[np.int64])

WIDTHS = (0, 16, *cuda.TMA_SWIZZLES)
CHUNK = 16  # bytes that stay together
PATTERN_ROWS = 8  # rows after which every pattern repeats


def check_width(width: int) -> None:
    """Raise ValueError unless `width` is one of WIDTHS."""
    if width not in WIDTHS:
        raise ValueError(f"swizzle width {width}; there are {WIDTHS}")


def swizzle_mask(width: int) -> int:
    """The address bits that the pattern changes: 0x70, 0x30, 0x10 for 128, 64, 32; 0 for none."""
    check_width(width)
    return (width - 1) & 0x70 if width > CHUNK else 0


def swizzle_offset(offset: Offset, width: int) -> Offset:
    """The byte offset at which the byte of linear `offset` lies; its own inverse. Works on ints and integer arrays."""
    return offset ^ ((offset >> 3) & swizzle_mask(width))


def alignment(width: int) -> int:
    """Bytes at a multiple of which a tile must start: the length of the pattern, 128 (TMA's own rule) at least."""
    check_width(width)
    return max(PATTERN_ROWS * width, cuda.TMA_SHARED_ALIGNMENT)


def tile_bytes(rows: int, cols: int, elem_bytes: int, width: int) -> int:
    """Bytes of a tile; a last slab that is not full counts whole."""
    if width == 0:
        return rows * cols * elem_bytes
    slabs = -(-cols * elem_bytes // width)
    return slabs * rows * width


def tile_offset(row: Offset, col: Offset, rows: int, elem_bytes: int, width: int, cols: int | None = None) -> Offset:
    """The byte offset of element (row, col) of a tile of `rows` rows.

    Scalars or integer arrays (broadcast together). `cols` is needed for width 0 only. `rows` should be a multiple of
    8 when there is more than one slab, or the second slab would not start on a pattern boundary (ValueError
    otherwise).
    """
    check_width(width)
    byte = col * elem_bytes
    if width == 0:
        if cols is None:
            raise ValueError("a plain row-major tile needs its number of columns")
        return row * (cols * elem_bytes) + byte
    if width > CHUNK and rows % PATTERN_ROWS and np.any(np.asarray(byte) >= width):
        raise ValueError(f"{rows} rows a slab; a {width}-byte swizzle needs a multiple of {PATTERN_ROWS}")
    slab = byte // width
    return slab * (rows * width) + swizzle_offset(row * width + byte % width, width)


def tile_index(rows: int, cols: int, elem_bytes: int, width: int) -> npt.NDArray[np.int64]:
    """Byte offsets of all elements, an array of shape [rows, cols]."""
    row: Any = np.arange(rows, dtype=np.int64)[:, None]
    col: Any = np.arange(cols, dtype=np.int64)[None, :]
    return np.broadcast_to(tile_offset(row, col, rows, elem_bytes, width, cols), (rows, cols))
