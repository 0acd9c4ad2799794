"""What the instructions of a `wgmma.issue` read of shared memory: from the bits of their descriptors, nothing else."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from croq.ir.hw import WgmmaIssue
from croq.ir.objects import Matrix, View
from croq.ir.types import BYTES
from croq.target.sm90.descriptors import Descriptor, Major, chunks_read
from croq.target.sm90.wgmma import M

Side = Literal["a", "b"]


def words(matrix: Matrix) -> Descriptor:
    """The fields that all descriptors of the operand share."""
    return Descriptor(matrix.lbo, matrix.sbo, matrix.layout, matrix.base)


def operand_chunks(op: WgmmaIssue, side: Side, start: int, first: int) -> NDArray[np.int64]:
    """Addresses of the 16-byte chunks of an operand whose first row block starts at byte `start`, at `first` 0.

    K-major: [M or N, K / T]. MN-major: [K, (M or N) / T]; T elements are 16 bytes. Raises ValueError for descriptors
    that croq never makes.
    """
    view, matrix = (op.a, op.a_matrix) if side == "a" else (op.b, op.b_matrix)
    assert isinstance(view, View) and matrix is not None
    transposed = op.a_transposed if side == "a" else op.b_transposed
    major: Major = "mn" if transposed else "k"
    rows, blocks = (M, op.m // M) if side == "a" else (op.n, 1)
    size, fields = BYTES[view.root.type], words(matrix)

    def one(block: int, k: int) -> NDArray[np.int64]:
        return chunks_read(fields.encode(start + matrix.advance(block, k, first)), major, rows, size)

    parts = [[one(block, k) for k in range(op.k // op.k_step)] for block in range(blocks)]
    along_k, along_mn = (0, 1) if transposed else (1, 0)
    return np.concatenate([np.concatenate(steps, axis=along_k) for steps in parts], axis=along_mn)
