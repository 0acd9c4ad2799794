"""The copy engine: tensor-map loads and stores, their groups and their bytes on barriers.

A box is moved as the hardware does it: its elements in order, innermost dimension first, to consecutive addresses from
the start of the destination, each address XORed by the map's swizzle. Elements outside the tensor read as zero and are
not written; their bytes count all the same. PTX ISA, cp.async.bulk.tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croq.ir import hw
from croq.ir.core import Op
from croq.ir.objects import Buffer, TensorMap, View
from croq.simulate.barriers import Mbarrier
from croq.simulate.compiler import Code, Compiler, handles
from croq.simulate.dtypes import Array, Scalar
from croq.simulate.faults import fault
from croq.simulate.machine import Pending, Run, Waiting, Warp, lanes_of
from croq.simulate.memory import CHUNK
from croq.simulate.views import Box, data_of, start_of
from croq.simulate.watch import Place, whole
from croq.target import swizzle
from croq.target.cuda import TMA_SHARED_ALIGNMENT


class MappedTensor:
    """A parameter as a tensor map sees it: an array whose axes are the map's dimensions, outermost first."""

    def __init__(self, c: Compiler, map_: TensorMap, op: Op) -> None:
        self.map = map_
        self.data = data_of(c, map_.param, op)
        array = self.data.array
        last = array.ndim - 1
        if map_.split is not None:
            if array.shape[last] % map_.split:
                raise fault(
                    "E-5024",
                    op,
                    f"a tensor map cuts rows of `{map_.param.name}` into pieces of {map_.split} elements, "
                    f"but a row has {array.shape[last]}",
                    notes=["the last piece of a row would run on into the next row"],
                )
            array = array.reshape(*array.shape[:-1], array.shape[last] // map_.split, map_.split)
        axes, seen = [], False
        for axis in map_.axes:  # innermost first: of a split dimension first the elements, then the pieces
            if axis == last and map_.split is not None:
                axes.append(last if seen else last + 1)
                seen = True
            else:
                axes.append(axis)
        dropped = [a for a in range(array.ndim) if a not in axes]
        for axis in dropped:
            if array.shape[axis] != 1:
                raise fault("E-5024", op, f"a tensor map leaves out dimension {axis} of `{map_.param.name}`")
        self.array = np.squeeze(array.transpose([*dropped, *reversed(axes)]), tuple(range(len(dropped))))
        self.box = tuple(reversed(map_.box))
        self.extents = tuple(c.extent(d, op) for d in reversed(map_.dims))
        if any(e > full for e, full in zip(self.extents, self.array.shape, strict=True)):
            raise fault(
                "E-5024",
                op,
                f"a tensor map of `{map_.param.name}` is larger than the data",
                notes=[f"map {self.extents}, data {self.array.shape}, outermost dimension first"],
            )
        self.bytes = int(np.prod(self.box)) * array.dtype.itemsize

    def _parts(self, at: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...], bool]:
        """Where the part of the box that lies inside is: in the array, in the box; and whether that is all of it."""
        inside, box, whole = [], [], True
        for start, length, extent in zip(at, self.box, self.extents, strict=True):
            lo, hi = max(start, 0), max(min(start + length, extent), max(start, 0))
            inside.append(slice(lo, hi))
            box.append(slice(lo - start, hi - start))
            whole &= hi - lo == length
        return tuple(inside), tuple(box), whole

    def read(self, at: tuple[int, ...]) -> Array:
        """The box at coordinates (outermost first), zeros outside."""
        inside, box, whole = self._parts(at)
        if whole:
            return np.ascontiguousarray(self.array[inside])
        found = np.zeros(self.box, dtype=self.array.dtype)
        if self._overlaps(inside):
            found[box] = self.array[inside]
        return found

    def write(self, at: tuple[int, ...], values: Array) -> None:
        inside, box, _ = self._parts(at)
        if self._overlaps(inside):
            self.array[inside] = values.reshape(self.box)[box]

    @staticmethod
    def _overlaps(inside: tuple[slice, ...]) -> bool:
        return all(s.stop > s.start for s in inside)

    def watched(self, at: tuple[int, ...]) -> Place:
        """What lies inside, for a watcher."""
        param = self.data.param
        return Place(param, lambda: whole(self._elements(at), self.data.size), (self.map, at))

    def _elements(self, at: tuple[int, ...]) -> NDArray[np.int64]:
        """Element numbers in the parameter's data."""
        inside, _, _ = self._parts(at)
        total = np.zeros((1,) * len(inside), dtype=np.int64)
        for d, (part, stride) in enumerate(zip(inside, self.array.strides, strict=True)):
            shape = [-1 if axis == d else 1 for axis in range(len(inside))]
            steps = np.arange(part.start, part.stop, dtype=np.int64) * (stride // self.array.itemsize)
            total = total + steps.reshape(shape)
        return total.reshape(-1)


class SharedBox:
    """The consecutive (before swizzling) bytes of shared memory that one instruction moves."""

    def __init__(
        self, c: Compiler, view: View, mapped: MappedTensor, op: hw.BulkTensorLoad | hw.BulkTensorStore
    ) -> None:
        self.box = Box(c, view, op)
        self._start = start_of(c, view, op.start, op)
        self._checked: set[tuple[int, ...]] = set()
        self.width = mapped.map.swizzle
        self.bytes = mapped.bytes
        buffer = view.root
        assert isinstance(buffer, Buffer)
        moved = self.box.rows * self.box.cols * self.box.tile.size
        if moved != self.bytes:
            raise fault(
                "E-5024",
                op,
                f"a tensor-map box of {self.bytes} bytes for a part of `{buffer.name}` of {moved} bytes",
            )
        layout = buffer.swizzle if buffer.swizzle > 16 else 0
        if layout != self.width:
            raise fault(
                "E-5024",
                op,
                f"the tensor map swizzles by {self.width} bytes, `{buffer.name}` is laid out for {layout}",
            )
        self._pattern: dict[int, Array] = {}
        self._places: dict[int, Place] = {}

    def watched(self, start: int) -> Place:
        found = self._places.get(start)
        if found is None:
            buffer = self.box.tile.buffer
            found = self._places[start] = Place(buffer, lambda: whole(self.chunks(start), 16))
        return found

    def start(self, warp: Warp, op: Op) -> int:
        """Where the box begins; it must be the part of the buffer that the operation names."""
        slot, row, col = self.box.place(warp, op)
        self.box.check_pattern(warp, op)
        tile = self.box.tile
        start = slot + self._start(warp)
        if (slot, row, col, start) not in self._checked:
            self._checked.add((slot, row, col, start))
            self._check(slot, row, col, start, op)
        if start % TMA_SHARED_ALIGNMENT:
            raise fault(
                "E-5024",
                op,
                f"a TMA box of `{tile.buffer.name}` starts at byte {start} of shared memory, "
                f"no multiple of {TMA_SHARED_ALIGNMENT}",
            )
        return start

    def _check(self, slot: int, row: int, col: int, start: int, op: Op) -> None:
        tile, box, width = self.box.tile, self.box, self.box.tile.buffer.swizzle
        named = slot + tile.size * tile.index[row + box.row_pattern][:, col : col + box.cols]
        if width:  # slab by slab
            named = named.reshape(box.rows, -1, min(width // tile.size, box.cols)).transpose(1, 0, 2)
        written = swizzle.swizzle_offset(start + tile.size * np.arange(named.size, dtype=np.int64), self.width)
        if not np.array_equal(named.reshape(-1), written):
            raise fault(
                "E-5024",
                op,
                f"a TMA box at byte {start} of shared memory is not the part of `{tile.buffer.name}` that is named",
            )

    def chunks(self, start: int) -> Any:
        """Index of the box's 16-byte pieces in shared memory."""
        count = self.bytes // 16
        if not self.width:
            return slice(start // 16, start // 16 + count)
        phase = start % swizzle.alignment(self.width)
        pattern = self._pattern.get(phase)
        if pattern is None:
            linear = phase + 16 * np.arange(count, dtype=np.int64)
            pattern = self._pattern[phase] = (swizzle.swizzle_offset(linear, self.width) - phase) // 16
        return pattern + start // 16


def _mapped(c: Compiler, map_: TensorMap, op: Op) -> MappedTensor:
    found = c.mapped.get(map_)
    if found is None:
        found = c.mapped[map_] = MappedTensor(c, map_, op)
    return found


def _coordinates(c: Compiler, op: hw.BulkTensorLoad | hw.BulkTensorStore) -> Callable[[Warp, int], tuple[int, ...]]:
    """Coordinates that a lane gives, outermost first."""
    slots = [c.slot(coordinate) for coordinate in reversed(op.coords)]
    if len(slots) != len(op.map.box):
        raise fault("E-5099", op, f"{len(slots)} coordinates for a map of {len(op.map.box)} dimensions")

    def find(warp: Warp, lane: int) -> tuple[int, ...]:
        v = warp.v
        return tuple(_of_lane(v[slot], lane) for slot in slots)

    return find


def _of_lane(value: Scalar, lane: int) -> int:
    return int(value[lane]) if type(value) is np.ndarray else int(value)


@handles(hw.BulkTensorLoad)
def _load(c: Compiler, op: hw.BulkTensorLoad) -> Code:
    mapped = _mapped(c, op.map, op)
    dest = SharedBox(c, op.dest, mapped, op)
    coordinates, slot, event = _coordinates(c, op), c.getter(op.slot), op.event
    eager = c.policy.eager

    def issue(warp: Warp, lane: int) -> None:
        at, start = coordinates(warp, lane), dest.start(warp, op)
        barrier: Mbarrier = warp.cta.barriers.slot(event, _of_lane(slot(warp), lane), op)
        barrier.check(op)
        phase, watch = barrier.phase, warp.cta.watch
        if watch is not None:
            source = mapped.watched(at) if watch.follows(mapped.data.param) else None
            watch.load(warp, lane, op, source, dest.watched(start), barrier)

        def land(pending: Pending) -> None:
            warp.cta.shared.chunks[dest.chunks(start)] = mapped.read(at).reshape(-1).view(CHUNK)
            barrier.complete(mapped.bytes, phase, op)
            if watch is not None and barrier.phase != phase:
                watch.complete(op, barrier)

        _in_flight(warp, Pending(warp, op, land, lane), eager, pool=True)

    def run(warp: Warp) -> None:
        for lane in lanes_of(warp.mask):
            issue(warp, lane)

    return c.preemptible(Code(run))


def _in_flight(warp: Warp, pending: Pending, eager: bool, *, pool: bool) -> None:
    if eager:
        pending.complete()
    elif pool:
        warp.cta.pending.append(pending)


@handles(hw.BulkTensorStore)
def _store(c: Compiler, op: hw.BulkTensorStore) -> Code:
    mapped = _mapped(c, op.map, op)
    source = SharedBox(c, op.source, mapped, op)
    coordinates = _coordinates(c, op)
    eager, pool = c.policy.eager, c.policy.stepwise

    def issue(warp: Warp, lane: int) -> None:
        at, start = coordinates(warp, lane), source.start(warp, op)
        bulk, watch = warp.bulk[lane], warp.cta.watch
        if watch is not None:
            into = mapped.watched(at) if watch.follows(mapped.data.param) else None
            watch.store(warp, lane, op, source.watched(start), into, bulk.committed + 1)

        def move(pending: Pending) -> None:
            values = np.ascontiguousarray(warp.cta.shared.chunks[source.chunks(start)])
            mapped.write(at, values.view(mapped.array.dtype))

        pending = Pending(warp, op, move, lane)
        bulk.open.append(pending)
        _in_flight(warp, pending, eager, pool=pool)

    def run(warp: Warp) -> None:
        for lane in lanes_of(warp.mask):
            issue(warp, lane)

    return c.preemptible(Code(run))


@handles(hw.BulkCommit)
def _commit(c: Compiler, op: hw.BulkCommit) -> Code:
    def run(warp: Warp) -> None:
        for lane in lanes_of(warp.mask):
            warp.bulk[lane].commit()

    return c.preemptible(Code(run))


def _done(pending: Pending) -> bool:
    return pending.done


@handles(hw.BulkWait)
def _bulk_wait(c: Compiler, op: hw.BulkWait) -> Code:
    depth, lazy, read = op.depth, c.policy.lazy, op.read

    def run(warp: Warp) -> Run:
        for lane in lanes_of(warp.mask):
            bulk = warp.bulk[lane]
            for stores in bulk.due(depth):
                for pending in stores:
                    if lazy:
                        pending.complete()
                    if not pending.done:
                        yield Waiting(op, partial(_done, pending), lambda: "its bulk stores")
            if warp.cta.watch is not None and bulk.committed > depth:
                warp.cta.watch.stored(warp, lane, op, bulk.committed - depth, read=read)

    return c.preemptible(Code(blocking=run))
