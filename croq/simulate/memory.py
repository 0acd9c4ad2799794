"""Shared and global memory of the simulation.

Shared memory is an array of bytes in the chip's real layout, poisoned with 0xFF at the start.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from croq.ir.core import Op
from croq.ir.objects import Buffer, Param
from croq.simulate.dtypes import DTYPES, Array
from croq.simulate.faults import fault
from croq.target import swizzle

CHUNK = np.dtype(np.complex128)  # any type of 16 bytes that NumPy moves as one: values are never looked at
PAGE = 1 << 13  # bytes of global memory that are watched together
UNITS: dict[int, np.dtype[Any]] = {
    16: CHUNK,
    8: np.dtype(np.uint64),
    4: np.dtype(np.uint32),
    2: np.dtype(np.uint16),
    1: np.dtype(np.uint8),
}


class Shared:
    """The bytes of one CTA's shared memory."""

    def __init__(self, size: int) -> None:
        padded = -(-max(size, 16) // 16) * 16
        self.bytes = np.full(padded, 0xFF, dtype=np.uint8)
        self.chunks = self.bytes.view(CHUNK)
        self._views: dict[Any, Array] = {}

    def typed(self, dtype: np.dtype[Any]) -> Array:
        view = self._views.get(dtype)
        if view is None:
            view = self._views[dtype] = self.bytes.view(dtype)
        return view


class SharedTile:
    """Where the elements of a shared buffer lie: everything that does not depend on the data.

    `index` [rows, cols]: element offsets inside a slot. `chunks` [rows, cols / per_chunk]: 16-byte offsets inside a
    slot, None where rows are not made of whole chunks.
    """

    def __init__(self, buffer: Buffer) -> None:
        if buffer.offset is None:
            raise fault("E-5099", buffer.span, f"shared buffer `{buffer.name}` has no place in shared memory")
        self.buffer = buffer
        self.dtype = DTYPES[buffer.type]
        self.size = self.dtype.itemsize
        self.rows, self.cols = buffer.rows, buffer.cols
        self.base, self.stride = buffer.offset, buffer.slot_stride
        offsets = swizzle.tile_index(self.rows, self.cols, self.size, buffer.swizzle)
        self.index = np.ascontiguousarray(offsets // self.size).astype(np.intp)
        self.per_chunk = 16 // self.size
        whole = self.cols % self.per_chunk == 0 and self.base % 16 == 0 and self.stride % 16 == 0
        self.chunks = np.ascontiguousarray(offsets[:, :: self.per_chunk] // 16).astype(np.intp) if whole else None
        strides, count = [], 1
        for extent in reversed(buffer.shape[:-1]):
            strides.append(count)
            count *= extent
        self.row_strides = tuple(reversed(strides))

    def slot_bytes(self, slot: int, op: Op) -> int:
        """Byte offset of a slot from the start of shared memory, checked."""
        if not 0 <= slot < self.buffer.slots:
            raise fault(
                "E-5012",
                op,
                f"slot {slot} of `{self.buffer.name}`, which has {self.buffer.slots}",
                hint="take the slot number modulo the number of slots",
            )
        return self.base + slot * self.stride

    def pattern_fault(self, slot: int) -> str | None:
        """Why the hardware's address XOR would not give this layout; None when it does."""
        width = self.buffer.swizzle
        if width in (0, 16):
            return None
        start = self.base + slot * self.stride
        if start % (8 * width):
            return f"it starts at byte {start}, no multiple of {8 * width}, so the {width}-byte swizzle is displaced"
        return None


class GlobalData:
    """The data of a parameter: flat elements, extents and strides in elements."""

    def __init__(self, param: Param, array: Array, dims: tuple[int, ...]) -> None:
        self.param = param
        self.array = array
        self.flat = array.reshape(-1)
        self.dims = dims
        strides, count = [], 1
        for extent in reversed(dims):
            strides.append(count)
            count *= extent
        self.strides = tuple(reversed(strides))
        self.size = array.dtype.itemsize
        self._units: dict[int, Array] = {}

    def units(self, width: int) -> Array:
        """The data as pieces of `width` bytes (a last piece that is not whole is left out)."""
        view = self._units.get(width)
        if view is None:
            count = self.flat.nbytes // width * width
            view = self.flat.view(np.uint8)[:count].view(UNITS[width])
            self._units[width] = view
        return view
