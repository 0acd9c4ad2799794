"""Places in a shared tile as sets of elements: one bit an element, in row-major order of the buffer's shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croq.ir.objects import Buffer, View
from croq.ir.types import BYTES
from croq.target import swizzle


class Regions:
    """Makes and remembers (in `boxes`) element sets; `symbols` give extents that are not constant."""

    def __init__(self, symbols: dict[str, int], boxes: dict[tuple[tuple[int, ...], ...], int]) -> None:
        self.symbols = symbols
        self._boxes = boxes
        self._extents: dict[int, tuple[int, ...]] = {}  # by the view's identity: those of a program outlive its runs
        self.placed: dict[tuple[int, Any], int] = {}  # boxes by the view's identity and their place

    def extents(self, view: View) -> tuple[int, ...]:
        found = self._extents.get(id(view))
        if found is None:
            known = (e.known if e.known is not None else e.evaluate(self.symbols) for e in view.extents)
            found = self._extents[id(view)] = tuple(known)
        return found

    def box(self, buffer: Buffer, starts: tuple[int, ...], extents: tuple[int, ...]) -> int | None:
        """The elements `starts[d] .. starts[d] + extents[d]`; None where that leaves the tile."""
        key = (buffer.shape, starts, extents)
        found = self._boxes.get(key)
        if found is None:
            if any(s < 0 or s + e > full for s, e, full in zip(starts, extents, buffer.shape, strict=True)):
                return None
            found, stride = 1, 1
            for start, extent, full in reversed(list(zip(starts, extents, buffer.shape, strict=True))):
                line = found
                found = 0
                for n in range(extent):
                    found |= line << (start + n) * stride
                stride *= full
            self._boxes[key] = found
        return found

    @staticmethod
    def whole(buffer: Buffer) -> int:
        return (1 << prod(buffer.shape)) - 1

    @staticmethod
    def chunks(buffer: Buffer, slot: int, addresses: Callable[[int], NDArray[np.int64]]) -> int:
        """Elements of the 16-byte chunks that lie at `addresses(start of the slot)`; 0 where one is no chunk of it."""
        size = BYTES[buffer.type]
        per = swizzle.CHUNK // size
        if buffer.offset is None or buffer.cols % per:
            return 0
        base = buffer.offset + slot * buffer.slot_stride
        places = swizzle.tile_index(buffer.rows, buffer.cols, size, buffer.swizzle)[:, ::per].reshape(-1)
        number = np.full(buffer.slot_stride // swizzle.CHUNK, -1, dtype=np.int64)
        number[places // swizzle.CHUNK] = np.arange(places.size)
        at, rest = np.divmod(addresses(base).reshape(-1) - base, swizzle.CHUNK)
        if rest.any() or (at < 0).any() or (at >= number.size).any() or (number[at] < 0).any():
            return 0
        marks = np.zeros((places.size, per), dtype=np.bool_)
        marks[number[at]] = True
        return int.from_bytes(np.packbits(marks.reshape(-1), bitorder="little").tobytes(), "little")

    @staticmethod
    def points(buffer: Buffer, coordinates: Iterable[NDArray[np.int64]]) -> int | None:
        """The elements at the given coordinates (arrays of one shape); None where one lies outside the tile."""
        flat: NDArray[np.int64] | int = 0
        for at, full in zip(coordinates, buffer.shape, strict=True):
            if ((at < 0) | (at >= full)).any():
                return None
            flat = flat * full + at
        marks = np.zeros(prod(buffer.shape), dtype=np.bool_)
        marks[flat] = True
        return int.from_bytes(np.packbits(marks, bitorder="little").tobytes(), "little")
