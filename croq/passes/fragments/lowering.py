"""Register operations for tile operations on fragments: rules F8 to F14 of pass `fragments`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from croq.diagnostics import Sink
from croq.ir.core import Op, Value
from croq.ir.hw import RegCopy, RegFill, RegReduceRow, RegShuffleReduce, RegStore
from croq.ir.objects import Buffer, Kernel, View
from croq.ir.rewrite import Builder, remove_dead, rewrite_blocks
from croq.ir.tile import FragAllReduce, FragCopy, FragFill, FragMap, FragReduce, FragStore
from croq.passes.analysis.values import divides, unproved_dimensions
from croq.passes.fragments.checks import report
from croq.passes.fragments.loads import matrix_loads, matrix_obstacle
from croq.passes.fragments.maps import lower_map
from croq.target.fragments import QUAD, AccumulatorLayout

PAIRED = frozenset({"f32", "bf16", "f16"})  # what two columns of are one access of 8 or 4 bytes


def lower(kernel: Kernel, sink: Sink) -> None:
    """Replace every `frag.*` operation, once all fragments have layouts."""
    loads = matrix_loads(kernel)

    def replace(op: Op) -> Sequence[Op] | None:
        if isinstance(op, FragFill):
            return _fill(op)
        if isinstance(op, FragCopy):
            return [RegCopy(op.dest, op.source, span=op.span, threads=op.threads)]
        if isinstance(op, FragMap):
            return loads.get(op) or lower_map(op, kernel, sink)
        if isinstance(op, FragReduce):
            return _reduce(op, sink)
        if isinstance(op, FragAllReduce):
            return [RegShuffleReduce(op.kind, op.frag, QUAD, span=op.span, threads=op.threads)]
        if isinstance(op, FragStore):
            return [_store(op)]
        return None

    rewrite_blocks(kernel.body, replace)
    remove_dead(kernel.body)


def _fill(op: FragFill) -> list[Op]:
    builder = Builder(op.span, op.threads)
    value = builder.cast(op.value, op.frag.frag.type or op.value.type)
    return [*builder.take(), RegFill(op.frag, value, span=op.span, threads=op.threads)]


def _reduce(op: FragReduce, sink: Sink) -> list[Op]:
    if not isinstance(op.source.frag.layout, AccumulatorLayout):
        report(
            sink,
            "E-1156",
            op.span,
            f"`{op.source.frag.name}` cannot be reduced: its rows are spread over many threads",
            labels=[(op.source.frag.span, op.source.frag.why or "declared here")],
        )
        return [op]
    return [
        RegReduceRow(op.kind, op.dest, op.source, span=op.span, threads=op.threads),
        RegShuffleReduce(op.kind, op.dest, QUAD, span=op.span, threads=op.threads),
    ]


def _store(op: FragStore) -> RegStore:
    """Rule F12."""
    checked = () if _inside(op.dest) else unproved_dimensions(op.dest)
    method: Literal["store", "stmatrix"] = "store" if matrix_obstacle(op.frag.frag, op.dest) else "stmatrix"
    return RegStore(op.frag, op.dest, method, checked, _in_pairs(op, method), span=op.span, threads=op.threads)


def _in_pairs(op: FragStore, method: str) -> bool:
    """Rule F13."""
    root, last = op.dest.root, len(op.dest.root.shape or ()) - 1
    if method == "stmatrix" or not isinstance(op.frag.frag.layout, AccumulatorLayout) or root.type not in PAIRED:
        return False
    columns = (root.shape or (1,))[-1]
    known = columns if isinstance(columns, int) else columns.known
    return op.dest.kept[-1] == last and known is not None and known % 2 == 0 and divides(2, op.dest.offsets[-1])


def _inside(view: View) -> bool:
    """Whether the view provably lies inside its root along every dimension that it keeps."""
    if isinstance(view.root, Buffer):
        return True  # a tile that leaves its buffer is a fault, not clipped
    for d in view.kept:
        dim, extent, offset = (view.root.shape or ())[d], view.extents[d], view.offsets[d]
        extent_known = extent.known
        # The root's extents are Dims for parameters.
        if not isinstance(dim, int) and offset == 0 and extent.equals(dim):
            continue
        limit = dim if isinstance(dim, int) else dim.known
        last = _highest(offset)
        if limit is None or extent_known is None or last is None or last + extent_known > limit:
            return False
    return True


def _highest(offset: Value | int) -> int | None:
    if isinstance(offset, int):
        return offset
    return offset.bounds[1] - 1 if offset.bounds is not None else None
