"""Places in memory as sets of bits.

Memory is cut into areas: a slot of a shared buffer, a page of a parameter. An area counts in units of 16 bytes until
somebody touches a part of one; from then on in units of what was touched. A set of units is a Python integer, one bit a
unit, so that two accesses meet when `a & b` is not zero.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from math import gcd

import numpy as np
from numpy.typing import NDArray

from croq.ir.lanes import packed
from croq.ir.objects import Buffer, Kernel, Param, slot_name
from croq.simulate.memory import PAGE
from croq.simulate.watch import Place, Units
from croq.target.swizzle import CHUNK

REMEMBERED = 8192  # footprints


class Area:
    __slots__ = ("name", "shared", "size", "start", "unit")

    def __init__(self, name: str, start: int, size: int, *, shared: bool) -> None:
        self.name = name
        self.start = start  # bytes, a multiple of 16
        self.size = -(-size // CHUNK) * CHUNK
        self.shared = shared
        self.unit = CHUNK  # bytes


# Where a parameter's data lie: those that share memory with it, and the byte of that memory where it starts.
Memory = Mapping[Param, tuple[tuple[Param, ...], int]]
Pieces = tuple[tuple[Area, int], ...]  # areas and which of their units


class Outside(Exception):
    """Bytes that belong to something else than the access says."""

    def __init__(self, byte: int) -> None:
        self.byte = byte


class Areas:
    """All areas of a kernel and its data; units only ever become finer."""

    def __init__(self, kernel: Kernel, memory: Memory | None = None) -> None:
        self._memory = memory or {}
        self._shared: dict[Buffer, tuple[list[Area], list[int]]] = {}
        self._pages: dict[tuple[tuple[Buffer | Param, ...], int], Area] = {}
        self._known: OrderedDict[tuple[Hashable, int], Pieces] = OrderedDict()
        self.version = 0  # how often units have become finer
        self._lay_out([b for b in kernel.buffers if b.storage == "shared" and b.offset is not None])

    def _lay_out(self, buffers: list[Buffer]) -> None:
        """One area a slot; slots that overlap (buffers may share memory) are one area together."""
        spans = []
        for buffer in buffers:
            for slot in range(buffer.slots):
                start = (buffer.offset or 0) + slot * buffer.slot_stride
                spans.append((start, start + buffer.tile_bytes, slot_name(buffer, slot)))
        merged: list[Area] = []
        for start, end, name in sorted(spans):
            last = merged[-1] if merged else None
            if last is not None and start < last.start + last.size:
                last.size = max(last.size, -(-(end - last.start) // CHUNK) * CHUNK)
                last.name += f"/{name}"
            else:
                low = start // CHUNK * CHUNK
                merged.append(Area(name, low, end - low, shared=True))
        for buffer in buffers:
            low = buffer.offset or 0
            high = low + buffer.slots * buffer.slot_stride
            own = [a for a in merged if a.start < high and low < a.start + a.size]
            self._shared[buffer] = own, [a.start for a in own]

    def pieces(self, place: Place, lanes: int = -1) -> Pieces:
        """The units that a place covers, or those that some lanes (a bit mask) touch of it. Raises Outside."""
        key = (place.key, lanes)
        found = self._known.get(key)
        if found is None:
            units = self.in_memory(place)
            if lanes != -1 and units.lanes is not None:
                own = (lanes >> units.lanes.astype(np.int64)) & 1 != 0
                units = Units(units.at[own], units.size, units.lanes[own])
            found = self._known[key] = self._cut(place.root, units)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found

    def _cut(self, root: Buffer | Param, units: Units) -> Pieces:
        at = units.at * units.size
        if not len(at):
            return ()
        group = self._memory[root][0] if isinstance(root, Param) and root in self._memory else (root,)
        first, last = int(at.min()), int(at.max())
        if isinstance(root, Param):
            if first // PAGE == last // PAGE:
                area = self._page(group, first // PAGE)
                return ((area, self._bits(area, at, units.size)),)
            numbers = at // PAGE
            cut = [(self._page(group, int(n)), n) for n in np.unique(numbers)]
        else:
            areas, starts = self._shared[root]
            begin, end = bisect_right(starts, first) - 1, bisect_right(starts, last) - 1
            if begin < 0:
                raise Outside(first)
            if last + units.size > areas[end].start + areas[end].size:
                raise Outside(last)
            if begin == end:
                return ((areas[begin], self._bits(areas[begin], at, units.size)),)
            numbers = np.searchsorted(starts, at, side="right") - 1
            cut = [(areas[int(n)], n) for n in np.unique(numbers)]
        return tuple((area, self._bits(area, at[numbers == n], units.size)) for area, n in cut)

    def in_memory(self, place: Place) -> Units:
        """The pieces of a place, numbered from the start of the memory that its parameter may share with others."""
        units, root = place.units, place.root
        offset = self._memory[root][1] if isinstance(root, Param) and root in self._memory else 0
        if offset == 0:
            return units
        size = gcd(units.size, offset)
        factor = units.size // size
        at = (units.at[:, None] * factor + np.arange(factor)).reshape(-1) + offset // size
        return Units(at, size, None if units.lanes is None else np.repeat(units.lanes, factor))

    def _page(self, group: tuple[Buffer | Param, ...], number: int) -> Area:
        area = self._pages.get((group, number))
        if area is None:
            name = "/".join(sorted(param.name for param in group))
            area = self._pages[group, number] = Area(name, number * PAGE, PAGE, shared=False)
        return area

    def _bits(self, area: Area, at: NDArray[np.int64], size: int) -> int:
        inside = at - area.start
        if size >= area.unit:
            flags = np.zeros(area.size // area.unit, dtype=np.bool_)
            first = inside // area.unit
            for more in range(size // area.unit):
                flags[first + more] = True
            return packed(flags)
        flags = np.zeros(area.size // size, dtype=np.bool_)
        flags[inside // size] = True
        whole = _whole(flags, area.unit // size)
        if whole is not None:
            return packed(whole)
        area.unit = size
        self.version += 1
        self._known.clear()
        return packed(flags)


def _whole(flags: NDArray[np.bool_], factor: int) -> NDArray[np.bool_] | None:
    """Which groups of `factor` units are set, where that is all or nothing in each; else None."""
    width = min(factor, 8)
    groups = flags.view(f"u{width}")
    full = groups == int.from_bytes(b"\1" * width, "little")
    if int(np.count_nonzero(groups)) != int(np.count_nonzero(full)):
        return None
    return full if factor == width else _whole(full, factor // width)


def spread(bits: int, count: int, factor: int) -> int:
    """The same set where each of `count` units has been cut into `factor` units."""
    raw = np.frombuffer(bits.to_bytes(-(-count // 8), "little"), dtype=np.uint8)
    flags = np.unpackbits(raw, bitorder="little")[:count]
    return packed(np.repeat(flags, factor).astype(np.bool_))
