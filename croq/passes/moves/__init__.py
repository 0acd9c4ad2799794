"""Moves of tiles: TMA instructions with their tensor maps, cooperative copies, and the barriers around them.

Rules (PTX ISA, "cp.async.bulk.tensor"; CUDA driver API, cuTensorMapEncodeTiled; hopper.md section 4)
    T1  A tensor map covers a parameter with every dimension of its own, so that a box that overhangs is clipped (zero
        on load, not written on store) at the end of its own row, sequence or head.
    T2  The inner box is one slab of the buffer (its swizzle width), or the whole row of a plain buffer. A tile of
        several slabs is one instruction when the slabs can be a map dimension: the parameter's innermost extent is a
        constant multiple of the slab, the map's rank stays within 5, and the tile covers all rows of its buffer (the
        slabs of a box follow one another without a gap). Otherwise one instruction a slab.
    T3  An instruction writes its box without gaps: it spans several rows only where they follow one another in the
        buffer. Boxes have at most 256 elements a dimension, inner bytes a multiple of 16, and begin at a multiple of
        128 bytes in shared memory; a tile is cut where that needs more instructions, and is an error where none will
        do or very many would (E-831).
    T4  A store is issued by one elected thread after a barrier of all threads that execute the statement; when the tile
        depends on the warpgroup, by one of each warpgroup after a barrier of the warpgroup (language reference 8.4).
        Different tiles do not go to one place (E-2106).
    T5  The source of a store may be overwritten only after the copy engine has read it: the issuing thread waits for
        that, and a barrier lets the others know. Where the same threads are the buffer's only writers, both stand
        before the next write instead of after the store, so that other work covers the time; and the wait once more at
        the end of the role, before its threads are gone. Where the kernel may read what the store has written, or write
        there otherwise, the issuing thread waits for the whole copy at once.
    T6  A cooperative copy or fill is done by all threads that execute the statement with the same tile, between two
        barriers: before it, so that nobody still uses what it overwrites or writes what it reads (only where that may
        have happened before), and after it. A thread's local buffer is filled by the thread alone.
    T7  A `sync` is a barrier of the threads that execute it, at warpgroup and warp level of each unit by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op, Value
from croq.ir.hw import (
    BulkCommit,
    BulkTensorLoad,
    BulkTensorStore,
    BulkWait,
    CopyTile,
    CtaSync,
    Elect,
    FillTile,
    NamedBarrierSync,
    WarpSync,
)
from croq.ir.objects import Buffer, Kernel, Param, View
from croq.ir.rewrite import Builder, by
from croq.ir.scalar import For, StoreElement
from croq.ir.tile import BufferFill, DmaCopy, Sync, TmaIssue, TmaStore
from croq.ir.types import BYTES, ThreadSet
from croq.passes.analysis.barriers import barrier, barrier_each, each_group
from croq.passes.analysis.threads import ThreadAnalysis
from croq.passes.analysis.values import divides, unproved_dimensions
from croq.passes.base import Pass
from croq.passes.moves.boxes import Boxes
from croq.passes.moves.drains import Drains, Touches
from croq.sema.symbolic import Dim
from croq.target.cuda import VECTOR, WARPGROUP

UNROLL = 8  # steps of a copy that a thread has in flight


@dataclass(frozen=True)
class Moves(Pass):
    name: ClassVar[str] = "moves"
    needs = ("events", "swizzles")
    adds = (
        BulkCommit,
        BulkWait,
        BulkTensorLoad,
        BulkTensorStore,
        CopyTile,
        FillTile,
        CtaSync,
        WarpSync,
        Elect,
        NamedBarrierSync,
    )
    leaves_no = (BufferFill, DmaCopy, Sync, TmaIssue, TmaStore)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        _Lower(kernel, sink).run()


class _Lower:
    def __init__(self, kernel: Kernel, sink: Sink) -> None:
        self.kernel = kernel
        self.sink = sink
        self.analysis = ThreadAnalysis(kernel)
        self.touches = Touches(kernel)
        self.boxes = Boxes(kernel, sink)
        self.drains = Drains(kernel, self.touches, _elect, sink)

    def run(self) -> None:
        self._block(self.kernel.body)
        if not self.sink.failed:
            self.drains.insert(self.kernel.body)

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
        build = Builder(span=op.span, threads=op.threads)
        for part in self.boxes.parts(op.source, op.dest, op, build):
            build.add(BulkTensorLoad(part.map, part.coords, part.tile, part.start, op.event, op.slot, op.evict))
        return build.take()

    def _store(self, op: TmaStore) -> list[Op]:
        groups = self._issuers(op, [*op.source.values(), *op.dest.values()])
        if not groups or self._collide(op, groups):
            return []
        build = Builder(span=op.span, threads=op.threads)
        for part in self.boxes.parts(op.dest, op.source, op, build):
            build.add(BulkTensorStore(part.map, part.coords, part.tile, part.start))
        build.add(BulkCommit())
        put_off, used = self.drains.put_off(op, groups), self.touches.used_after(op)
        if not put_off:
            build.add(BulkWait(0, not used, rule="moves.T5"))
        result = [*barrier_each(self.kernel, groups, op.span, self.sink), _elect(groups, build.take(), op)]
        made = by("moves.T4", result)
        if not put_off and (used or self.drains.written_again(op)):
            made += by("moves.T5", barrier_each(self.kernel, groups, op.span, self.sink))
        return made

    def _issuers(self, op: Op, values: list[Value]) -> list[ThreadSet]:
        """T4, T6: the sets of threads that act as one; none after an error."""
        if op.threads is None:
            self.sink.error(
                "E-2101",
                op.span,
                "which threads execute this statement depends on run-time values that differ between threads",
                notes=["its threads wait for one another"],
                hint="move it out of the divergent `if` or loop",
            )
            return []
        groups = self.analysis.groups(values, op.threads)
        if len(groups) > 1 and not all(len(g) == WARPGROUP and g.whole_warpgroups() for g in groups):
            self.sink.error(
                "E-832",
                op.span,
                "the tile of this move differs between threads that are not a warpgroup each",
                notes=["a tile is moved as a whole by one warpgroup, or by all threads of the statement"],
                hint="let the tile depend on block and warpgroup indices only",
            )
            return []
        return groups

    def _collide(self, op: TmaStore | DmaCopy, groups: list[ThreadSet]) -> bool:
        """Whether different tiles certainly go to one place."""
        assert op.threads is not None
        if len(groups) == 1 or len(self.analysis.groups(list(op.dest.values()), op.threads)) > 1:
            return False
        self.sink.error(
            "E-2106",
            op.span,
            f"{len(groups)} warpgroups move different tiles to the same place in `{op.dest.root.name}`",
            notes=["the source depends on the warpgroup, the destination does not"],
            hint="let the destination depend on the warpgroup too: a buffer array with a slot for each, say",
        )
        return True

    # --------------------------------------------------------------------------------------------------- cooperative
    def _copy(self, op: DmaCopy) -> list[Op]:
        groups = self._issuers(op, [*op.source.values(), *op.dest.values()])
        if not groups or not self._contiguous(groups, op) or self._collide(op, groups):
            return []
        vector = _vector(op.source, op.dest)
        before = self.touches.conflict_before(op, op.source, "read") or self.touches.conflict_before(
            op, op.dest, "write"
        )

        def copy(group: ThreadSet) -> list[Op]:
            steps = _elements(op) * BYTES[op.source.root.type] // vector
            made = CopyTile(
                op.source,
                unproved_dimensions(op.source),
                op.dest,
                unproved_dimensions(op.dest),
                vector,
                group.first,
                len(group),
                vector == VECTOR and isinstance(op.source.root, Param) and is_shared(op.dest),
                min(UNROLL, max(1, -(-steps // len(group)))),
                span=op.span,
                threads=group,
            )
            return self._between(before, made, group)

        return each_group(groups, op.span, copy)

    def _between(self, before: bool, op: Op, group: ThreadSet) -> list[Op]:
        """T6."""
        first = barrier(self.kernel, group, op.span, self.sink) if before else []
        return by("moves.T6", [*first, op, *barrier(self.kernel, group, op.span, self.sink)])

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
        buffer = op.dest.root
        assert isinstance(buffer, Buffer)
        if buffer.storage == "local":
            return _fill_own(op)
        groups = self._issuers(op, list(op.dest.values()))
        if not groups or not self._contiguous(groups, op):
            return []
        (group,) = groups
        vector = VECTOR if buffer.tile_bytes % VECTOR == 0 else BYTES[buffer.type]
        fill = FillTile(op.dest, op.value, vector, group.first, len(group), span=op.span, threads=op.threads)
        return self._between(self.touches.conflict_before(op, op.dest, "write"), fill, group)

    def _sync(self, op: Sync) -> list[Op]:
        """T7."""
        if op.threads is None:
            self._issuers(op, [])
            return []
        if op.level == "group" and (op.threads.whole_warps() or len(op.threads.warps()) == 1):
            made: list[Op] = [WarpSync(span=op.span, threads=op.threads)]
        elif op.level == "group-4":
            made = barrier_each(self.kernel, op.threads.warpgroups(), op.span, self.sink)
        else:
            made = barrier(self.kernel, op.threads, op.span, self.sink)
        return by(op.rule or "moves.T7", made)


def _fill_own(op: BufferFill) -> list[Op]:
    """A local buffer: every thread fills its own."""
    build = Builder(span=op.span, threads=op.threads)
    counts = [build.const("s32", extent.known or 0) for extent in op.dest.shape]
    indices = tuple(Value("s32", None, (0, extent.known or 0)) for extent in op.dest.shape)
    block = Block([StoreElement(op.dest, indices, op.value, span=op.span, threads=op.threads)])
    for index, count in reversed(list(zip(indices, counts, strict=True))):
        loop = For(index, count, block, span=op.span, threads=op.threads)
        index.op = loop
        block = Block([loop])
    return [*build.take(), *block.ops]


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


def is_shared(view: View) -> bool:
    return isinstance(view.root, Buffer) and view.root.storage == "shared"


def _elements(op: DmaCopy) -> int:
    shape = op.source.static_shape or op.dest.static_shape
    assert shape is not None
    return prod(shape)


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
