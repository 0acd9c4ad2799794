"""Whole 16-bit tiles between registers and shared memory by matrix instructions: rules F12 and F14 of `fragments`."""

from __future__ import annotations

from croq.ir.core import Op
from croq.ir.hw import RegLoad, WarpSync
from croq.ir.objects import Buffer, Fragment, FragRef, Kernel, View
from croq.ir.rewrite import by
from croq.ir.scalar import FragWrite, LoadElement
from croq.ir.tile import FragMap
from croq.ir.types import BYTES
from croq.passes.analysis.threads import ThreadAnalysis
from croq.passes.analysis.values import rows_adjacent
from croq.target.fragments import AccumulatorLayout

COLUMNS = 16  # of one x4 instruction: four 8x8 matrices, two beside each other
ROW_PIECE = 8  # 16-bit elements that a lane's address must have in one piece of 16 bytes


def matrix_obstacle(frag: Fragment, tile: View) -> str | None:
    """Why ldmatrix or stmatrix cannot move the fragment from or to the tile."""
    root, layout = tile.root, frag.layout
    if not isinstance(root, Buffer) or root.storage != "shared":
        return "the tile is not in shared memory"
    if BYTES[root.type] != 2:
        return f"the tile's type {root.type} does not have 16 bits"
    if not isinstance(layout, AccumulatorLayout) or tile.static_shape != (layout.m, layout.n):
        return "the tile is not a whole accumulator"
    if layout.n % COLUMNS:
        return f"{layout.n} columns are not a multiple of {COLUMNS}"
    if not rows_adjacent(tile):
        return "its rows do not follow one another in the buffer"
    column = tile.offsets[-1]
    aligned = isinstance(column, int) and column % ROW_PIECE == 0
    if not aligned or root.cols % ROW_PIECE or tile.kept[-1] != len(root.shape) - 1:
        return "rows are not certain to start on 16 bytes"
    return None


def matrix_loads(kernel: Kernel) -> dict[FragMap, list[Op]]:
    """F14: what stands in place of each map that is a load."""
    found = {op: load for op in kernel.walk() if isinstance(op, FragMap) and (load := _load(op)) is not None}
    if not found:
        return {}
    threads = ThreadAnalysis(kernel)
    written = {e.root for e in kernel.effects() if e.kind == "write" and e.op.ENGINE != "tma"}
    return {
        op: [*op.body.ops[:-2], *(_met(load) if load.source.root in written else [load])]
        for op, load in found.items()
        if _together(op, load.source, threads)
    }


def _met(load: RegLoad) -> list[Op]:
    """No lane's writes are under way while others read them, nor the other way about."""
    front, behind = (WarpSync(span=load.span, threads=load.threads) for _ in range(2))
    return by("fragments.F14", [front, load, behind])


def _load(op: FragMap) -> RegLoad | None:
    if len(op.body.ops) < 2:
        return None
    *others, load, write = op.body.ops
    if not isinstance(load, LoadElement) or not isinstance(write, FragWrite) or write.value is not load.result:
        return None
    elsewhere = load.indices != op.iterators or write.indices != op.iterators or not _same(write.frag, op.domain)
    iterators = set(op.iterators)
    varied = any(not other.EXPRESSION or iterators & set(other.operands()) for other in others)
    if elsewhere or varied or iterators & set(load.view.values()):
        return None
    if op.domain.frag.type != load.view.root.type or matrix_obstacle(op.domain.frag, load.view):
        return None
    return RegLoad(op.domain, load.view, span=op.span, threads=op.threads)


def _same(a: FragRef, b: FragRef) -> bool:
    return a.frag is b.frag and a.slot == b.slot


def _together(op: FragMap, tile: View, threads: ThreadAnalysis) -> bool:
    """Whether whole warps come, and the lanes of each mean one tile."""
    if op.threads is None:
        return False
    return all(part.whole_warps() for part in threads.groups(tile.values(), op.threads))
