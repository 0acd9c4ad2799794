"""What lowered programs compute, simulated: forms that the examples and kernels do not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from croq.ir.objects import Kernel
from croq.simulate import run
from tests.passes.helpers import lower, program, warpgroups

Array = NDArray[Any]
XY = "global f32 [M, 64] x, global f32 [M, 64] y"
AB = "global f16 [64, 64] a, global f16 [64, 64] b, global f32 [C, 64] c"
SCHEDULES = ("eager", "lazy", "random:3")


def draw(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32).astype(dtype)


def check(kernel: Kernel, arrays: Mapping[str, Array], want: Mapping[str, Array]) -> None:
    for schedule in SCHEDULES:
        copies = {name: array.copy() for name, array in arrays.items()}
        run(kernel, copies, schedule=schedule)
        for name, expected in want.items():
            np.testing.assert_allclose(copies[name].astype(np.float64), expected, atol=1e-2, err_msg=schedule)


def rows(want: Mapping[int, Array], like: Array) -> Array:
    """Zeros with blocks of rows that begin where the keys say."""
    result = np.zeros_like(like, dtype=np.float64)
    for first, block in want.items():
        result[first : first + len(block)] = block
    return result


X, Y = draw(128, 64), np.zeros((128, 64), np.float32)


@pytest.mark.parametrize(
    ("name", "before", "body", "want"),
    [
        ("sub-rows", "shared f32 [64, 64] s;",
         "tma.load.swiz<128> x.subspan(4, 64).at(1, 0) => s.subspan(4, 64).at(3, 0);"
         "tma.copy s.subspan(4, 64).at(3, 0) => y.subspan(4, 64).at(0, 0);", {0: X[4:8]}),
        ("sub-columns", "shared f32 [8, 64] s {0.0f};",
         "tma.load x.subspan(8, 32).at(0, 1) => s.subspan(8, 32).at(0, 0);"
         "tma.copy s => y.subspan(8, 64).at(0, 0);", {0: np.hstack([X[:8, 32:], 0 * X[:8, 32:]])}),
        ("many-rows", "shared f32 [96, 64] s;",
         "tma.load.swiz<64> x.subspan(96, 64).at(0, 0) => s;"
         "tma.copy s.subspan(32, 64).at(2, 0) => y.subspan(32, 64).at(0, 0);",
         {0: X[64:96]}),
        ("two-loads-of-one-buffer", "shared f32 [4, 64] s;",
         "foreach i in [3] { tma.load x.subspan(4, 64).at(i, 0) => s; y.at(i, t % 64) = s.at(3, t % 64); }"
         "tma.load x.subspan(4, 64).at(5, 0) => s; y.at(3, t % 64) = s.at(0, t % 64);"
         "tma.load x.subspan(4, 64).at(6, 0) => s; y.at(4, t % 64) = s.at(0, t % 64);",
         {0: X[[3, 7, 11, 20, 24]]}),
        ("one-future-many-waits", "",
         "f = tma.load.async x.subspan(4, 64).at(1, 0) => shared; wait f;"
         "foreach i in [3] { wait f; y.at(i, t % 64) = f.at(i, t % 64); }",
         {0: X[4:7]}),
        ("shared-to-shared", "shared f32 [64, 64] s; shared f32 [64, 64] u;",
         "foreach i in [32] { s.at(t % 64, i + 32 * (t / 64)) = x.at(t % 64, i + 32 * (t / 64)); }"
         "dma.copy s => u; dma.copy u => y.subspan(64, 64).at(0, 0);", {0: X[:64]}),
        ("written-then-copied", "",
         "foreach i in [64] { y.at(t, i) = 2.0f * x.at(t, i); } s = dma.copy y.subspan(4, 64).at(31, 0) => shared;"
         "dma.copy s => y.subspan(4, 64).at(0, 0);", {0: 2 * np.vstack([X[124:], X[4:]])}),
        ("stored-then-read", "shared f32 [4, 64] s;",
         "tma.load x.subspan(4, 64).at(0, 0) => s; tma.copy s => y.subspan(4, 64).at(0, 0);"
         "y.at(4, t % 64) = y.at(0, t % 64);", {0: X[[0, 1, 2, 3, 0]]}),
        ("local", "", "local f32 [2, 3] r {1.5f}; r.at(1, 1) = 2.0f; y.at(0, t % 64) = r.at(0, 0) + r.at(1, 1);",
         {0: np.full((1, 64), 3.5)}),
        ("fill-in-a-loop", "",
         "foreach i in [3] { shared f32 [64] s {0.0f}; if (t < 64) { s.at(t) = s.at(t) + 1.0f; }"
         "sync.shared; y.at(i, t % 64) = s.at(63 - t % 64); }",
         {0: np.ones((3, 64))}),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value and value else "",
)  # fmt: skip
def test_moves(name: str, before: str, body: str, want: dict[int, Array]) -> None:
    check(lower(warpgroups(1, body, before, params=XY)), {"x": X, "y": Y}, {"y": rows(want, Y)})


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("shared f32 [64] s; parallel t by 64 : thread { s.at(t) = x.at(1, t); }"
         " parallel t by 64 : thread { y.at(0, t) = s.at(63 - t); }", {0: X[1:2, ::-1]}),
        ("shared f32 [1] s; s.at(0) = 0.0f; foreach i in [4] { parallel t by 64 : thread { y.at(i, t) = s.at(0); }"
         " s.at(0) = s.at(0) + 10.0f; }", {0: np.repeat(np.arange(4) * 10.0, 64).reshape(4, 64)}),
        ("shared f32 [1] s; s.at(0) = 7.0f; float v = s.at(0); s.at(0) = 9.0f;"
         " parallel t by 64 : thread { y.at(0, t) = v; y.at(1, t) = s.at(0); }",
         {0: np.repeat([7.0, 9.0], 64).reshape(2, 64)}),
        ("y.at(0, 0) = x.at(5, 5);", {0: np.pad(X[5:6, 5:6], ((0, 0), (0, 63)))}),
    ],
    ids=["parallels-in-sequence", "store-after-parallel-in-loop", "read-back", "one-thread"],
)  # fmt: skip
def test_cta_level(body: str, want: dict[int, Array]) -> None:
    check(lower(program(body, params=XY)), {"x": X, "y": Y}, {"y": rows(want, Y)})


def test_roles_in_a_loop_of_the_cta_keep_their_generations() -> None:
    body = """
    shared f32 [4, 64] s[2]; shared event full; shared event free = ready;
    foreach i in [5] {
      parallel p by 2 : group-4, t by 128 : thread {
        inthreads.async (p == 0) {
          wait free; l = tma.load.async x.subspan(4, 64).at(i, 0) => s[0]; trigger full after l;
        }
        inthreads.async (p == 1) { wait full; if (t < 64) { y.at(i, t) = s[0].at(2, t); } trigger free; }
      }
    }
    """
    check(lower(program(body, params=XY)), {"x": X, "y": Y}, {"y": rows({0: X[2:20:4]}, Y)})


def test_a_counter_that_a_narrowed_role_reads() -> None:
    body = """
    shared f32 [4, 64] s[2]; shared event full[2]; shared event empty[2] = ready;
    mutable u32 order = 0;
    foreach i in [2] {
      parallel p by 2 : group-4, t by 128 : thread {
        inthreads.async (p == 0) {
          if (t < 64) { y.at(100 + i, t) = __to<f32>(order); }
          foreach k in [3] {
            wait empty.at(order);
            l = tma.load.async x.subspan(4, 64).at(i * 3 + k, 0) => s[order % 2];
            trigger full.at(order) after l;
            order = order + 1;
          }
        }
        inthreads.async (p == 1) {
          foreach k in [3] {
            n = i * 3 + k;
            wait full.at(n);
            if (t < 64) { y.at(n, t) = s[n % 2].at(0, t); }
            trigger empty.at(n);
          }
        }
      }
    }
    """
    want = rows({0: X[0:24:4], 100: np.repeat([0.0, 3.0], 64).reshape(2, 64)}, Y)
    check(lower(program(body, params=XY)), {"x": X, "y": Y}, {"y": want})


A, B, C = draw(64, 64, dtype=np.float16), draw(64, 65, dtype=np.float16)[:, :64].copy(), np.zeros((256, 64), np.float32)
ONE = A.astype(np.float64) @ B.astype(np.float64).T
LOADED = """
shared f16 [64, 64] s; shared f16 [64, 64] u; shared f32 [64, 64] o;
tma.load.swiz<128> a.subspan(64, 64).at(0, 0) => s;
tma.load.swiz<128> b.subspan(64, 64).at(0, 0) => u;
"""
ACC = "acc = mma.fill.f32 0.0f;"
OUT = "tma.copy o => c.subspan(64, 64).at(i, 0);"


@pytest.mark.parametrize(
    ("count", "body", "want"),
    [
        (1, f"{ACC} foreach i in [4] {{ mma.row.row acc, s, u; mma.store acc, o; {OUT} }}", [1, 2, 3, 4]),
        (1, f"{ACC} foreach i in [4] {{ mma.row.row acc, s, u;"
         f"apply {{q, j}} in acc.span {{ o.at(q, j) = acc.at(q, j); }} {OUT} }}",
         [1, 2, 3, 4]),
        (1, f"{ACC} foreach i in [4] {{ mma.row.row acc, s, u; mma.store acc, o; if (i < C) {{ {OUT} }}"
         " apply {q, j} in acc.span { o.at(q, j) = 5.0f; } }", [1, 2, 3, 4]),
        (2, f"""
         inthreads.async (p == 0) {{ foreach i in [4] {{ wait full; {OUT} trigger free; }} }}
         inthreads.async (p == 1) {{
           {ACC} foreach i in [4] {{ mma.row.row acc, s, u; wait free; mma.store acc, o; trigger full; }}
         }}
         """, [1, 2, 3, 4]),
        (1, f"{ACC} mma.row.row acc, s, u;"
         " foreach i in [4] { mma.fill acc, 0.0f; if (i == C / 256) { break; } mma.row.row acc, s, u; }"
         " mma.store acc, c.subspan(64, 64).at(0, 0); ", [0]),
        (1, f"{ACC} foreach i in [6] {{ if (i % 2 == 1) {{ continue; }} f = mma.row.row.async acc, s, u; wait f; }}"
         " mma.store acc, c.subspan(64, 64).at(0, 0);", [3]),
        (1, f"{ACC} other = mma.fill.f32 0.0f; f = mma.row.row.async acc, s, u;"
         " if (C > 3) { g = mma.row.row.async other, s, u; wait f; mma.row.row acc, s, u; wait g; } else { wait f; }"
         " mma.row.row acc, s, u; mma.store acc, c.subspan(64, 64).at(0, 0);", [3]),
        (2, f"""{ACC} inthreads (p == 0) {{ mma.row.row acc, s, u; }}
         if (C == 256) {{ inthreads.async (p == 0) {{ mma.store acc, c.subspan(64, 64).at(0, 0); }} }}""", [1]),
    ],
    ids=["store-in-loop", "apply-then-store", "store-under-if", "store-by-another-role", "fill-then-break", "continue",
         "branches", "sync-role"],
)  # fmt: skip
def test_mma(count: int, body: str, want: list[int]) -> None:
    events = "shared event full; shared event free = ready;" if "wait full" in body else ""
    kernel = lower(warpgroups(count, body, LOADED + events, params=AB))
    check(kernel, {"a": A, "b": B, "c": C}, {"c": rows({64 * n: k * ONE for n, k in enumerate(want)}, C)})


def test_operands_written_by_threads() -> None:
    body = "foreach i in [64] { if (t < 64) { s.at(i, t) = a.at(i, t); u.at(i, t) = b.at(i, t); } }" + ACC
    body += "mma.row.row acc, s, u; mma.store acc, o; tma.copy o => c.subspan(64, 64).at(0, 0);"
    declared = "shared f16 [64, 64] s; shared f16 [64, 64] u; shared f32 [64, 64] o;"
    check(lower(warpgroups(1, body, declared, params=AB)), {"a": A, "b": B, "c": C}, {"c": rows({0: ONE}, C)})


def test_three_dimensional_tiles() -> None:
    params = "global bf16 [B, S, 64] q, global bf16 [B, S, 64] r"
    q, r = draw(4, 40, 64, dtype=ml_dtypes.bfloat16), np.zeros((4, 40, 64), ml_dtypes.bfloat16)
    for width in (32, 128):
        body = f"tma.load.swiz<{width}> q.subspan(2, 16, 64).at(1, 1, 0) => s;"
        body += "tma.copy s => r.subspan(2, 16, 64).at(0, 0, 0);"
        want = np.zeros(r.shape)
        want[:2, :16] = q[2:4, 16:32]
        check(lower(warpgroups(1, body, "shared bf16 [2, 16, 64] s;", params=params)), {"q": q, "r": r}, {"r": want})
