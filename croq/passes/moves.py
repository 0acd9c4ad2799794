"""Moves of tiles: TMA instructions with their tensor maps, cooperative copies, and the barriers around them.

Rules (PTX ISA, "cp.async.bulk.tensor"; CUDA driver API, cuTensorMapEncodeTiled; hopper.md section 4)
    T1  A tensor map covers a parameter with every dimension of its own, so that a box that overhangs is clipped (zero
        on load, not written on store) at the end of its own row, sequence or head.
    T2  The inner box is one slab of the buffer (its swizzle width), or the whole row of a plain buffer. A tile of
        several slabs is one instruction when the slabs can be a map dimension: the parameter's innermost extent is a
        constant multiple of the slab, the map's rank stays within 5, and the tile covers all rows of its buffer (the
        slabs of a box follow one another without a gap). Otherwise one instruction a slab.
    T3  Boxes have at most 256 elements a dimension (more rows: more instructions), inner bytes a multiple of 16
        (E-831).
    T4  A store is issued by one elected thread after a barrier of all threads that execute the statement; when the tile
        depends on the warpgroup, by one of each warpgroup after a barrier of the warpgroup (language reference 8.4).
    T5  The source of a store may be overwritten only after the copy engine has read it: the issuing thread waits for
        that, and a barrier lets the others know. Where the same threads are the buffer's only writers, both stand
        before the next write instead of after the store, so that other work covers the time.
    T6  A cooperative copy is done by all threads that execute the statement with the same tile, between two barriers:
        before it, so that nobody still reads what it overwrites (only where the buffer was used before), and after it.

Needs: events (loads are bound), swizzles. Adds: `tensor_maps`. Leaves no `tma.*`, `dma.*`, `buffer.fill`, `sync`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op, Value
from croq.ir.hw import (
    BulkCommit,
    BulkTensorLoad,
    BulkTensorStore,
    BulkWait,
    CopyTile,
    Elect,
    FillTile,
    Section,
    WarpSync,
)
from croq.ir.objects import Buffer, Kernel, Param, TensorMap, View
from croq.ir.rewrite import Builder
from croq.ir.scalar import For, While
from croq.ir.tile import BufferFill, DmaCopy, Sync, TmaIssue, TmaStore
from croq.ir.types import BYTES, ThreadSet
from croq.passes.barriers import barrier, barrier_each
from croq.passes.base import Pass
from croq.passes.threads import ThreadAnalysis
from croq.passes.values import divides
from croq.sema.symbolic import Dim
from croq.target.sm90.limits import TMA_INNER_BOX_MULTIPLE, TMA_MAX_BOX_DIM, TMA_MAX_RANK

VECTOR = 16  # bytes of the widest access


@dataclass(frozen=True)
class Moves(Pass):
    name: ClassVar[str] = "moves"

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        _Lower(kernel, sink).run()


@dataclass
class _Part:
    """One TMA instruction: its box in the parameter and the part of the tile that it moves."""

    map: TensorMap
    coords: tuple[Value | int, ...]
    tile: View


class _Lower:
    def __init__(self, kernel: Kernel, sink: Sink) -> None:
        self.kernel = kernel
        self.sink = sink
        self.analysis = ThreadAnalysis(kernel)
        self.maps: dict[tuple[object, ...], TensorMap] = {}
        self.order = {op: n for n, op in enumerate(kernel.walk())}
        self.loops: dict[Op, tuple[Op, ...]] = {}
        self.touches: dict[Buffer, list[tuple[Op, str]]] = {}
        self.homes: dict[Op, tuple[Block, ThreadSet | None]] = {}  # innermost section that no loop repeats
        self._index(kernel.body, (), (kernel.body, ThreadSet.all(kernel.threads)))
        self.drains: dict[Op, list[Op]] = {}  # before which operations a store must have read its source (T5)
        self.last_drains: dict[tuple[Block, tuple[ThreadSet, ...]], Op] = {}  # at the ends of which it must have, too (T5)

    def _index(self, block: Block, loops: tuple[Op, ...], home: tuple[Block, ThreadSet | None]) -> None:
        for op in block.ops:
            self.loops[op] = loops
            self.homes[op] = home
            for effect in op.effects():
                if isinstance(effect.target, View) and isinstance(effect.target.root, Buffer):
                    self.touches.setdefault(effect.target.root, []).append((op, effect.kind))
            inner = (*loops, op) if isinstance(op, (For, While)) else loops
            inside = (op.body, op.threads) if isinstance(op, Section) and not loops else home
            for region in op.regions():
                self._index(region, inner, inside)

    def run(self) -> None:
        self._block(self.kernel.body)
        if not self.sink.failed:
            self._insert_drains(self.kernel.body)
            for (block, _), drain in self.last_drains.items():
                block.ops.append(drain)

    def _block(self, block: Block) -> None:
        result: list[Op] = []
        for op in block.ops:
            for region in op.regions():
                self._block(region)
            result += self._replace(op)
        block.ops[:] = result

    def _replace(self, op: Op) -> list[Op]:
        if isinstance(op, TmaIssue):
            return self._load(op)
        if isinstance(op, TmaStore):
            return self._store(op)
        if isinstance(op, DmaCopy):
            return self._copy(op)
        if isinstance(op, BufferFill):
            return self._fill(op)
        if isinstance(op, Sync):
            return self._sync(op)
        return [op]

    # ------------------------------------------------------------------------------------------------------------- TMA
    def _load(self, op: TmaIssue) -> list[Op]:
        parts, build = self._parts(op.source, op.dest, op)
        for part in parts:
            coords = tuple(_value(build, c) for c in part.coords)
            build.add(BulkTensorLoad(part.map, coords, part.tile, op.event, op.slot, op.evict))
        return build.take()

    def _store(self, op: TmaStore) -> list[Op]:
        groups = self._issuers(op, [*op.source.values(), *op.dest.values()])
        parts, build = self._parts(op.dest, op.source, op)
        for part in parts:
            coords = tuple(_value(build, c) for c in part.coords)
            build.add(BulkTensorStore(part.map, coords, part.tile))
        build.add(BulkCommit())
        deferred = self._drain_later(op, groups)
        if not deferred:
            build.add(BulkWait(0, True))
        result = barrier_each(self.kernel, groups, op.span, self.sink) if groups else []
        result.append(_elect(groups, build.take(), op))
        if not deferred and self._written_again(op):
            result += barrier_each(self.kernel, groups, op.span, self.sink)
        return result

    def _issuers(self, op: Op, values: list[Value]) -> list[ThreadSet]:
        """T4, T6: the sets of threads that act as one; none after an error."""
        if op.threads is None:
            self.sink.error(
                "E-2101",
                op.span,
                "which threads execute this move depends on run-time values that differ between threads",
                notes=["the threads of a move wait for one another"],
                hint="move it out of the divergent `if` or loop",
            )
            return []
        groups = self.analysis.groups(values, op.threads)
        if len(groups) > 1 and not all(len(g) == 128 and g.whole_warpgroups() for g in groups):
            self.sink.error(
                "E-832",
                op.span,
                "the tile of this move differs between threads of one warpgroup",
                notes=["a tile is moved as a whole by a warpgroup, or by all threads of the statement"],
                hint="let the tile depend on block and warpgroup indices only",
            )
            return []
        return groups

    def _parts(self, outer: View, tile: View, op: Op) -> tuple[list[_Part], Builder]:
        """The instructions for one tile: `outer` in a parameter, `tile` in a buffer."""
        build = Builder(span=op.span, threads=op.threads)
        param, buffer = outer.root, tile.root
        assert isinstance(param, Param) and isinstance(buffer, Buffer)
        if not self._describable(outer, tile, op):
            return [], build
        size = BYTES[buffer.type]
        cols = tile.extents[-1].known or 0
        rows_dim = outer.kept[-2] if len(outer.kept) > 1 else None
        slab = buffer.swizzle // size if buffer.swizzle else cols
        slabs = cols // slab
        merged = slabs > 1 and self._mergeable(outer, tile, slab)
        row_step = _largest_step(outer.extents[rows_dim].known or 0) if rows_dim is not None else 1
        rows = (outer.extents[rows_dim].known or 0) if rows_dim is not None else 1
        col_step = slab
        if rows_dim is None and not buffer.swizzle:
            col_step = _largest_step(cols)
        if col_step > TMA_MAX_BOX_DIM or col_step * size % TMA_INNER_BOX_MULTIPLE:
            self._bad_box(op, cols, size)
            return [], build
        parts: list[_Part] = []
        for row in range(0, rows, row_step):
            for col in range(0, cols, cols if merged else col_step):
                box = self._box(outer, cols if merged else col_step, row_step, rows_dim)
                tensor_map = self._map(param, outer, box, slab if merged else None, buffer.swizzle)
                coords = self._coords(build, outer, tensor_map, row, col, rows_dim)
                parts.append(_Part(tensor_map, coords, _part_of(build, tile, row, row_step, col, box[-1], rows_dim)))
        for part in parts:
            part.map.loads_per_tile = max(part.map.loads_per_tile, len(parts))
        return parts, build

    def _describable(self, outer: View, tile: View, op: Op) -> bool:
        rank = len(outer.extents)
        if rank > TMA_MAX_RANK:
            message = f"`{outer.root.name}` has {rank} dimensions; a tensor map has at most {TMA_MAX_RANK}"
        elif not outer.kept or outer.kept[-1] != rank - 1:
            message = "the innermost dimension of the tile is not contiguous in memory"
        elif any(e.known is None for e in (*outer.shape, *tile.shape)):
            message = "the extents of a TMA tile must be constants"
            self.sink.error("E-830", op.span, message, hint="use macros or literals as extents of `subspan`")
            return False
        else:
            return True
        self.sink.error(
            "E-831", op.span, message, hint="use `dma.copy` for this tile, or move its contiguous dimension last"
        )
        return False

    def _bad_box(self, op: Op, cols: int, size: int) -> None:
        self.sink.error(
            "E-831",
            op.span,
            f"a row of {cols} elements of {size} bytes cannot be the inner dimension of a TMA box",
            notes=[
                f"its bytes must be a multiple of {TMA_INNER_BOX_MULTIPLE} and its elements at most {TMA_MAX_BOX_DIM}",
            ],
            hint="choose another inner extent, or a `.swiz<N>` that splits the row into slabs",
        )

    def _mergeable(self, outer: View, tile: View, slab: int) -> bool:
        """T2: several slabs by one instruction."""
        inner = outer.root.shape[-1] if outer.root.shape else None
        extent = inner.known if isinstance(inner, Dim) else inner
        buffer = tile.root
        assert isinstance(buffer, Buffer)
        whole_rows = all(e.known == full for e, full in zip(tile.extents[:-1], buffer.shape[:-1], strict=True))
        rows = 1
        for full in buffer.shape[:-1]:
            rows *= full
        return (
            extent is not None
            and extent % slab == 0
            and len(outer.extents) < TMA_MAX_RANK
            and whole_rows
            and rows <= TMA_MAX_BOX_DIM
            and divides(slab, outer.offsets[-1])
        )

    def _box(self, outer: View, cols: int, row_step: int, rows_dim: int | None) -> tuple[int, ...]:
        """Extents of the instruction's box along the parameter's dimensions, outermost first."""
        box = [extent.known or 1 for extent in outer.extents]
        box[-1] = cols
        if rows_dim is not None:
            box[rows_dim] = row_step
        return tuple(box)

    def _map(self, param: Param, outer: View, box: tuple[int, ...], split: int | None, swizzle: int) -> TensorMap:
        """Dimensions innermost first; the slab dimension follows the dimensions of the tile, as the buffer has it."""
        shape = param.shape or ()
        kept = list(reversed(outer.kept))
        axes = [*kept, *(d for d in reversed(range(len(shape))) if d not in outer.kept)]
        dims = [shape[d] for d in axes]
        extents = [box[d] for d in axes]
        if split is not None:
            place = len(kept)
            axes.insert(place, len(shape) - 1)
            dims.insert(place, shape[-1].div(split))
            extents.insert(place, box[-1] // split)
            dims[0], extents[0] = Dim.of(split), split
        key = (param, tuple(extents), tuple(axes), split, swizzle)
        if key not in self.maps:
            taken = {m.name for m in self.kernel.tensor_maps}
            name, n = f"{param.name}_map", 1
            while name in taken:
                n += 1
                name = f"{param.name}_map_{n}"
            why = "one instruction a tile: slabs are a dimension of the map" if split else "one box a slab"
            made = TensorMap(name, param, tuple(extents), tuple(axes), split, tuple(dims), swizzle, why=why)
            self.maps[key] = made
            self.kernel.tensor_maps.append(made)
        return self.maps[key]

    def _coords(
        self, build: Builder, outer: View, tensor_map: TensorMap, row: int, col: int, rows_dim: int | None
    ) -> tuple[Value | int, ...]:
        coords: list[Value | int] = []
        seen_inner = False
        last = len(outer.extents) - 1
        for axis in tensor_map.axes:
            offset = outer.offsets[axis]
            if axis == rows_dim:
                offset = _plus(build, offset, row)
            elif axis == last and tensor_map.split is not None:
                offset = _divided(build, offset, tensor_map.split) if seen_inner else 0
                seen_inner = True
            elif axis == last:
                offset = _plus(build, offset, col)
            coords.append(offset)
        return tuple(coords)

    # ---------------------------------------------------------------------------------------------------- drains (T5)
    def _written_again(self, op: TmaStore) -> bool:
        return bool(self._later_writes(op))

    def _later_writes(self, op: TmaStore) -> list[Op]:
        assert isinstance(op.source.root, Buffer)
        writes = [w for w, kind in self.touches.get(op.source.root, []) if kind == "write"]
        shared_loops = set(self.loops[op])
        return [w for w in writes if self.order[w] > self.order[op] or shared_loops & set(self.loops[w])]

    def _drain_later(self, op: TmaStore, groups: list[ThreadSet]) -> bool:
        assert isinstance(op.source.root, Buffer)
        later = self._later_writes(op)
        writers = [w for w, kind in self.touches.get(op.source.root, []) if kind == "write"]
        if not later or not groups or any(w.threads != op.threads or isinstance(w, TmaIssue) for w in writers):
            return False
        for write in later:
            wait = _elect(groups, [BulkWait(0, True, span=op.span)], op)
            self.drains[write] = [wait, *barrier_each(self.kernel, groups, op.span, self.sink)]
        block, threads = self.homes[op]
        last = _elect(groups, [BulkWait(0, True, span=op.span)], op)
        last.threads = threads
        self.last_drains[block, tuple(groups)] = last
        return True

    def _insert_drains(self, block: Block) -> None:
        result: list[Op] = []
        drained: set[Buffer] = set()
        for op in block.ops:
            for region in op.regions():
                self._insert_drains(region)
            if op in self.drains:
                buffer = _written_buffer(op)
                if buffer not in drained:
                    result += self.drains[op]
                    drained.add(buffer)
            if isinstance(op, Elect) and any(isinstance(inner, BulkTensorStore) for inner in op.body.ops):
                drained.clear()
            result.append(op)
        block.ops[:] = result

    # --------------------------------------------------------------------------------------------------- cooperative
    def _copy(self, op: DmaCopy) -> list[Op]:
        groups = self._issuers(op, [*op.source.values(), *op.dest.values()])
        if not groups or not self._contiguous(groups, op):
            return []
        inner = op.dest if isinstance(op.dest.root, Buffer) else op.source
        copy = CopyTile(
            op.source,
            op.dest,
            _vector(op.source, op.dest),
            groups[0].first,
            len(groups[0]),
            span=op.span,
            threads=op.threads,
        )
        result: list[Op] = []
        if self._used_before(op, inner):
            result += barrier_each(self.kernel, groups, op.span, self.sink)
        return [*result, copy, *barrier_each(self.kernel, groups, op.span, self.sink)]

    def _used_before(self, op: Op, tile: View) -> bool:
        if not isinstance(tile.root, Buffer):
            return False
        others = [o for o, _ in self.touches.get(tile.root, []) if o is not op]
        loops = set(self.loops[op])
        return any(self.order[o] < self.order[op] or loops & set(self.loops[o]) for o in others)

    def _contiguous(self, groups: list[ThreadSet], op: Op) -> bool:
        if all(len(g.ranges) == 1 for g in groups):
            return True
        self.sink.error(
            "E-2105",
            op.span,
            f"the threads {groups[0]} that copy together are not consecutive",
            hint="let a consecutive range of threads execute the copy",
        )
        return False

    def _fill(self, op: BufferFill) -> list[Op]:
        groups = self._issuers(op, list(op.dest.values()))
        if not groups or not self._contiguous(groups, op):
            return []
        fill = FillTile(op.dest, op.value, groups[0].first, len(groups[0]), span=op.span, threads=op.threads)
        return [fill, *barrier_each(self.kernel, groups, op.span, self.sink)]

    def _sync(self, op: Sync) -> list[Op]:
        if op.threads is None:
            self._issuers(op, [])
            return []
        if op.level == "group":
            return [WarpSync(span=op.span, threads=op.threads)]
        if op.level == "group-4":
            return barrier_each(self.kernel, _warpgroups(op.threads), op.span, self.sink)
        return barrier(self.kernel, op.threads, op.span, self.sink)


def _written_buffer(op: Op) -> Buffer:
    roots = [e.target.root for e in op.effects() if e.kind == "write" and isinstance(e.target, View)]
    return next(root for root in roots if isinstance(root, Buffer))


def _elect(groups: list[ThreadSet], body: list[Op], op: Op) -> Elect:
    if len(groups) > 1:
        leaders = ThreadSet.of(g.first for g in groups)
        scope: Elect = Elect("warpgroup", None, Block(body), span=op.span, threads=op.threads)
    else:
        first = groups[0].first if groups else 0
        leaders = ThreadSet(((first, first + 1),))
        scope = Elect("set", first, Block(body), span=op.span, threads=op.threads)
    for inner in body:
        inner.threads = leaders
    return scope


def _warpgroups(threads: ThreadSet) -> list[ThreadSet]:
    parts: dict[int, list[int]] = {}
    for t in threads:
        parts.setdefault(t // 128, []).append(t)
    return [ThreadSet.of(part) for part in parts.values()]


def _largest_step(extent: int) -> int:
    """The largest divisor of extent that a box dimension may have."""
    return next((n for n in range(min(extent, TMA_MAX_BOX_DIM), 0, -1) if extent % n == 0), 1)


def _value(build: Builder, item: Value | int) -> Value:
    return build.const("s32", item) if isinstance(item, int) else build.cast(item, "s32")


def _plus(build: Builder, offset: Value | int, amount: int) -> Value | int:
    if isinstance(offset, int):
        return offset + amount
    return build.binary("add", offset, amount)


def _divided(build: Builder, offset: Value | int, amount: int) -> Value | int:
    if isinstance(offset, int):
        return offset // amount
    return build.binary("div", offset, amount)


def _part_of(build: Builder, tile: View, row: int, rows: int, col: int, cols: int, rows_dim: int | None) -> View:
    offsets, extents = list(tile.offsets), list(tile.extents)
    offsets[-1] = _plus(build, offsets[-1], col)
    extents[-1] = Dim.of(cols)
    if rows_dim is not None and len(tile.kept) > 1:
        d = tile.kept[-2]
        offsets[d] = _plus(build, offsets[d], row)
        extents[d] = Dim.of(rows)
    return View(tile.root, tile.slot, tuple(offsets), tuple(extents), tile.kept)


def _vector(source: View, dest: View) -> int:
    """Bytes a thread moves at once: 16 where rows, row pitches and column offsets of both sides are multiples of it."""
    size = BYTES[source.root.type]
    lanes = VECTOR // size
    for view in (source, dest):
        shape = view.root.shape or ()
        pitch = shape[-1].known if isinstance(shape[-1], Dim) else shape[-1]
        extent = view.extents[-1].known
        aligned = pitch is not None and pitch % lanes == 0 and extent is not None and extent % lanes == 0
        if not aligned or not divides(lanes, view.offsets[-1]) or view.kept[-1:] != (len(shape) - 1,):
            return size
    return VECTOR
