"""Arrays that share memory: one array given for two parameters, or views that overlap.

Memory is what counts, not the name of a parameter. Arrays that share bytes are one group, whose bytes are numbered from
the group's first one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from croq.simulate.dtypes import Array
from croq.target.cuda import VECTOR

ALIGNMENT = VECTOR  # bytes: groups start at a multiple, so that offsets keep the alignment that addresses have
WORK = 100_000  # steps that NumPy may take over one pair of arrays
_Key = TypeVar("_Key")


def extent(array: Array) -> tuple[int, int]:
    """The half-open range of addresses that the array's elements lie in."""
    start = int(array.__array_interface__["data"][0])
    steps = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    return start + sum(s for s in steps if s < 0), start + sum(s for s in steps if s > 0) + array.itemsize


def shares(first: Array, second: Array) -> bool:
    """Whether two arrays have a byte in common; True where that takes too long to find out."""
    try:
        return bool(np.shares_memory(first, second, WORK))  # type: ignore[arg-type]  # the stub knows the special values only
    except np.exceptions.TooHardError:
        return True


def groups(arrays: Mapping[_Key, Array]) -> Iterator[list[_Key]]:
    """The keys of arrays whose ranges of addresses overlap, in groups; by address."""
    order = sorted(((*extent(array), key) for key, array in arrays.items() if array.size), key=lambda item: item[:2])
    group: list[_Key] = []
    end = 0
    for low, high, key in order:
        if group and low >= end:
            yield group
            group = []
        group.append(key)
        end = max(end, high) if len(group) > 1 else high
    if group:
        yield group


def places(arrays: Mapping[_Key, Array]) -> dict[_Key, tuple[tuple[_Key, ...], int]]:
    """For each array its group and the byte of the group where it starts."""
    found: dict[_Key, tuple[tuple[_Key, ...], int]] = {}
    for group in groups(arrays):
        base = extent(arrays[group[0]])[0] // ALIGNMENT * ALIGNMENT
        together = len(group) > 1  # alone, an array keeps its own numbering, whatever its address
        for key in group:
            found[key] = tuple(group), extent(arrays[key])[0] - base if together else 0
    return found


def copies(arrays: Mapping[str, Array], written: Iterable[str]) -> dict[str, Array]:
    """The arrays, those named in `written` and what shares memory with them copied; copies share what they shared."""
    names = set(written)
    result = dict(arrays)
    for group in groups(arrays):
        if not names & set(group):
            continue
        low = min(extent(arrays[name])[0] for name in group)
        high = max(extent(arrays[name])[1] for name in group)
        memory = np.zeros(high - low, dtype=np.uint8)
        for name in group:
            old = arrays[name]
            start = int(old.__array_interface__["data"][0]) - low
            result[name] = np.ndarray(old.shape, old.dtype, memory.data, start, old.strides)
            result[name][...] = old
    return result
