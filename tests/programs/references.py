"""What the programs of this folder must compute, in float64 (integers: Python's and NumPy's, reduced to 32 bits)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Outputs = dict[str, Array]
LOG2E = 1.4426950408889634
UNTOUCHED = 0x5A5A5A5A  # what integer outputs hold before a run; those of floating point hold NaN


def gemm(a: Array, b: Array) -> Outputs:
    return {"c": a @ b.T}


def gemm_trips(a: Array, b: Array, steps: int) -> Outputs:
    return {"c": a[:, : 64 * steps] @ b[:, : 64 * steps].T}


def gemm_scaled(a: Array, b: Array, scale: Array) -> Outputs:
    parts = [s * (a[:, 64 * k : 64 * k + 64] @ b[:, 64 * k : 64 * k + 64].T) for k, s in enumerate(scale)]
    return {"c": np.sum(parts, axis=0)}


def mlp(x: Array, w1: Array, bias: Array, w2: Array) -> Outputs:
    return {"y": np.maximum(x @ w1.T + bias, 0) @ w2}


def attention(
    q: Array, k: Array, v: Array, scale: float, *, causal: bool = False, window: int | None = None, bias: Any = 0.0
) -> Outputs:
    """q: [B, S, H, D]; k, v: [B, T, G, D], H a multiple of G. `scale` is for exponentials of base 2; `bias` is not."""
    group = q.shape[2] // k.shape[2]
    keys, values = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
    scores = np.einsum("bihd,bjhd->bhij", q, keys) * scale + np.asarray(bias) * LOG2E
    row, col = np.ogrid[: scores.shape[2], : scores.shape[3]]
    if causal:
        scores = np.where(col > row, -np.inf, scores)
    if window is not None:
        scores = np.where(row - col >= window, -np.inf, scores)
    p = np.exp2(scores - scores.max(-1, keepdims=True))
    return {"o": np.einsum("bhij,bjhd->bihd", p / p.sum(-1, keepdims=True), values)}


def attention_of_tasks(q: Array, k: Array, v: Array, tasks: Array, first: Array, scale: float) -> Outputs:
    """Query tiles without a task stay as they were."""
    full = attention(q, k, v, scale, causal=True)["o"]
    out = np.full_like(full, np.nan)
    for task in tasks[first[0] : first[-1]]:
        bm, head, batch = int(task) & 255, int(task) >> 8 & 255, int(task) >> 16
        out[batch, bm * 64 : bm * 64 + 64, head] = full[batch, bm * 64 : bm * 64 + 64, head]
    return {"o": out}


def softmax_rows(x: Array) -> Outputs:
    p = np.exp(x - x.max(1, keepdims=True))
    return {"y": p / p.sum(1, keepdims=True), "maxima": x.max(1)}


def layer_norm(x: Array, gain: Array, shift: Array, epsilon: float) -> Outputs:
    centred = x - x.mean(1, keepdims=True)
    return {"y": centred / np.sqrt((centred**2).mean(1, keepdims=True) + epsilon) * gain + shift}


def uniform_fragments(x: Array) -> Outputs:
    return {"y": 2 * x + np.where(np.arange(300) % 3 == 0, 100.0, 0.0), "z": x[:, :280:7]}


def dma_async(x: Array, y: Array) -> Outputs:
    rows = -(-len(x) // 32) * 32
    padded = np.zeros((rows, 64))
    padded[: len(x)] = y
    mirrored = padded.reshape(-1, 32, 64)[:, ::-1].reshape(rows, 64)[: len(x)]
    return {"z": x - 2 * mirrored}


def writers(x: Array, count: int) -> Outputs:
    return {"y": x + (10 * x[:, ::-1] if count > 1 else 0) + (100 * x if count > 2 else 0)}


def branches(a: Array, b: Array, mode: Array) -> Outputs:
    out = np.full((len(mode), 64, 64), np.nan)
    for r, kind in enumerate(mode):
        if kind == 1:
            out[r] = a[r] @ b.T + (2.0 if r % 2 == 0 else 1.0)
        elif kind == 2:
            out[r] = a[r] @ b + 1.0
        elif kind == 3:
            out[r] = -(a[r] @ b.T + 1.0)
    return {"c": out}


def integers(a: Array, b: Array) -> Outputs:
    signed = np.array([_signed(int(x), int(u)) for x, u in zip(a, b, strict=True)], dtype=np.int64)
    unsigned = np.array([_unsigned(int(u)) for u in b], dtype=np.int64)
    return {"si": signed, "ui": unsigned}


def _signed(x: int, u: int) -> list[int]:
    quotient = int(abs(x) // 7) * (1 if x >= 0 else -1)
    counted, _ = _collatz(u)
    return [quotient, x - 7 * quotient, x >> 3, max(x, -5) - min(x, 5), abs(x), -(-abs(x) // 6), ~x & 0xFF, counted]


def _unsigned(u: int) -> list[int]:
    word = 0xFFFFFFFF
    fields = (u & 255) + ((u >> 8) & 63) * 1000 + (u >> 14) * 100000
    mixed = ((u << 5) & word) ^ (u & 0x0F0F0F0F) | 1
    hashed = u * 2654435761 + 12345
    _, value = _collatz(u)
    return [u // 7, u % 7, u >> 3, mixed, fields & word, hashed & word, max(u, 0x80000000), value]


def _collatz(u: int) -> tuple[int, int]:
    value, steps, counted = u % 1000 + 1, 0, 0
    while value != 1:
        value = value // 2 if value % 2 == 0 else value * 3 + 1
        steps += 1
        if steps >= 50:
            break
        counted += steps % 4 != 0
    return counted, value


def compose(x: Array) -> Outputs:
    """Tiles of 8 x 8 trade places inside blocks of 32 x 16."""
    row, col = np.ogrid[: x.shape[0], : x.shape[1]]
    marked = x + row * 1000 + col
    blocks = marked.reshape(x.shape[0] // 32, 4, 8, x.shape[1] // 16, 2, 8)
    return {"y": blocks[:, ::-1, :, :, ::-1].reshape(x.shape)}


def map_scalars(x: Array, knee: float) -> Outputs:
    return {"y": np.where(x > knee, x, 0.5 * (x + knee)) + (np.arange(len(x)) % 2 == 0)}


def clamp_product(a: Array, b: Array, limit: float) -> Outputs:
    return {"c": np.clip(a @ b.T, -limit, limit)}


def sub_warps(x: Array) -> Outputs:
    return {"y": np.einsum("rqt,q->rt", x.reshape(-1, 4, 32), np.array([4.0, 2.0, 3.0, 1.0]))}


def chain_shared(a: Array, b: Array, c: Array) -> Outputs:
    return {"d": sum(np.maximum(a @ x.T, 0) @ y.T for x, y in zip(b, c, strict=True))}


def chain_b(a: Array, b: Array) -> Outputs:
    tiles = [np.concatenate([x, np.zeros((64, 64))])[:64] for x in (a[i : i + 64] for i in range(0, len(a), 64))]
    made = [sum(x @ (np.maximum(x @ y.T, 0) * 0.125).T for y in b) for x in tiles]
    return {"d": np.concatenate(made)[: len(a)]}


def long_flight(a: Array, b: Array, rounds: int) -> Outputs:
    products = [x @ b.T for x in a]
    second = np.zeros((64, 64))
    for _ in range(rounds):
        second = (second + products[1]) * 0.5
    third = -(1.0 + 2 * products[2]) if rounds > 1 else np.ones((64, 64))
    return {"c": np.stack([2 * products[0] + 1.0, second, third])}


def two_readers(x: Array) -> Outputs:
    y = x.copy()
    y[0::2] = x[0::2] + x[1::2, ::-1]
    return {"y": y, "z": -x}


def apply_rules(x: Array) -> Outputs:
    """`count` is raised once a row in each of the four lanes that hold it: nothing in that statement has a column."""
    i, j = np.ogrid[:64, :64]
    scaled = x * 4
    rest = np.where(j % 2 == 0, scaled + i, np.where(i < 32, -scaled, 0.5))
    v = np.where(j < 8, scaled, rest)
    y = v + np.where(i == j, 0.0, scaled * 2) + 2 * i
    rows = np.stack([v.sum(1), np.full(64, 4.0), 2.0 * np.arange(64), v.max(1)], axis=1)
    return {"y": y, "rows": rows}


def reentered(x: Array) -> Outputs:
    line = 1.0 + np.cumsum(x, axis=0)
    sums = np.repeat(line.reshape(-1, 2, 128).sum(2), 128, axis=1)
    return {"y": line[:, ::-1] + sums}


def two_launches(x: Array, parts: int) -> Outputs:
    chunk = -(-len(x) // parts)
    padded = np.concatenate([x, np.zeros(chunk * parts - len(x))])
    return {"part": padded.reshape(parts, chunk).sum(1), "total": x.sum(keepdims=True)}


def facts(x: Array) -> Outputs:
    rows, cols = x.shape
    odd = rows % 2 == 1
    out = [2, rows, cols * 2, 192, 3, 40, 3, 12, -(-cols // 4), 12, 4 & 7, 8, int(odd), 5 if not odd else 6]
    y = np.full(x.shape, np.nan)
    for b in range(3):
        for t in range(4):
            if b * 5 + t // 2 < rows and t < cols:
                y[b * 4 + t, 0] = x[b * 5 + t // 2, t % 2]
    return {"out": np.array([*out, UNTOUCHED, UNTOUCHED]), "y": y}


def predicates(limit: int) -> Outputs:
    ids = np.arange(384)
    p, t = ids // 128, ids % 128
    cell = np.full(384, 7)
    cell = np.where((p == 0) & (t < 32) | (p == 2), 1000 + ids, cell)
    cell = np.where(p != 0, cell + 1, cell)
    cell = np.where(p[::-1] % 2 == 0, cell * 2, cell)
    cell = np.where((p >= 1) & (t % 2 == 1), -cell, cell)
    cell = np.where((p == 1) & (t >= 96), np.roll(cell, 96), cell)
    cell = np.where(p == 1, cell + 5, cell)
    cell = np.where(ids < limit, 3, cell)
    return {"out": cell[::-1]}


def stop_early(list: Array, x: Array) -> Outputs:
    y = np.full((len(list), 64), np.nan)
    for r, entry in enumerate(list):
        if entry <= 0:
            break
        if entry % 2 == 0:
            y[r] = x[entry // 2 - 1] + 1.0
    return {"y": y}


def scalars(flip: bool, x: Array, mask: int, factor: float, shift: int, wide: int, low: int, grid: Array) -> Outputs:
    v = x * factor + np.where(mask >> np.arange(32) & 1 == 1, wide // 1000000 + low, 0.0)
    a, b, c = np.ogrid[: grid[0], : grid[1], : grid[2]]
    return {"y": -v if flip else v, "places": a * 10000 + b * 100 + c + shift}


def math_functions(x: Array) -> Outputs:
    from math import erf

    p = np.abs(x) + 0.5
    gelu = 0.5 * x * (1 + np.array([erf(v / 2**0.5) for v in x]))
    last = np.maximum(x, -0.25) - np.minimum(x, 0.25) + x / p
    columns = [np.exp(x), np.log(p), p**0.5, p**-0.5, x * p + 2, np.tanh(x), 1 / (1 + np.exp(-x)), gelu, p**1.5]
    return {"y": np.stack([*columns, np.exp2(x), 1 / p, last], axis=1)}


def conversions(x: Array) -> Outputs:
    import ml_dtypes

    v = (x.astype(np.float32) * np.float32(1000)).astype(np.float32)
    whole = np.trunc(v).astype(np.int64)
    short = ((whole * 100 + 2**15) % 2**16) - 2**15
    with np.errstate(over="ignore"):
        h = (v * np.float32(100)).astype(np.float16).astype(np.float64)
    low = x.astype(np.float32).astype(ml_dtypes.bfloat16)
    b = np.stack([low * low, low + ml_dtypes.bfloat16(1)], axis=1).astype(np.float64)
    c = np.broadcast_to([0, 0, 1], (len(x), 3))
    return {"i": np.stack([whole, np.abs(whole), short, whole % 256], axis=1), "h": h, "b": b, "c": c}


def filled(x: Array) -> Outputs:
    twice, y = np.full((2, 64), 2.5), np.empty_like(x)
    for r, row in enumerate(x):
        fresh = np.where(np.arange(64) % 2 == 0, row, 1.0)
        twice[r % 2] += fresh[::-1]
        y[r] = twice.sum(0)
    return {"y": y}


def k_parts(a: Array, b: Array, T: int, STEP: int, COUNT: int) -> Outputs:
    tiles = [slice(n * STEP, n * STEP + T) for n in range(COUNT)]
    return {"c": sum(a[8:, t] @ b[:, t].T for t in tiles) + a[:64, tiles[1]] @ b[:, tiles[1]].T}


def mn_parts(a: Array, b: Array, T: int, STEP: int, COUNT: int) -> Outputs:
    tiles = [slice(n * STEP, n * STEP + T) for n in range(COUNT)]
    return {"c": sum(a @ b[t, 64:128] for t in tiles) + a @ b[tiles[1], 128:]}


def m_parts(a: Array, b: Array, b_t: Array, M: int, ALONG_K: int) -> Outputs:
    right = b_t.T if ALONG_K else b
    parts = [a[24 * n + 24 : 24 * n + 72, 64 : 64 + M].T @ right[48 * n : 48 * n + 48] for n in range(3)]
    return {"c": parts[0] + parts[1] + parts[2]}
