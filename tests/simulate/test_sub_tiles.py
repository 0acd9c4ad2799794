"""MMAs of parts of shared tiles, of any width, place, swizzle and major order that descriptors have, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from croq.simulate import run as simulate

NUMPY = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "tf32": np.float32, "f8_e4m3": ml_dtypes.float8_e4m3fn}


def program(element: str, a: str, b: str, c: str, statements: str, width: int = 128) -> str:
    """One CTA of a warpgroup: `a` and `b` (extents) are copied to shared memory, then multiplied into acc."""
    return f"""
    __co__ void f(global {element} [{a}] a, global {element} [{b}] b, global f32 [{c}] c) {{
      parallel q by 1 : block, t by 128 : thread {{
        acc = mma.fill.f32 0.0f;
        shared {element} [{a}] a_s;
        shared {element} [{b}] b_s;
        dma.copy.swiz<{width}> a.subspan({a}).at(0, 0) => a_s;
        dma.copy.swiz<{width}> b.subspan({b}).at(0, 0) => b_s;
        {statements}
        mma.store acc, c.subspan({c}).at(0, 0);
      }}
    }}"""


def draw(element: str, *shape: int) -> np.ndarray:
    """Small whole numbers: sums are exact in every order. No two rows or columns of 16 bytes are alike."""
    rng = np.random.default_rng(sum(shape))
    return rng.integers(-4, 5, shape).astype(np.float32).astype(NUMPY[element])


def run(lower, text: str, want, element: str, a: tuple[int, int], b: tuple[int, int], c: tuple[int, int] = (64, 64)):
    arrays = {"a": draw(element, *a), "b": draw(element, *b), "c": np.full(c, np.nan, np.float32)}
    x, y = (arrays[n].astype(np.float64) for n in "ab")
    simulate(lower(text), arrays, schedule="random:1", races=True)
    np.testing.assert_array_equal(arrays["c"], want(x, y))


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize(
    ("k", "tile"), [(192, 16), (192, 32), (192, 48), (192, 64), (192, 96), (320, 80), (320, 160), (448, 112)]
)
def test_k_tiles_of_any_width_one_after_the_other(lower, width, k, tile):
    loop = f"foreach {{kk}} in [{k // tile}] mma.row.row acc, a_s.subspan(64, {tile}).at(0, kk), "
    loop += f"b_s.subspan(64, {tile}).at(0, kk);"
    text = program("bf16", f"64, {k}", f"64, {k}", "64, 64", loop, width)
    run(lower, text, lambda a, b: a @ b.T, "bf16", (64, k), (64, k))


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize(("extent", "start"), [(e, s) for e in (16, 32, 48, 80) for s in range(0, 193 - e, 16)])
def test_a_k_tile_at_any_constant_place(lower, width, extent, start):
    text = program(
        "f16", "64, 192", f"64, {extent + 16}", "64, 64",
        f"mma.row.row acc, a_s.subspan(64, {extent}).step(64, 16).at(0, {start // 16}), "
        f"b_s.subspan(64, {extent}).step(64, 16).at(0, 1);", 32,
    ).replace("swiz<32> a.", f"swiz<{width}> a.")  # fmt: skip
    want = lambda a, b: a[:, start : start + extent] @ b[:, 16:].T  # noqa: E731
    run(lower, text, want, "f16", (64, 192), (64, extent + 16))


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize(("extent", "step"), [(48, 16), (32, 16), (80, 48), (16, 32), (96, 32), (64, 64)])
def test_k_tiles_that_overlap_or_leave_gaps(lower, width, extent, step):
    count = (192 - extent) // step + 1
    loop = f"foreach {{kk}} in [{count}] mma.row.row acc, a_s.subspan(64, {extent}).step(64, {step}).at(0, kk), "
    loop += f"b_s.subspan(64, {extent}).step(64, {step}).at(0, kk);"

    def want(a, b):
        parts = [slice(n * step, n * step + extent) for n in range(count)]
        return sum(a[:, part] @ b[:, part].T for part in parts)

    run(lower, program("bf16", "64, 192", "64, 192", "64, 64", loop, width), want, "bf16", (64, 192), (64, 192))


@pytest.mark.parametrize(("element", "step"), [("tf32", 8), ("f8_e4m3", 32)])
@pytest.mark.parametrize("tiles", [1, 3, 5])
def test_k_tiles_of_other_element_sizes(lower, element, step, tiles):
    tile, k = step * tiles, step * tiles * 4
    loop = f"foreach {{kk}} in [4] mma.row.row acc, a_s.subspan(64, {tile}).at(0, kk), "
    loop += f"b_s.subspan(64, {tile}).at(0, kk);"
    text = program(element, f"64, {k}", f"64, {k}", "64, 64", loop)
    run(lower, text, lambda a, b: a @ b.T, element, (64, k), (64, k))


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("rows", [8, 16, 24, 40, 64])
def test_rows_from_any_multiple_of_eight(lower, width, rows):
    """Tall A in row blocks, B of `rows` rows at a constant and at a computed place, K tiles that cross slabs."""
    loop = f"""foreach {{n}} in [1] foreach {{kk}} in [4]
      mma.row.row acc, a_s.subspan(128, 48).step(8, 48).at(1, kk), b_s.subspan({rows}, 48).step(8, 48).at(n + 2, kk);"""
    text = program("bf16", "136, 192", "80, 192", f"128, {rows}", loop, width)
    want = lambda a, b: a[8:] @ b[16 : 16 + rows].T  # noqa: E731
    run(lower, text, want, "bf16", (136, 192), (80, 192), (128, rows))


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize(("tile", "step"), [(16, 16), (48, 48), (16, 8), (32, 24)])
def test_mn_major_tiles_along_k(lower, width, tile, step):
    count = (144 - tile) // step + 1
    loop = f"foreach {{n}} in [1] foreach {{kk}} in [{count}] mma.row.col acc, a_s.subspan(64, {tile}).at(0, 1), "
    loop += f"b_s.subspan({tile}, 64).step({step}, 64).at(kk, n + 1);"
    text = program("bf16", f"64, {tile * 4}", "144, 192", "64, 64", loop, width)

    def want(a, b):
        parts = [b[n * step : n * step + tile, 64:128] for n in range(count)]
        return a[:, tile : 2 * tile] @ sum(parts)

    run(lower, text, want, "bf16", (64, tile * 4), (144, 192))


@pytest.mark.parametrize("slot", ["1", "kk"])
def test_tiles_in_slots_of_an_array(lower, slot):
    text = f"""
    __co__ void f(global bf16 [128, 192] a, global bf16 [64, 192] b, global f32 [64, 64] c) {{
      parallel q by 1 : block, t by 128 : thread {{
        acc = mma.fill.f32 0.0f;
        shared bf16 [64, 192] a_s[2];
        shared bf16 [64, 192] b_s;
        dma.copy a.subspan(64, 192).at(0, 0) => a_s[0];
        dma.copy a.subspan(64, 192).at(1, 0) => a_s[1];
        dma.copy b.subspan(64, 192).at(0, 0) => b_s;
        foreach {{kk}} in [2] mma.row.row acc, a_s[{slot}].subspan(64, 80).at(0, kk), b_s.subspan(64, 80).at(0, kk);
        mma.store acc, c.subspan(64, 64).at(0, 0);
      }}
    }}"""

    def want(a, b):
        slots = [1, 1] if slot == "1" else [0, 1]
        parts = [slice(n * 80, n * 80 + 80) for n in range(2)]
        return sum(a[64 * s : 64 * s + 64, part] @ b[:, part].T for s, part in zip(slots, parts, strict=True))

    run(lower, text, want, "bf16", (128, 192), (64, 192))


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize("form", ["col.row", "col.col"])
def test_a_along_m(lower, width, m, form):
    """A is [K, M]: row blocks of 64 columns, K rows from a computed multiple of 8; B K- or MN-major."""
    row = form == "col.row"
    b = "64, 144" if row else "144, 64"
    tile = "b_s.subspan(64, 48).step(64, 48).at(0, kk)" if row else "b_s.subspan(48, 64).step(48, 64).at(kk, 0)"
    loop = f"foreach {{kk}} in [3] mma.{form} acc, a_s.subspan(48, {m}).step(24, 64).at(kk + 1, 1), {tile};"
    text = program("f16", "144, 256", b, f"{m}, 64", loop, width)
    text = text.replace(f"swiz<{width}> b.", "swiz<32> b.") if row else text  # rows of 288 bytes

    def want(a, b):
        parts = [a[24 * n + 24 : 24 * n + 72, 64 : 64 + m] for n in range(3)]
        right = [b[:, 48 * n : 48 * n + 48].T if row else b[48 * n : 48 * n + 48] for n in range(3)]
        return sum(x.T @ y for x, y in zip(parts, right, strict=True))

    rows, columns = map(int, b.split(","))
    run(lower, text, want, "f16", (144, 256), (rows, columns), (m, 64))
