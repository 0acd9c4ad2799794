"""Register layouts of fragments: which thread holds which logical element, in which register.

Source: PTX ISA, "Register Fragments and Shared Memory Matrix Layouts" of wgmma (accumulator D and register operand A
have the same map from elements to threads), confirmed by results on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croq.target.cuda import WARPGROUP

ROWS = 64  # of a block: what one instruction computes
QUAD = 4  # lanes that share the rows of an accumulator


@dataclass(frozen=True)
class AccumulatorLayout:
    """[m, n] over a warpgroup, m a multiple of 64, n of 8.

    Register `b*(n/2) + 4*(j/8) + 2*h + e` of thread t (warp w, lane l) holds row `64b + 16w + l/4 + 8h`, column
    `8*(j/8) + 2*(l%4) + e`. For 16-bit types pairs (e = 0, 1) share a 32-bit register: that is also the layout of a
    register A operand.
    """

    m: int
    n: int
    kind: str = "accumulator"
    threads: int = WARPGROUP

    @property
    def registers(self) -> int:
        return self.m // ROWS * (self.n // 2)

    @property
    def row_registers(self) -> int:
        """Rows a thread holds parts of."""
        return self.m // ROWS * 2

    def coordinates(self, thread: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        t = np.asarray(thread, dtype=np.int64)[:, None]
        r = np.arange(self.registers, dtype=np.int64)[None, :]
        block, inner = r // (self.n // 2), r % (self.n // 2)
        row = 64 * block + 16 * (t // 32) + t % 32 // 4 + 8 * (inner >> 1 & 1)
        col = 8 * (inner // 4) + 2 * (t % 4) + (inner & 1)
        return row, col


@dataclass(frozen=True)
class RowLayout:
    """[m]: a value a row of an `AccumulatorLayout`, in every lane of the quad that holds the row; 2 a 64-row block."""

    m: int
    kind: str = "row"
    threads: int = WARPGROUP

    @property
    def registers(self) -> int:
        return self.m // ROWS * 2

    def coordinates(self, thread: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        t = np.asarray(thread, dtype=np.int64)[:, None]
        r = np.arange(self.registers, dtype=np.int64)[None, :]
        return (64 * (r // 2) + 16 * (t // 32) + t % 32 // 4 + 8 * (r & 1),)


@dataclass(frozen=True)
class UniformLayout:
    """Any shape over `threads` threads: flat element f is in thread `f % threads`, register `f / threads`.

    Where the size is no multiple of `threads`, the last register of some threads holds nothing: its flat index is
    beyond the end, and so is its first coordinate.
    """

    shape: tuple[int, ...]
    threads: int
    kind: str = "uniform"

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def registers(self) -> int:
        return -(-self.size // self.threads)

    @property
    def ragged(self) -> bool:
        return self.size % self.threads != 0

    def coordinates(self, thread: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        t = np.asarray(thread, dtype=np.int64)[:, None]
        flat = t + self.threads * np.arange(self.registers, dtype=np.int64)[None, :]
        coords = []
        for extent in reversed(self.shape[1:]):
            coords.append(flat % extent)
            flat = flat // extent
        return (flat, *reversed(coords))


# by kind
LAYOUTS: dict[str, type[Any]] = {"accumulator": AccumulatorLayout, "row": RowLayout, "uniform": UniformLayout}
