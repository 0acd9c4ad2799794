"""Random work on fragments: products of small integers, element-wise maps, masks, row reductions, and every way out.

An accumulator of any legal shape is made by an MMA or filled from global memory; its results leave as whole tiles
(through shared memory by `stmatrix` and the copy engine, or straight to global memory with tails) and as row vectors.
"""

from __future__ import annotations

import random

import numpy as np

from tests.random_tiles.tile_sample import Array, Sample, integers, poisoned

K = 32


def draw_fragment(seed: int) -> Sample:
    rng = random.Random(seed)
    m, n = 64 * rng.choice((1, 1, 2)), 8 * rng.randint(1, 24)
    rows = m if rng.random() < 0.5 else rng.randint(1, m)
    cols = n if rng.random() < 0.5 else rng.randint(1, n)
    out = rng.choice(("f32", "bf16", "f16", "f32", "s32"))
    way = rng.choice(("global", "global", "shared+copy", "shared+tma", "map"))
    if way == "shared+tma":
        lanes = 4 if out in ("f32", "s32") else 8
        cols = -(-cols // lanes) * lanes
        n = -(-n // lanes) * lanes
    if out == "s32" and way != "map":
        out = "f32"
    a, b = integers(rng, (m, K), "bf16", -1, 2), integers(rng, (n, K), "bf16", -1, 2)
    scores = a.astype("f8") @ b.astype("f8").T
    lines = [
        f"__co__ void f(global bf16 [{m}, {K}] a, global bf16 [{n}, {K}] b, global {out} [R, C] c,",
        f"              global f32 [{m}] top, global f32 [{m}] total) {{",
        "  parallel q by 1 : block, w by 1 : group-4 {",
        "    a_s = dma.copy.swiz<64> a => shared;",
        "    b_s = dma.copy.swiz<64> b => shared;",
        f"    frag f32 [{m}] row_top, row_sum;",
        "    acc = mma.fill.f32 0.0f;",
        "    mma.row.row acc, a_s, b_s;",
    ]
    scores = _maps(rng, lines, scores)
    lines += ["    reduce_max(row_top, acc, 1);", "    reduce_sum(row_sum, acc, 1);"]
    top, total = scores.max(1), scores.sum(1)
    if rng.random() < 0.5:
        lines += ["    apply {i, j} in acc.span", "      acc.at(i, j) = acc.at(i, j) - row_top.at(i);"]
        scores = scores - top[:, None]
    _leave(rng, lines, (m, n), out, way)
    lines += ["    apply {i} in row_top.span", "      top.at(i) = row_top.at(i);"]
    lines += ["    apply {i} in row_sum.span", "      total.at(i) = row_sum.at(i);", "  }", "}"]
    arrays = {"a": a, "b": b, "c": poisoned((rows, cols), out)}
    arrays |= {"top": poisoned((m,), "f32"), "total": poisoned((m,), "f32")}
    kept = np.trunc(scores) if out == "s32" else scores
    want = {"c": kept[:rows, :cols], "top": top, "total": total}
    return Sample(seed, "fragment", "\n".join(lines) + "\n", arrays, want)


def _maps(rng: random.Random, lines: list[str], scores: Array) -> Array:
    i, j = np.indices(scores.shape)
    for _ in range(rng.randint(0, 3)):
        kind = rng.choice(("mask", "index", "scale", "clamp", "cast"))
        if kind == "mask":
            at = rng.randint(-8, scores.shape[1])
            lines += [
                "    apply {i, j} in acc.span {",
                f"      if (j > i + {at})",
                "        acc.at(i, j) = -40.0f;",
                "    }",
            ]
            scores = np.where(j > i + at, -40.0, scores)
        elif kind == "index":
            div = rng.randint(2, 9)
            text = f"__to<f32>((i * 3 + j) % {div})"
            lines += ["    apply {i, j} in acc.span", f"      acc.at(i, j) = acc.at(i, j) + {text};"]
            scores = scores + (i * 3 + j) % div
        elif kind == "scale":
            lines += ["    apply {i, j} in acc.span", "      acc.at(i, j) = acc.at(i, j) * 0.5f - 1.0f;"]
            scores = scores * 0.5 - 1
        elif kind == "clamp":
            lines += ["    apply {i, j} in acc.span", "      acc.at(i, j) = __min(__max(acc.at(i, j), -9.0f), 11.0f);"]
            scores = np.clip(scores, -9, 11)
        else:
            lines += ["    apply {i, j} in acc.span", "      acc.at(i, j) = __to<f32>(__to<s32>(acc.at(i, j)));"]
            scores = np.trunc(scores)
    return scores


def _leave(rng: random.Random, lines: list[str], shape: tuple[int, int], out: str, way: str) -> None:
    m, n = shape
    tile = f"c.subspan({m}, {n}).at(0, 0)"
    if way == "map":
        value = "acc.at(i, j)" if out == "f32" else f"__to<{out}>(acc.at(i, j))"
        lines += [
            "    apply {i, j} in acc.span {",
            "      if (i < R && j < C)",
            f"        c.at(i, j) = {value};",
            "    }",
        ]
    elif way == "global":
        lines.append(f"    mma.store acc, {tile};")
    else:
        lines += [f"    shared {out} [{m}, {n}] c_s;", "    mma.store acc, c_s;"]
        lines.append(f"    {'tma' if way.endswith('tma') else 'dma'}.copy c_s => {tile};")
