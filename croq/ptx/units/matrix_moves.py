"""Moves of 8x8 matrices of 16-bit elements between shared memory and a warp's registers.

PTX ISA, "ldmatrix", "stmatrix", "movmatrix". Matrix i of an instruction has its rows at the addresses that lanes 8 * i
to 8 * i + 7 give, 16 bytes each; lane l holds the elements 2 * (l % 4) and + 1 of row l / 4 in register i, the lower
column in the low half; with `.trans` rows and columns of the matrix change places. The 8-bit and 6-bit shapes (m16n16,
m8n16, m16n8) need sm_100 and are not here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from croq.ptx.units.fault import require
from croq.ptx.units.mma_arithmetic import Bytes, Words
from croq.ptx.units.swizzle import Addresses

ROW_BYTES = 16
COUNTS = (1, 2, 4)


def row_addresses(addresses: Addresses, count: int) -> Addresses:
    """[count, 8] row addresses from the operands of the 32 lanes; the other lanes' operands are not used.

    Faults: `matrix-count`, `matrix-alignment`.
    """
    require(count in COUNTS, "matrix-count", f"no instruction moves {count} matrices")
    rows = addresses[: 8 * count]
    crooked = rows[rows % ROW_BYTES != 0]
    require(
        not len(crooked),
        "matrix-alignment",
        f"a matrix row at {int(crooked[0]) if len(crooked) else 0:#x}, which is not {ROW_BYTES}-byte aligned",
    )
    return rows.reshape(count, 8)


def to_registers(rows: Bytes, trans: bool) -> Words:
    """ldmatrix: [count, 8 rows, 16 bytes] to [32 lanes, count registers]."""
    matrices = np.ascontiguousarray(rows).view(np.uint16)  # [count, 8, 8]
    if trans:
        matrices = matrices.transpose(0, 2, 1)
    pairs = np.ascontiguousarray(matrices).view(np.uint32)  # [count, 8, 4]
    return np.ascontiguousarray(pairs.reshape(len(rows), 32).T)


def from_registers(registers: Words, trans: bool) -> Bytes:
    """stmatrix: [32 lanes, count registers] to [count, 8 rows, 16 bytes]."""
    count = registers.shape[1]
    matrices = np.ascontiguousarray(registers.T).reshape(count, 8, 4).view(np.uint16)
    if trans:
        matrices = matrices.transpose(0, 2, 1)
    return np.ascontiguousarray(matrices).view(np.uint8)


def transposed(registers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """movmatrix.trans of one register of each of the 32 lanes."""
    return to_registers(from_registers(registers[:, None], trans=False), trans=True)[:, 0]
