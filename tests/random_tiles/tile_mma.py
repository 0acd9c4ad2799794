"""Random MMAs: types, layouts, swizzles, operands from registers, and sub-tiles of larger buffers at any offset.

Both operands are parts of buffers that one copy fills. Along K a part is walked by a loop (run-time index), or taken at
constant places; along M and N it is chosen by a constant or by a value of run time; buffers may be slots of an array.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from tests.random_tiles.tile_sample import BYTES, Sample, integers, poisoned, shape_text, swizzle_text

ELEMENTS = ("bf16", "f16", "bf16", "f16", "f8_e4m3", "f8_e5m2", "tf32")
STEP_BYTES = 32  # of one instruction along K
MOST_SHARED = 100 * 1024  # bytes of one operand


@dataclass(frozen=True)
class _Operand:
    """`mn` x `k` elements of one MMA, from a buffer of `mn_tiles` x `k_tiles` such parts; `mn_first`: K is the rows."""

    name: str
    mn: int
    k: int
    mn_tiles: int
    k_tiles: int
    mn_at: int
    k_step: int  # elements between parts along K
    transposed: bool
    slots: int
    slot: int
    move: str
    runtime: bool  # `mn_at` and `slot` are read from memory

    @property
    def shape(self) -> tuple[int, int]:
        along_k = (self.k_tiles - 1) * self.k_step + self.k
        rows, cols = self.mn * self.mn_tiles, along_k
        return (cols, rows) if self.transposed else (rows, cols)

    @property
    def buffer(self) -> str:
        return f"{self.name}_s[{self._index(self.slot, self.slots, 0)}]" if self.slots > 1 else f"{self.name}_s"

    def _index(self, value: int, count: int, at: int) -> str:
        return f"pick.at({2 * (self.name == 'b') + at}) % {count}" if self.runtime and count > 1 else str(value)

    @property
    def picks(self) -> tuple[int, int]:
        return self.slot, self.mn_at

    def part(self, kk: str) -> str:
        if self.mn_tiles == self.k_tiles == 1:
            return self.buffer
        extents, at = [self.mn, self.k], [self._index(self.mn_at, self.mn_tiles, 1), kk]
        steps = [self.mn, self.k_step]
        if self.transposed:
            extents, at, steps = extents[::-1], at[::-1], steps[::-1]
        step = "" if self.k_step == self.k else f".step({steps[0]}, {steps[1]})"
        return f"{self.buffer}.subspan({extents[0]}, {extents[1]}){step}.at({at[0]}, {at[1]})"


def draw_mma(seed: int) -> Sample:
    rng = random.Random(seed)
    element = rng.choice(ELEMENTS)
    wide = BYTES[element] == 2
    step = STEP_BYTES // BYTES[element]
    k = step * rng.randint(1, 6)
    k_tiles = rng.randint(1, 4)
    k_step = k if rng.random() < 0.8 else step * rng.randint(1, 8)
    m, n = 64 * rng.choice((1, 1, 1, 2)), 8 * rng.choice((1, 2, 3, 4, 6, 8, 12, 16, 20, 32))
    a_in_registers = wide and rng.random() < 0.25
    a = _operand(
        rng, "a", element, m, (k, k_tiles, k_step), transposed=wide and not a_in_registers and rng.random() < 0.2
    )
    b = _operand(rng, "b", element, n, (k, k_tiles, k_step), transposed=wide and rng.random() < 0.4)
    out = "f16" if wide and element == "f16" and rng.random() < 0.3 else "f32"
    return _sample(seed, rng, element, out, (m, n), a, b, a_in_registers)


def _operand(
    rng: random.Random, name: str, element: str, mn: int, along_k: tuple[int, int, int], *, transposed: bool
) -> _Operand:
    k, k_tiles, k_step = along_k
    mn_tiles = rng.choice((1, 1, 2, 3))
    length = (k_tiles - 1) * k_step + k
    while mn_tiles > 1 and mn * mn_tiles * length * BYTES[element] > MOST_SHARED:
        mn_tiles -= 1
    row = (mn * mn_tiles if transposed else length) * BYTES[element]
    slots = rng.choice((1, 1, 2)) if mn * mn_tiles * length * BYTES[element] <= MOST_SHARED // 2 else 1
    engine = rng.choice(("dma.copy", "dma.copy", "tma.load"))
    move = engine + swizzle_text(rng, row)
    return _Operand(name, mn, k, mn_tiles, k_tiles, rng.randrange(mn_tiles), k_step, transposed, slots,
                    rng.randrange(slots), move, rng.random() < 0.3)  # fmt: skip


def _sample(
    seed: int, rng: random.Random, element: str, out: str, mn: tuple[int, int], a: _Operand, b: _Operand, a_frag: bool
) -> Sample:
    m, n = mn
    layouts = f".{'col' if a.transposed else 'row'}.{'col' if b.transposed else 'row'}"
    unrolled = rng.random() < 0.4
    lines = [
        f"__co__ void f(global {element} {shape_text(a.shape)} a, global {element} {shape_text(b.shape)} b,",
        f"              global u32 [4] pick, global {out} [{m}, {n}] c) {{",
        "  parallel q by 1 : block, w by 1 : group-4 {",
        f"    shared {element} {shape_text(a.shape)} a_s{f'[{a.slots}]' if a.slots > 1 else ''};",
        f"    shared {element} {shape_text(b.shape)} b_s{f'[{b.slots}]' if b.slots > 1 else ''};",
        f"    {a.move} a => {a.buffer};",
        f"    {b.move} b => {b.buffer};",
        f"    acc = mma.fill.{out} 0.0f;",
    ]
    if a_frag:
        lines.append(f"    frag {element} [{m}, {a.k}] a_f;")
    steps = [str(kk) for kk in range(a.k_tiles)] if unrolled else ["kk"]
    lines += [] if unrolled else [f"    foreach {{kk}} in [{a.k_tiles}] {{"]
    for kk in steps:
        if a_frag:
            first = f"{kk} * {a.k_step} + " if a.k_tiles > 1 else ""
            row = f"{a.mn_at * a.mn} + i" if a.mn_at else "i"
            lines += ["      apply {i, j} in a_f.span", f"        a_f.at(i, j) = a.at({row}, {first}j);"]
        operand = "a_f" if a_frag else a.part(kk)
        lines.append(f"      mma{layouts} acc, {operand}, {b.part(kk)};")
    lines += [] if unrolled else ["    }"]
    lines += ["    mma.store acc, c;", "  }", "}"]
    arrays = {
        "a": integers(rng, a.shape, element),
        "b": integers(rng, b.shape, element),
        "pick": np.array([*a.picks, *b.picks], np.uint32),
        "c": poisoned((m, n), out),
    }
    left = arrays["a"].T if a.transposed else arrays["a"]
    right = arrays["b"].T if b.transposed else arrays["b"]
    left = left[a.mn_at * m : (a.mn_at + 1) * m].astype("f8")
    right = right[b.mn_at * n : (b.mn_at + 1) * n].astype("f8")
    spans = [slice(kk * a.k_step, kk * a.k_step + a.k) for kk in range(a.k_tiles)]
    want = sum(left[:, span] @ right[:, span].T for span in spans)
    return Sample(seed, "mma", "\n".join(lines) + "\n", arrays, {"c": want})
