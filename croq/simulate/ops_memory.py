"""Ordinary accesses to memory: single elements, and tiles that threads copy or fill together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croq.ir import hw, scalar
from croq.ir.core import Op
from croq.ir.lanes import lane_flags
from croq.ir.objects import Buffer, Param, View
from croq.simulate.compiler import Code, Compiler, handles
from croq.simulate.dtypes import DTYPES, Array, Scalar, poison
from croq.simulate.faults import fault
from croq.simulate.machine import Warp
from croq.simulate.memory import UNITS
from croq.simulate.views import check_coordinates, coordinates, data_of, linear, origin, outside_fault, slot_of
from croq.simulate.watch import LANES, Place, Units
from croq.target.cuda import WARP

# (elements as a flat array, element numbers, number of the first element from the start of the root's storage)
Cells = tuple[Array, Scalar]


# ------------------------------------------------------------------------------------------------- single elements
@handles(scalar.LoadElement)
def _load(c: Compiler, op: scalar.LoadElement) -> Code:
    cells = _cells(c, op.view, op.indices, op)
    result, root = c.result(op.result), op.view.root
    size, active = DTYPES[root.type].itemsize, c.active()
    local = root.storage == "local"

    def run(warp: Warp) -> None:
        data, index = cells(warp)
        if warp.cta.watch is not None and not local:
            warp.touch(root, index, size, active(warp), op, write=False)
        found = data[index]
        warp.v[result] = found if type(found) is np.ndarray else _python(found)

    return c.preemptible(Code(run))


def _python(value: Any) -> Scalar:
    return value.item() if value.dtype.kind in "iub" else value


@handles(scalar.StoreElement)
def _store(c: Compiler, op: scalar.StoreElement) -> Code:
    cells = _cells(c, op.view, op.indices, op)
    value, root = c.slot(op.value), op.view.root
    active = c.active()
    size = DTYPES[root.type].itemsize
    local = root.storage == "local"
    judged = not local and c.map is None

    def run(warp: Warp) -> None:
        data, index = cells(warp)
        new = warp.v[value]
        mask = active(warp)
        if warp.cta.watch is not None and not local:
            warp.touch(root, index, size, mask, op, write=True)
        if mask is not None and (type(index) is np.ndarray or type(new) is np.ndarray):
            shape = np.broadcast_shapes(np.shape(index), np.shape(new), mask.shape)
            flags = np.broadcast_to(mask, shape)
            index = np.broadcast_to(index, shape)[flags]
            new = np.broadcast_to(new, shape)[flags]
        if judged and warp.cta.watch is not None and type(new) is np.ndarray:
            _agree(index, new, op, warp)
        if type(index) is not np.ndarray and type(new) is np.ndarray:
            new = new.reshape(-1)[-1]  # lanes that write to one place: the last one wins
        data[index] = new

    return c.preemptible(Code(run))


def _agree(index: Any, new: Array, op: Op, warp: Warp) -> None:
    """Lanes that store to one element must store one value: which of several stays is open."""
    places = np.broadcast_to(index, new.shape).reshape(-1)
    bits = new.reshape(-1).view(f"u{new.dtype.itemsize}")
    order = np.argsort(places, kind="stable")
    places, bits = places[order], bits[order]
    if ((places[1:] == places[:-1]) & (bits[1:] != bits[:-1])).any():
        raise fault(
            "E-5053",
            op,
            f"lanes of warp {warp.index} store different values to one element",
            notes=["nothing orders the lanes of one statement: which value stays is open"],
            hint="let one lane store it, or give each lane an element of its own",
        )


def _cells(c: Compiler, view: View, indices: tuple[Any, ...], op: Op) -> Callable[[Warp], Cells]:
    root = view.root
    locate = coordinates(c, view, indices, op)
    active = c.active()
    if isinstance(root, Param):
        data = data_of(c, root, op)
        flat, dims, strides = data.flat, data.dims, data.strides

        def in_global(warp: Warp) -> Cells:
            found = check_coordinates(locate(warp), dims, active(warp), view, warp, op)
            return flat, linear(found, strides)

        return in_global
    if root.storage == "local":
        return _local_cells(c, view, locate, op)
    tile = c.tile(root)
    slot = c.getter(view.slot)

    def in_shared(warp: Warp) -> Cells:
        found = check_coordinates(locate(warp), root.shape, active(warp), view, warp, op)
        index = tile.index[linear(found[:-1], tile.row_strides), found[-1]]
        return warp.cta.shared.typed(tile.dtype), index + _slot_start(slot(warp), warp, tile, active, op) // tile.size

    return in_shared


def _slot_start(slot: Scalar, warp: Warp, tile: Any, active: Callable[[Warp], Array | None], op: Op) -> Scalar:
    if type(slot) is not np.ndarray:
        return tile.slot_bytes(slot, op)
    mask = active(warp)
    seen = slot if mask is None else np.broadcast_to(slot, np.broadcast_shapes(slot.shape, mask.shape))[mask]
    for number in (seen.min(), seen.max()):
        tile.slot_bytes(int(number), op)
    return tile.base + np.clip(slot, 0, tile.buffer.slots - 1).astype(np.int64) * tile.stride


def _local(warp: Warp, root: Buffer) -> Array:
    """A local buffer of all lanes of a warp: [32 * slots * elements]."""
    data = warp.local.get(root)
    if data is None:
        count = WARP * root.slots * int(np.prod(root.shape))
        data = warp.local[root] = np.full(count, poison(root.type), dtype=DTYPES[root.type])
    return data


def _local_cells(c: Compiler, view: View, locate: Callable[[Warp], list[Scalar]], op: Op) -> Callable[[Warp], Cells]:
    root = view.root
    assert isinstance(root, Buffer)
    count = int(np.prod(root.shape))
    slot, active, total = c.getter(view.slot), c.active(), count * root.slots
    strides = tuple(int(np.prod(root.shape[d + 1 :])) for d in range(len(root.shape)))
    axes = c.map.axes if c.map is not None else 1

    def in_local(warp: Warp) -> Cells:
        data = _local(warp, root)
        found = check_coordinates(locate(warp), root.shape, active(warp), view, warp, op)
        number = slot(warp)
        if not (np.all(np.asarray(number) >= 0) and np.all(np.asarray(number) < root.slots)):
            raise fault("E-5012", op, f"a slot of `{root.name}` that it does not have")
        lanes = np.arange(WARP, dtype=np.int64).reshape(WARP, *[1] * (axes - 1))
        return data, lanes * total + number * count + linear(found, strides)

    return in_local


# --------------------------------------------------------------------------------------------------------- tiles
class _Share:
    """What the lanes of a warp copy or fill of a tile: pieces of `vector` bytes dealt out round robin.

    Piece u of the tile (row by row) belongs to participant u % count.
    """

    def __init__(self, extents: tuple[int, ...], per_piece: int, rank_base: int, count: int) -> None:
        self.extents, self.per_piece = extents, per_piece
        self.rank_base, self.count = rank_base, count
        self.pieces = int(np.prod(extents)) // per_piece
        self._found: dict[tuple[int, int], list[Array]] = {}
        self._lanes: dict[tuple[int, int], NDArray[np.int8]] = {}

    def lanes(self, warp: Warp) -> NDArray[np.int8]:
        """Who has each of the pieces of `coordinates`."""
        self.coordinates(warp)
        return self._lanes[warp.index, warp.mask]

    def coordinates(self, warp: Warp) -> list[Array]:
        """Coordinates in the tile of the first element of each piece, one array a dimension."""
        key = (warp.index, warp.mask)
        found = self._found.get(key)
        if found is None:
            ranks = warp.threads - self.rank_base
            own = lane_flags(warp.mask) & (ranks >= 0) & (ranks < self.count)
            steps = np.arange(-(-self.pieces // self.count))
            flat = (steps[:, None] * self.count + ranks[own]).reshape(-1)
            self._lanes[key] = np.tile(LANES[own], len(steps))[flat < self.pieces]
            flat = flat[flat < self.pieces] * self.per_piece
            found = []
            for extent in reversed(self.extents):
                found.append(flat % extent)
                flat = flat // extent
            found = self._found[key] = found[::-1]
        return found


def _fill_local(c: Compiler, op: hw.FillTile, root: Buffer) -> Code:
    """Each lane fills its own."""
    if not op.dest.whole or op.dest.slot is not None:
        raise fault("E-5030", op, f"the simulator cannot fill a part of the local buffer `{root.name}`")
    value = c.slot(op.value)

    def run(warp: Warp) -> None:
        content = warp.v[value]
        data = _local(warp, root).reshape(WARP, -1)
        flags = lane_flags(warp.mask)
        data[flags] = content[flags, None] if type(content) is np.ndarray else content

    return Code(run)


class _Side:
    """One side of a cooperative copy: finds the pieces of a view, in units of the copy's vector."""

    def __init__(self, c: Compiler, view: View, checked: tuple[int, ...], vector: int, op: Op) -> None:
        self.view, self.checked, self.vector, self.op = view, checked, vector, op
        self.root = view.root
        if self.root.storage == "local":
            raise fault(
                "E-5030", op, f"the simulator cannot copy a tile from or to the local buffer `{self.root.name}`"
            )
        self.origin = origin(c, view, op)
        self.extents = tuple(c.extent(e, op) for e in view.extents)
        self.data = data_of(c, self.root, op) if isinstance(self.root, Param) else None
        self.tile = c.tile(self.root) if isinstance(self.root, Buffer) else None
        self.slot = slot_of(c, view, op)
        self.size = DTYPES[self.root.type].itemsize

    def units(self, warp: Warp) -> Array:
        if self.data is not None:
            return self.data.units(self.vector)
        return warp.cta.shared.typed(UNITS[self.vector])

    def locate(self, warp: Warp, tile: list[Array]) -> tuple[Array, Array | None]:
        """Unit numbers of pieces, and which of them lie inside the root (None: all). The others' numbers are 0."""
        at = self.origin(warp)
        found: list[Array] = [np.asarray(o) for o in at]
        for d, coordinate in zip(self.view.kept, tile, strict=True):
            found[d] = coordinate + at[d]
        inside = self._inside(warp, at, found)
        if inside is not None:
            found = [np.where(inside, f, 0) for f in found]
        if self.data is not None:
            element: Any = linear(list(found), self.data.strides)
        else:
            assert self.tile is not None
            element = self.tile.index[linear(list(found[:-1]), self.tile.row_strides), found[-1]]
            element = element + self.tile.slot_bytes(self.slot(warp), self.op) // self.size
        return self._to_units(np.broadcast_to(element, tile[0].shape if tile else ()), inside), inside

    def _to_units(self, element: Array, inside: Array | None) -> Array:
        start = element * self.size
        if self.vector != self.size:
            misplaced = start % self.vector != 0
            if inside is not None:
                misplaced &= inside
            if misplaced.any():
                raise fault(
                    "E-5024",
                    self.op,
                    f"a {self.vector}-byte access of `{self.root.name}` at byte {int(start[misplaced][0])}",
                    notes=[f"an access of {self.vector} bytes must be at a multiple of {self.vector}"],
                )
        return start // self.vector

    def _inside(self, warp: Warp, at: tuple[int, ...], found: list[Array]) -> Array | None:
        shape: Any = self.data.dims if self.data is not None else self.root.shape
        if all(o >= 0 and o + e <= s for o, e, s in zip(at, self.extents, shape, strict=True)):
            return None
        inside: Any = True
        for d, (coordinate, extent) in enumerate(zip(found, shape, strict=True)):
            within = (coordinate >= 0) & (coordinate < extent)
            if d not in self.checked and not np.all(within):
                first = int(np.asarray(coordinate)[~within].reshape(-1)[0])
                raise outside_fault(self.view, d, first, int(extent), warp, self.op)
            inside = inside & within
        return np.asarray(inside)


@handles(hw.CopyTile)
def _copy_tile(c: Compiler, op: hw.CopyTile) -> Code:
    size = DTYPES[op.source.root.type].itemsize
    extents = tuple(c.extent(e, op) for e in op.dest.shape)
    vector = op.vector
    source = _Side(c, op.source, op.source_checked, vector, op)
    dest = _Side(c, op.dest, op.dest_checked, vector, op)
    share = _Share(extents, vector // size, op.rank_base, op.count)
    dtype = UNITS[vector]

    def run(warp: Warp) -> None:
        pieces = share.coordinates(warp)
        if not len(pieces[0]):
            return
        read, readable = source.locate(warp, pieces)
        written, writable = dest.locate(warp, pieces)
        if readable is None:
            values = source.units(warp)[read]
        else:
            values = np.zeros(read.shape, dtype=dtype)
            values[readable] = source.units(warp)[read[readable]]
        into, values = (written, values) if writable is None else (written[writable], values[writable])
        watch = warp.cta.watch
        if watch is not None:
            lanes = share.lanes(warp)
            if watch.follows(source.root):
                watch.touch(warp, op, _pieces(source.root, read, vector, lanes, readable), write=False)
            if watch.follows(dest.root):
                watch.touch(warp, op, _pieces(dest.root, written, vector, lanes, writable), write=True)
        dest.units(warp)[into] = values

    return c.preemptible(Code(run))


def _pieces(root: Buffer | Param, index: Array, size: int, lanes: Array, inside: Array | None) -> Place:
    """The pieces of a tile that the lanes of a warp touch, in the order of `lanes`; `inside`: which of them exist."""
    at, by = index.reshape(-1).astype(np.int64), lanes
    if inside is not None:
        chosen = np.broadcast_to(inside, index.shape).reshape(-1)
        at, by = at[chosen], by[chosen]
    units = Units(at, size, by)
    return Place(root, lambda: units, (root, size, at.tobytes(), by.tobytes()))


@handles(hw.FillTile)
def _fill_tile(c: Compiler, op: hw.FillTile) -> Code:
    root = op.dest.root
    if isinstance(root, Buffer) and root.storage == "local":
        return _fill_local(c, op, root)
    size = DTYPES[root.type].itemsize
    dest = _Side(c, op.dest, (), size, op)
    share = _Share(tuple(c.extent(e, op) for e in op.dest.shape), 1, op.rank_base, op.count)
    value, dtype = c.slot(op.value), DTYPES[root.type]
    slots = range(root.slots) if isinstance(root, Buffer) and root.array and op.dest.slot is None else None

    def run(warp: Warp) -> None:
        pieces = share.coordinates(warp)
        if not len(pieces[0]):
            return
        written, writable = dest.locate(warp, pieces)
        lanes, watch = share.lanes(warp), warp.cta.watch
        if writable is not None:
            written, lanes = written[writable], lanes[np.broadcast_to(writable, written.shape)]
        content = np.asarray(warp.uniform(warp.v[value], op, "the value of a fill"), dtype=dtype)
        bits = content.reshape(1).view(UNITS[size])[0]
        target = dest.units(warp)
        strides = [0] if slots is None or dest.tile is None else [s * dest.tile.stride // size for s in slots]
        for shift in strides:
            if watch is not None and watch.follows(root):
                watch.touch(warp, op, _pieces(root, written + shift, size, lanes, None), write=True)
            target[written + shift] = bits

    return c.preemptible(Code(run))
