"""Operations on whole fragments in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from croq.ir import hw, scalar
from croq.ir.core import Op
from croq.ir.objects import Buffer, Param, View
from croq.simulate.compiler import Code, Compiler, handles
from croq.simulate.dtypes import DTYPES, Array, converter, is_vector
from croq.simulate.faults import fault
from croq.simulate.machine import Warp
from croq.simulate.registers import Shape
from croq.simulate.views import data_of, linear, origin, outside_fault, slot_of
from croq.simulate.watch import Place, Units, elements
from croq.target.cuda import WARP


def lane_axes(mask: Array | None, axes: int) -> Array | None:
    """A mask of lanes, to broadcast against values with `axes` axes."""
    return None if mask is None else mask.reshape(WARP, *[1] * (axes - 1))


@handles(scalar.FragDeclare)
def _declare(c: Compiler, op: scalar.FragDeclare) -> Code | None:
    if op.frag.layout is None:
        return None
    shape = c.shape(op.frag)

    def run(warp: Warp) -> None:
        for (of, _), registers in warp.fragments.items():
            if of is shape:
                registers.store(shape.undefined, lane_axes(warp.active(), len(shape.dims)), warp, op)
                warp.unfenced.discard(registers)

    return Code(run)


@handles(hw.RegFill)
def _fill(c: Compiler, op: hw.RegFill) -> Code:
    find, value, shape = c.fragment(op.frag), c.slot(op.value), c.shape(op.frag.frag)
    convert = converter(op.value.type, shape.type)
    axes = len(shape.dims)

    def run(warp: Warp) -> None:
        content = convert(warp.v[value])
        if is_vector(content):
            content = content.reshape(WARP, *[1] * (axes - 1))
        find(warp).store(content, lane_axes(warp.active(), axes), warp, op)

    return Code(run)


@handles(hw.RegCopy)
def _copy(c: Compiler, op: hw.RegCopy) -> Code:
    dest, source = c.fragment(op.dest), c.fragment(op.source)
    convert = converter(c.shape(op.source.frag).type, c.shape(op.dest.frag).type)
    axes = len(c.shape(op.dest.frag).dims)

    def run(warp: Warp) -> None:
        values = convert(source(warp).read(warp, op))
        dest(warp).store(values, lane_axes(warp.active(), axes), warp, op)

    return Code(run)


REDUCE: dict[str, Any] = {"max": np.fmax, "sum": np.add}  # fmaxf ignores NaN


@handles(hw.RegReduceRow)
def _reduce_row(c: Compiler, op: hw.RegReduceRow) -> Code:
    dest, source = c.fragment(op.dest), c.fragment(op.source)
    source_shape, dest_shape = c.shape(op.source.frag), c.shape(op.dest.frag)
    if source_shape.kind != "accumulator" or dest_shape.kind != "row":
        raise fault("E-5030", op, f"the simulator cannot reduce the rows of a {source_shape.kind} fragment")
    reduce = REDUCE[op.kind].reduce
    convert = converter(source_shape.type, dest_shape.type)

    def run(warp: Warp) -> None:
        values = convert(reduce(source(warp).read(warp, op), axis=2))
        dest(warp).store(values, lane_axes(warp.active(), 2), warp, op)

    return Code(run)


@handles(hw.RegShuffleReduce)
def _shuffle_reduce(c: Compiler, op: hw.RegShuffleReduce) -> Code:
    find, combine = c.fragment(op.frag), REDUCE[op.kind]
    lane = np.arange(WARP)
    partners = [lane ^ (1 << bit) for bit in reversed(range(op.lanes.bit_length() - 1))]

    def run(warp: Warp) -> None:
        warp.whole(op, "a shuffle")
        registers = find(warp)
        values = registers.read(warp, op)
        for partner in partners:
            values = combine(values, values[partner])
        registers.store(values, None, warp, op)

    return Code(run)


# ---------------------------------------------------------------------------------------------------- load and store
@handles(hw.RegLoad)
def _load(c: Compiler, op: hw.RegLoad) -> Code:
    find, shape, view = c.fragment(op.frag), c.shape(op.frag.frag), op.source
    place = _Placement(c, view, shape, op)

    def run(warp: Warp) -> None:
        warp.whole(op, "ldmatrix")
        index, _ = place(warp)
        watch = warp.cta.watch
        if watch is not None and watch.follows(view.root):
            watch.touch(warp, op, _addressed(view, index, shape, warp), write=False, together=True)
        find(warp).store(place.target(warp)[index], None, warp, op)

    return c.preemptible(Code(run))


def _addressed(view: View, index: Array, shape: Shape, warp: Warp) -> Place:
    """The elements, each by the lane that gives its address: lane l for row l % 16, columns from 8 (l / 16)."""
    row, col = shape.coordinates(warp.index)
    lanes = np.broadcast_to(row % 16 + col // 8 % 2 * 16, shape.dims).reshape(-1)
    units = Units(np.broadcast_to(index, shape.dims).reshape(-1), shape.dtype.itemsize, lanes)
    return Place(view.root, lambda: units, (view.root, "ldmatrix", units.at.tobytes(), lanes.tobytes()))


@handles(hw.RegStore)
def _store(c: Compiler, op: hw.RegStore) -> Code:
    find, shape, view = c.fragment(op.frag), c.shape(op.frag.frag), op.dest
    place = _Placement(c, view, shape, op, op.checked)
    convert = converter(shape.type, view.root.type)
    matrix = op.method == "stmatrix"
    if matrix and (DTYPES[view.root.type].itemsize != 2 or not isinstance(view.root, Buffer)):
        raise fault("E-5024", op, "stmatrix stores 16-bit elements to shared memory only")
    size = DTYPES[view.root.type].itemsize
    pairs = _Pairs(op, size) if op.pairs else None

    def run(warp: Warp) -> None:
        if matrix:
            warp.whole(op, "stmatrix")
        values = convert(find(warp).read(warp, op))
        index, inside = place(warp)
        if pairs is not None:
            inside = pairs.check(np.broadcast_to(index, shape.dims), inside, shape.dims)
        mask = _both(inside, lane_axes(warp.active(), len(shape.dims)))
        watch = warp.cta.watch
        if watch is not None and watch.follows(view.root):
            at = elements(view.root, np.broadcast_to(index, shape.dims), size, mask)
            watch.touch(warp, op, at, write=True, together=matrix)
        if mask is not None:
            flags = np.broadcast_to(mask, shape.dims)
            index, values = np.broadcast_to(index, shape.dims)[flags], values[flags]
        place.target(warp)[index] = values

    return c.preemptible(Code(run))


def _both(a: Array | None, b: Array | None) -> Array | None:
    return b if a is None else a if b is None else a & b


class _Pairs:
    """Two neighbouring columns are one access: it is aligned to its size, and the first decides whether it is made."""

    def __init__(self, op: hw.RegStore, size: int) -> None:
        self.op, self.size = op, size

    def check(self, index: Array, inside: Array | None, dims: tuple[int, ...]) -> Array | None:
        first, second = index[..., ::2], index[..., 1::2]
        made = True if inside is None else np.broadcast_to(inside, dims)[..., ::2]
        if ((first % 2 != 0) & made).any() or ((second != first + 1) & made).any():
            raise fault(
                "E-5024",
                self.op,
                f"a pair of elements of `{self.op.dest.root.name}` is stored at no multiple of {2 * self.size} bytes",
            )
        return None if inside is None else np.repeat(made, 2, axis=-1)


class _Placement:
    """Element numbers in a view's root for the elements of a fragment that a warp holds, and which may be touched."""

    def __init__(self, c: Compiler, view: View, shape: Shape, op: Op, checked: Sequence[int] = ()) -> None:
        self.view, self.shape, self.op, self.checked = view, shape, op, checked
        if len(view.kept) != len(shape.shape):
            raise fault("E-5099", op, f"a {len(shape.shape)}-dimensional fragment for a view of {len(view.kept)}")
        self.origin = origin(c, view, op)
        self.data = data_of(c, view.root, op) if isinstance(view.root, Param) else None
        self.tile = c.tile(view.root) if isinstance(view.root, Buffer) else None
        self.extents: tuple[int, ...] = self.data.dims if self.data is not None else self._tile_extents()
        self.slot: Callable[[Warp], int] = slot_of(c, view, op)
        self._shared: dict[Any, tuple[Array, Array | None]] = {}

    def _tile_extents(self) -> tuple[int, ...]:
        assert self.tile is not None
        return self.tile.buffer.shape

    def target(self, warp: Warp) -> Array:
        if self.data is not None:
            return self.data.flat
        assert self.tile is not None
        return warp.cta.shared.typed(self.tile.dtype)

    def __call__(self, warp: Warp) -> tuple[Array, Array | None]:
        at = self.origin(warp)
        if self.data is not None:
            return self._in(warp, at)
        assert self.tile is not None
        key = (warp.index, at)
        found = self._shared.get(key)
        if found is None:
            found = self._shared[key] = self._in(warp, at)
        start = self.tile.slot_bytes(self.slot(warp), self.op)
        return found[0] + start // self.tile.size, found[1]

    def _in(self, warp: Warp, at: tuple[int, ...]) -> tuple[Array, Array | None]:
        found: list[Any] = list(at)
        for d, coordinate in zip(self.view.kept, self.shape.coordinates(warp.index), strict=True):
            found[d] = coordinate.astype(np.int64) + at[d]
        inside = self.shape.holds(warp.index)
        for d, extent in enumerate(self.extents):
            inside = self._check(warp, d, found, extent, inside)
        if inside is not None:
            found = [np.where(inside, f, 0) if is_vector(f) else f for f in found]
        if self.data is not None:
            return np.asarray(linear(found, self.data.strides)), inside
        assert self.tile is not None
        return self.tile.index[linear(found[:-1], self.tile.row_strides), found[-1]], inside

    def _check(self, warp: Warp, d: int, found: list[Any], extent: int, inside: Array | None) -> Array | None:
        coordinate = np.asarray(found[d])
        beyond = (coordinate < 0) | (coordinate >= extent)
        if inside is not None:
            beyond = beyond & inside
        if not beyond.any():
            return inside
        if d not in self.checked:
            first = np.broadcast_to(coordinate, beyond.shape)[beyond][0]
            raise outside_fault(self.view, d, int(first), extent, warp, self.op)
        return ~beyond if inside is None else inside & ~beyond
