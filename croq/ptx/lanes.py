"""Sets of threads of a CTA: what one step of a program acts on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from croq.target.cuda import WARP, WARPGROUP

Ints = np.ndarray[Any, np.dtype[np.intp]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Lanes:
    """Threads by linear index, ascending, at least one. `sel` indexes arrays of one element a thread: a slice where it
    can be, which is cheaper."""

    def __init__(self, index: Ints, threads: int) -> None:
        self.index = index
        self.threads = threads  # of the CTA
        self.count = len(index)
        first, last = int(index[0]), int(index[-1])
        self.first = first
        self.sel: slice | Ints = slice(first, last + 1) if last - first + 1 == self.count else index

    def where(self, mask: Mask) -> Lanes:
        """Those for which `mask`, one element each of these, holds; at least one must."""
        return Lanes(self.index[mask], self.threads)

    def union(self, other: Lanes) -> Lanes:
        return Lanes(np.sort(np.concatenate([self.index, other.index])), self.threads)

    @cached_property
    def present(self) -> Mask:
        """For every thread of the CTA whether it is one of these."""
        found = np.zeros(self.threads, dtype=bool)
        found[self.index] = True
        return found

    @cached_property
    def whole_warps(self) -> bool:
        return bool(self.complete(WARP).all()) if self.count % WARP else self._aligned(WARP)

    @cached_property
    def whole_warpgroups(self) -> bool:
        return self.count % WARPGROUP == 0 and self._aligned(WARPGROUP)

    def _aligned(self, unit: int) -> bool:
        starts, ends = self.index[::unit], self.index[unit - 1 :: unit]
        return bool((starts % unit == 0).all() and (ends - starts == unit - 1).all())

    def complete(self, unit: int) -> Mask:
        """For each of these, whether all threads of its unit (those that the CTA has) are here."""
        units = self.index // unit
        here = np.bincount(units, minlength=-(-self.threads // unit))
        sizes = np.full(len(here), unit)
        if self.threads % unit:
            sizes[self.threads // unit] = self.threads % unit
        full: Mask = (here == sizes)[units]
        return full

    @cached_property
    def warps(self) -> Ints:
        """The warps that these are of, ascending."""
        return np.unique(self.index // WARP)

    def by_warp(self) -> Iterator[tuple[int, Ints]]:
        """Each warp with the positions of its lanes among these."""
        numbers = self.index // WARP
        for warp in self.warps:
            yield int(warp), np.flatnonzero(numbers == warp)

    def __str__(self) -> str:
        return describe(self.index)


def describe(index: Ints) -> str:
    """`thread 7`, `threads 0..127`, `threads 0..31, 64, 70..95`."""
    cuts = np.flatnonzero(np.diff(index) != 1) + 1
    runs = [(int(run[0]), int(run[-1])) for run in np.split(index, cuts)]
    shown = ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in runs[:4])
    more = f" and {len(runs) - 4} more runs" if len(runs) > 4 else ""
    return f"{'thread' if len(index) == 1 else 'threads'} {shown}{more}"
