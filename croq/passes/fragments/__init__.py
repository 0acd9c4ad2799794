"""Pass `fragments`: where each element of register data lives, and register operations in place of tile operations.

Rules (sources: LR = language reference, by section; PTX = PTX ISA, "Register Fragments" of wgmma.mma_async)

    F1  accumulator   An MMA gives its accumulator the shape [M, N] of its operands, the type f32 where it has none, and
                     the accumulator layout: row 64b + 16w + l/4 + 8h, column 8c + 2(l%4) + e.           LR 11.2, PTX
                         mma row, row, @acc, @q[0:64, 0:128], @k[0:32, 0:128]      acc: accumulator(m=64, n=32)
    F2  operand       A register A operand [M, K] of an MMA has the same layout, in 16-bit pairs.         LR 11.3, PTX
                         mma row, col, @acc, @p, @v[0:32, 0:128]                   p: accumulator(m=64, n=32), packed
    F3  pairs         Every 16-bit fragment with the accumulator layout is packed: a copy to or from an operand stays a
                     register copy.                                                                           PTX
    F4  copy          `frag.copy` makes both sides one layout, of one shape and type.                         LR 11.3
                         frag.copy @prev, @max                                     prev: the layout of max
    F5  map           A fragment accessed at all iterators of a map has the layout of its domain.             LR 11.3
                         frag.map @acc, (%i, %j) { frag_read @x, (%i, %j) }        x: the layout of acc
    F6  rows          A 1-D fragment accessed at the row iterator of a 2-D map, or reduced from a 2-D fragment, has one
                     value a row, in all four lanes that hold the row.                                       LR 11.3
                         frag.reduce max, @r, @acc                                 r: row(m=64)
    F7  uniform       Fragments that no chain of F4 to F6 links to an MMA are spread evenly over the threads of their
                     unit; yet if such a chain needs rows (F6) and the unit is one warpgroup, they take the accumulator
                     layout, since rows of an evenly spread fragment are in no thread's reach.               LR 11.3
    F8  split         A 2-D map runs, for each row, the statements that depend on the row only, then the others for each
                     element; source order inside each class. A condition that depends on the row only is split with
                     its statements; values are computed again where they are used, or kept in a row register
                     where a write in between would change them.                                            LR 11.3
    F9  partial sum   A write to 1-D data with a value that depends on the column is an element's statement: it folds in
                     the columns that the thread owns.                                                      LR 11.3
    F10  one writer   A store to memory that runs once a row is done by the first of the four lanes that hold the row:
                     all would write the same element.                                               LR 11.3 (once)
    F11  reduction    `frag.reduce` is a fold over the thread's registers of a row, then over the 4 lanes of the row;
                     `frag.all_reduce` is the second half alone.                                             LR 11.3
                         reg.reduce_row max, @r, @acc ; reg.shuffle_reduce max, @r, lanes=4
    F12  store        16-bit accumulators leave for a shared tile of their own shape by `stmatrix` where every 16-byte
                     row piece is in one piece and rows follow one another; all else is element stores, checked along
                     the dimensions in which the view may leave the parameter.                      LR 11.2 (mma.store)
    F13  pairs        Element stores of an accumulator write a thread's two neighbouring columns at once where the view
                     begins at an even column of rows with an even, constant number of elements. Then both are inside,
                     or neither is.
    F14  load         A map that does nothing but copy a shared tile of the fragment's own shape and 16-bit type,
                     element (i, j) to (i, j), is one load by `ldmatrix`, on the terms that F12 has for `stmatrix`.
                     Whole warps run it, each of which means one tile, since lanes address what others receive. What the
                     map computes besides does not depend on the element and goes in front. Where ordinary code writes
                     the buffer, the warp meets before and after, for the same reason.             PTX, "ldmatrix"
                         frag.map @q, (%i, %j) {
                           %v = load_element @s[0:64, 0:128], (%i, %j)
                           frag_write @q, (%i, %j), %v }                 reg.load @q, @s[0:64, 0:128]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.facts import LAYOUTS
from croq.ir.hw import RegCopy, RegFill, RegLoad, RegMap, RegReduceRow, RegShuffleReduce, RegStore, WarpSync
from croq.ir.objects import Kernel
from croq.ir.tile import FragAllReduce, FragCopy, FragFill, FragMap, FragReduce, FragStore
from croq.passes.base import Pass
from croq.passes.fragments.layouts import infer
from croq.passes.fragments.lowering import lower


@dataclass(frozen=True)
class Fragments(Pass):
    name: ClassVar[str] = "fragments"
    needs = ("participants",)
    adds = (
        RegCopy,
        RegFill,
        RegLoad,
        RegMap,
        RegReduceRow,
        RegShuffleReduce,
        RegStore,
        WarpSync,
        LAYOUTS,
    )
    leaves_no = (FragAllReduce, FragCopy, FragFill, FragMap, FragReduce, FragStore)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        if infer(kernel, sink):
            lower(kernel, sink)
