"""Operands of WGMMA in shared memory, read as the chip does: at the addresses that the descriptors' bits give.

What they give is held against the view that the operation names, because that is what everything else believes it
reads: another element is a fault (E-5024), not a wrong number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croq.ir.hw import WgmmaIssue
from croq.ir.objects import View
from croq.ir.operands import Side, operand_chunks
from croq.simulate.compiler import Compiler
from croq.simulate.dtypes import to_f32
from croq.simulate.faults import fault
from croq.simulate.machine import Warp
from croq.simulate.views import Box, start_of
from croq.simulate.watch import Place, whole

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Located:
    """The 16-byte chunks of an operand, by number in the CTA's shared memory: as rows and columns of its buffer."""

    chunks: NDArray[np.intp]
    place: Place


class SharedOperand:
    """One operand of one `wgmma.issue`."""

    def __init__(self, c: Compiler, op: WgmmaIssue, side: Side) -> None:
        view, matrix = (op.a, op.a_matrix) if side == "a" else (op.b, op.b_matrix)
        if not isinstance(view, View) or matrix is None:
            raise fault("E-5030", op, f"operand `{side}` has no descriptors")
        self.op, self.side = op, side
        self.box = Box(c, view, op)
        self.name, self.type = view.root.name, view.root.type
        self.transposed = op.a_transposed if side == "a" else op.b_transposed
        self.start, self.first = start_of(c, view, matrix.start, op), c.getter(matrix.first)
        self._located: dict[Any, Located] = {}

    def locate(self, warp: Warp) -> Located:
        """Where the operand lies now. Values must be the same in all lanes."""
        what = f"the place of a tile of `{self.name}`"
        at = self.box.place(warp, self.op)
        start = at[0] + self.start(warp)
        key = (at, start, warp.uniform(self.first(warp), self.op, what))
        found = self._located.get(key)
        if found is None:
            found = self._located[key] = self._find(at, start, key[2])
        return found

    def _find(self, at: tuple[int, int, int], start: int, first: int) -> Located:
        try:
            addresses = operand_chunks(self.op, self.side, start, first)
        except ValueError as error:
            raise fault("E-5024", self.op, f"the descriptors of `{self.name}` have {error}") from None
        wanted = self.box.chunks(*at)
        if wanted is None or not np.array_equal(addresses, wanted * 16):
            raise fault(
                "E-5024",
                self.op,
                f"the matrix descriptors of `{self.name}` do not address the tile that the MMA names",
                notes=[_difference(addresses, wanted), 'PTX ISA, wgmma, "Shared Memory Matrix Layout"'],
            )
        chunks = (addresses // 16).astype(np.intp)
        return Located(chunks, Place(self.box.tile.buffer, lambda: whole(chunks, 16)))

    def values(self, warp: Warp, chunks: NDArray[np.intp]) -> F32:
        """The elements of some of the chunks, [M or N, K]."""
        raw = warp.cta.shared.chunks.take(chunks).view(self.box.tile.dtype)
        found = to_f32(raw.reshape(len(chunks), -1), self.type)
        return found.T if self.transposed else found


def _difference(addresses: NDArray[np.int64], wanted: NDArray[np.intp] | None) -> str:
    if wanted is None or addresses.shape != wanted.shape:
        return "its layout in shared memory is none that a descriptor describes"
    row, chunk = np.argwhere(addresses != wanted * 16)[0]
    found, right = addresses[row, chunk], wanted[row, chunk] * 16
    return f"16 bytes {chunk} of row {row} of the tile lie at byte {right}; the descriptors say {found}"
