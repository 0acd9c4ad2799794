"""Deterministic inputs: seed 42, Q and K uniform in [-2, 2), V in [-1, 1), rounded to the kernel's element type.

Every (tensor, batch, head) has its own random stream, so a slab is the same whether or not others are made: the
simulator makes only those that it touches, and compares with a GPU run of all.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count

import numpy as np

from croq.bench.workload import Array, AttentionWorkload, Slab

SEED = 42
RANGES = {"q": 2.0, "k": 2.0, "v": 1.0}  # half-width around 0
_STREAMS = {"q": 0, "k": 1, "v": 2}

# A quiet NaN that no arithmetic makes, in bf16, f16 and (twice) f32: bytes nobody wrote stay recognisable.
POISON = np.uint16(0xFFE5)


@dataclass(frozen=True)
class AttentionInputs:
    """Q, K, V and the output O, all `[batch, seq, heads, dim]`. Outside `slabs` all is zero and not to be used."""

    workload: AttentionWorkload
    q: Array
    k: Array
    v: Array
    o: Array
    slabs: tuple[Slab, ...]


def make_inputs(
    workload: AttentionWorkload, slabs: Iterable[Slab] | None = None, *, seed: int = SEED
) -> AttentionInputs:
    """Make the inputs for `slabs` (default: all) and an output filled with `POISON` there.

    The arrays have their full shape; the memory of slabs that are left out is reserved but mostly not touched.
    """
    chosen = tuple(sorted(set(workload.slabs if slabs is None else slabs)))
    q, k, v, o = (np.zeros(workload.shape, workload.numpy_dtype) for _ in range(4))
    inputs = AttentionInputs(workload, q, k, v, o, chosen)

    def fill(slab: Slab) -> None:
        for tensor, array in (("q", q), ("k", k), ("v", v)):
            array[slab[0], :, slab[1], :] = make_slab(workload, tensor, slab, seed=seed)

    # The generator and the conversions release the interpreter lock, and no two slabs share an element.
    with ThreadPoolExecutor(min(8, cpu_count() or 1)) as pool:
        list(pool.map(fill, chosen))
    poison(o, chosen)
    return inputs


def make_slab(workload: AttentionWorkload, tensor: str, slab: Slab, *, seed: int = SEED) -> Array:
    """The `[seq, dim]` values of `tensor` ("q", "k" or "v") for one (batch, head)."""
    sequence = np.random.SeedSequence(seed, spawn_key=(_STREAMS[tensor], *slab))
    half = np.float32(RANGES[tensor])
    values = np.random.Generator(np.random.SFC64(sequence)).random((workload.seq, workload.dim), dtype=np.float32)
    values *= 2 * half
    values -= half
    return values.astype(workload.numpy_dtype, copy=False)


def poison(array: Array, slabs: Iterable[Slab]) -> None:
    """Fill the slabs of a `[batch, seq, heads, dim]` array with the poison pattern."""
    words = array.view(np.uint16)
    for batch, head in slabs:
        words[batch, :, head, :] = POISON


def poisoned(array: Array) -> Array:
    """Which elements of a `[..., dim]` array still hold the poison pattern, as booleans of the array's shape."""
    words = np.ascontiguousarray(array).view(np.uint16) == POISON
    parts = array.dtype.itemsize // 2
    whole: Array = words.reshape(*array.shape, parts).all(axis=-1)
    return whole


def written_rows(o: Array, slab: Slab) -> list[int]:
    """Rows of one (batch, head) with at least one written element: what a partial execution must answer for."""
    touched = ~poisoned(o[slab[0], :, slab[1], :])
    return [int(row) for row in np.flatnonzero(touched.any(axis=-1))]
