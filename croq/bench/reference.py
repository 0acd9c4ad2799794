"""Attention in float64 with NumPy: the numbers that every kernel is compared with.

Computes chosen query rows of chosen (batch, head) slabs only, and converts one slab at a time, so that the largest
published size (B=4, H=32, S=16384, D=128) needs tens of megabytes beside its inputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from croq.bench.workload import Array, Slab

_MAX_SCORES = 4 << 20  # elements of a block of scores: 32 MiB in float64


@dataclass(frozen=True)
class ReferenceRows:
    """`values[i]` is the output row `rows[i]` of one (batch, head); `[len(rows), dim]`, float64."""

    slab: Slab
    rows: tuple[int, ...]
    values: NDArray[np.float64]


def attention_reference(
    q: Array, k: Array, v: Array, where: Mapping[Slab, Sequence[int]], *, causal: bool, scale: float | None = None
) -> Iterator[ReferenceRows]:
    """The reference for the rows `where[(batch, head)]` of BSHD arrays, one slab at a time.

    The key length may differ from the query length; the causal mask hides `key > query` (aligned at the upper left).
    """
    for (batch, head), rows in where.items():
        yield ReferenceRows(
            (batch, head),
            tuple(rows),
            attention_rows(
                q[batch, :, head, :], k[batch, :, head, :], v[batch, :, head, :], rows, causal=causal, scale=scale
            ),
        )


def attention_rows(
    q: Array, k: Array, v: Array, rows: Sequence[int], *, causal: bool, scale: float | None = None
) -> NDArray[np.float64]:
    """Rows `rows` of `softmax(scale * q k^T) v` for one head: `q` [S, D], `k` and `v` [T, D] -> float64 [len(rows), D].

    `scale` defaults to `1 / sqrt(D)`.
    """
    index = np.asarray(rows, dtype=np.int64)
    out = np.empty((len(index), v.shape[-1]))
    if not len(index):
        return out
    keys = min(k.shape[0], int(index.max()) + 1) if causal else k.shape[0]
    factor = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    queries = widen(q[index]) * factor
    k_wide, v_wide = widen(k[:keys]), widen(v[:keys])
    step = max(1, _MAX_SCORES // keys)
    for start in range(0, len(index), step):
        part = slice(start, start + step)
        scores = queries[part] @ k_wide.T
        if causal:
            scores[np.arange(keys) > index[part, None]] = -np.inf
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        out[part] = (scores @ v_wide) / scores.sum(axis=-1, keepdims=True)
    return out


def widen(array: Array) -> NDArray[np.float64]:
    """Exact float64 copy. bf16 goes by its bits: they are the upper half of a float32."""
    if array.dtype == ml_dtypes.bfloat16:
        bits = np.ascontiguousarray(array).view(np.uint16).astype(np.uint32)
        bits <<= 16
        with np.errstate(invalid="ignore"):  # a signalling NaN is still only a NaN
            return bits.view(np.float32).astype(np.float64)
    return array.astype(np.float64)
