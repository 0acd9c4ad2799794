"""From views to addresses: single elements, and boxes of a shared tile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from croq.ir.core import Op, Value
from croq.ir.objects import Buffer, Param, Start, View
from croq.simulate.compiler import Compiler
from croq.simulate.dtypes import Array, Scalar
from croq.simulate.faults import fault
from croq.simulate.machine import Warp
from croq.simulate.memory import GlobalData, SharedTile
from croq.simulate.watch import Place, Units, whole

Locate = Callable[[Warp], list[Scalar]]


def coordinates(c: Compiler, view: View, indices: tuple[Value, ...], op: Op) -> Locate:
    """The coordinates in the root of the element at `indices` of the view's kept dimensions."""
    if len(indices) != len(view.kept):
        raise fault("E-5099", op, f"{len(indices)} indices for a view of {len(view.kept)} dimensions")
    index_of = dict(zip(view.kept, indices, strict=True))
    parts: list[tuple[int, int | None, int | None]] = []  # a constant and up to two value slots, to be added
    for d, offset in enumerate(view.offsets):
        slots = [c.slot(x) for x in (offset, index_of.get(d)) if isinstance(x, Value)]
        first, second = [*slots, None, None][:2]
        parts.append((offset if isinstance(offset, int) else 0, first, second))

    def locate(warp: Warp) -> list[Scalar]:
        v = warp.v
        found = []
        for constant, first, second in parts:
            value: Scalar = constant
            if first is not None:
                value = value + _wide(v[first])
                if second is not None:
                    value = value + _wide(v[second])
            found.append(value)
        return found

    return locate


def _wide(value: Scalar) -> Scalar:
    return value.astype(np.int64) if type(value) is np.ndarray else value


def origin(c: Compiler, view: View, op: Op) -> Callable[[Warp], tuple[int, ...]]:
    """The view's offsets in its root, which must be the same in all lanes."""
    if all(isinstance(o, int) for o in view.offsets):
        known = tuple(int(o) for o in view.offsets if isinstance(o, int))
        return lambda warp: known
    parts = [(o, None) if isinstance(o, int) else (0, c.slot(o)) for o in view.offsets]
    name = view.root.name

    def find(warp: Warp) -> tuple[int, ...]:
        v = warp.v
        return tuple(
            constant if slot is None else warp.uniform(v[slot], op, f"the place of a tile of `{name}`")
            for constant, slot in parts
        )

    return find


def slot_of(c: Compiler, view: View, op: Op) -> Callable[[Warp], int]:
    """The slot that a view of a shared buffer is in, which must be the same in all lanes."""
    if view.slot is None or isinstance(view.slot, int):
        known = view.slot or 0
        return lambda warp: known
    slot = c.slot(view.slot)
    name = view.root.name
    return lambda warp: warp.uniform(warp.v[slot], op, f"the slot of `{name}`")


def start_of(c: Compiler, view: View, start: Start, op: Op) -> Callable[[Warp], int]:
    """Bytes behind the start of the slot, which must be the same in all lanes."""
    what = f"the place of a tile of `{view.root.name}`"
    terms = [(c.slot(term), scale) for term, scale in zip(start.terms, start.scales, strict=True)]

    def find(warp: Warp) -> int:
        return start.offset + sum(scale * int(warp.uniform(warp.v[slot], op, what)) for slot, scale in terms)

    return find


def check_coordinates(
    found: list[Scalar], extents: tuple[int, ...], active: Array | None, view: View, warp: Warp, op: Op
) -> list[Scalar]:
    """Raise a fault for a coordinate outside the root where lanes are active; elsewhere move it inside."""
    safe = []
    for d, (coordinate, extent) in enumerate(zip(found, extents, strict=True)):
        if type(coordinate) is np.ndarray:
            outside = (coordinate < 0) | (coordinate >= extent)
            if outside.any():
                seen = outside if active is None else outside & active
                if seen.any():
                    first = np.broadcast_to(coordinate, seen.shape)[seen][0]
                    raise outside_fault(view, d, int(first), extent, warp, op)
                coordinate = np.where(outside, 0, coordinate)
        elif not 0 <= coordinate < extent:
            if active is not None and not active.any():
                coordinate = 0
            else:
                raise outside_fault(view, d, int(coordinate), extent, warp, op)
        safe.append(coordinate)
    return safe


def outside_fault(view: View, dimension: int, index: int, extent: int, warp: Warp, op: Op) -> Exception:
    root = view.root
    return fault(
        "E-5012" if isinstance(root, Buffer) else "E-5013",
        op,
        f"index {index} in dimension {dimension} of `{root.name}`, whose extent there is {extent}",
        notes=[f"by warp {warp.index} of block {warp.cta.block}"],
        hint="check the index against the extent before the access",
    )


def linear(found: list[Scalar], strides: tuple[int, ...]) -> Scalar:
    total: Scalar = 0
    for coordinate, stride in zip(found, strides, strict=True):
        total = total + coordinate * stride
    return total


class Box:
    """A view of a shared buffer taken as a matrix: all root dimensions but the last are rows, the last is columns."""

    def __init__(self, c: Compiler, view: View, op: Op) -> None:
        root = view.root
        if not isinstance(root, Buffer) or root.storage != "shared":
            raise fault("E-5030", op, f"`{root.name}` is not in shared memory, where this operation needs it")
        self.view = view
        self.tile: SharedTile = c.tile(root)
        self.extents = tuple(c.extent(e, op) for e in view.extents)
        self._origin = origin(c, view, op)
        self._slot = slot_of(c, view, op)
        self.cols = self.extents[-1]
        rows = np.zeros(1, dtype=np.intp)
        for extent, stride in zip(self.extents[:-1], self.tile.row_strides, strict=True):
            rows = (rows[:, None] + np.arange(extent) * stride).reshape(-1)
        self.row_pattern = rows
        self.rows = len(rows)
        self.contiguous = bool((np.diff(rows) == 1).all())
        self._places: dict[tuple[int, int, int], Place] = {}

    def place(self, warp: Warp, op: Op) -> tuple[int, int, int]:
        """Byte offset of the slot, first row, first column; checked to lie inside the tile."""
        at = self._origin(warp)
        for d, (start, extent, full) in enumerate(zip(at, self.extents, self.tile.buffer.shape, strict=True)):
            if start < 0 or start + extent > full:
                raise outside_fault(self.view, d, start + extent - 1 if start >= 0 else start, full, warp, op)
        slot = self._slot(warp)
        start = self.tile.slot_bytes(slot, op)
        row = sum(o * s for o, s in zip(at[:-1], self.tile.row_strides, strict=True))
        return start, row, at[-1]

    def check_pattern(self, warp: Warp, op: Op) -> None:
        """The hardware XORs address bits: the layout must be where it expects it."""
        reason = self.tile.pattern_fault(self._slot(warp))
        if reason is not None:
            raise fault("E-5024", op, f"TMA and WGMMA cannot use `{self.view.root.name}`: {reason}")

    def chunks(self, start: int, row: int, col: int) -> NDArray[np.intp] | None:
        """Its 16-byte chunks by number in the CTA's shared memory, [rows, cols / T]; None: it is not made of them."""
        tile, per = self.tile, self.tile.per_chunk
        if tile.chunks is None or col % per or self.cols % per:
            return None
        return tile.chunks[row + self.row_pattern][:, col // per : (col + self.cols) // per] + start // 16

    def watched(self, start: int, row: int, col: int) -> Place:
        """The whole box, for a watcher."""
        found = self._places.get((start, row, col))
        if found is None:
            found = self._places[start, row, col] = Place(self.tile.buffer, lambda: self._units(start, row, col))
        return found

    def _units(self, start: int, row: int, col: int) -> Units:
        tile, chunks = self.tile, self.chunks(start, row, col)
        if chunks is not None:
            return whole(chunks, 16)
        return whole(tile.index[row + self.row_pattern][:, col : col + self.cols] + start // tile.size, tile.size)


def data_of(c: Compiler, param: Param, op: Op) -> GlobalData:
    found = c.data.get(param)
    if found is None:
        raise fault("E-5001", op, f"there is no data for parameter `{param.name}`")
    return found
