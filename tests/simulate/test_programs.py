"""Programs in the language against NumPy: control flow that differs between lanes, layouts, fragments, data types."""

import ml_dtypes
import numpy as np
import pytest

import croq
from croq.simulate import run as simulate

SCHEDULES = ["eager", "lazy", "random:1"]


@pytest.fixture(params=SCHEDULES)
def check(request, lower):
    """Runs a program and compares what it wrote with float64 expectations."""

    def run(text, arrays, want, tolerance=0.0, scalars=None):
        arrays = {name: array.copy() for name, array in arrays.items()}
        simulate(lower(text), arrays, scalars, schedule=request.param, races=True)
        for name, values in want.items():
            np.testing.assert_allclose(arrays[name].astype(np.float64), values, atol=tolerance, rtol=0)

    return run


def _steps(n):
    count = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
        if count == 40:
            break
    return count


def test_while_and_break_of_single_lanes(check):
    x = np.random.default_rng(0).integers(0, 50, 1000).astype(np.int32)
    check(
        """
        __co__ void f(global s32 [N] x, global s32 [N] y) {
          parallel b by cdiv(N, 100) : block, t by 100 : thread {
            i = b # t;
            if (i < N) {
              mutable int n = x.at(i);
              mutable int c = 0;
              while (n > 1) {
                if (n % 2 == 0) n = n / 2; else n = 3 * n + 1;
                c = c + 1;
                if (c == 40) break;
              }
              y.at(i) = c;
            }
          }
        }""",
        {"x": x, "y": np.zeros_like(x)},
        {"y": [_steps(int(n)) for n in x]},
    )


def test_loops_of_different_length_with_continue(check):
    x = np.random.default_rng(1).integers(0, 50, 200).astype(np.int32)
    check(
        """
        __co__ void f(global s32 [N] x, global s32 [N] y) {
          parallel b by cdiv(N, 64) : block, t by 64 : thread {
            i = b # t;
            if (i < N) {
              mutable int s = 0;
              foreach {k} in [x.at(i)] {
                if (k % 3 == 0) continue;
                if (k > 30) break;
                s = s + k;
              }
              y.at(i) = s;
            }
          }
        }""",
        {"x": x, "y": np.zeros_like(x)},
        {"y": [sum(k for k in range(n) if k % 3 and k <= 30) for n in x]},
    )


def test_transpose_of_ragged_tiles_through_shared_memory(check, draw):
    x = draw((100, 96))
    check(
        """
        __co__ void f(global f32 [M, N] x, global f32 [N, M] y) {
          parallel {bi, bj} by [cdiv(M, 32), cdiv(N, 32)] : block {
            s = dma.copy x.subspan(32, 32).at(bi, bj) => shared;
            parallel {i, j} by [32, 8] : thread {
              foreach {k} in [4] {
                r = bj * 32 + k * 8 + j;
                c = bi * 32 + i;
                if (r < N && c < M) y.at(r, c) = s.at(i, k * 8 + j);
              }
            }
          }
        }""",
        {"x": x, "y": np.zeros((96, 100), np.float32)},
        {"y": x.T},
    )


def test_partial_sums_across_a_barrier(check, draw):
    x = draw((8, 250))
    check(
        """
        __co__ void f(global f32 [M, N] x, global f32 [M] y) {
          parallel b by M : block {
            shared f32 [128] part;
            parallel t by 128 : thread {
              mutable float s = 0.0f;
              foreach {k} in [cdiv(N, 128)] {
                j = k * 128 + t;
                if (j < N) s = s + x.at(b, j);
              }
              part.at(t) = s;
              sync.shared;
              if (t == 0) {
                mutable float total = 0.0f;
                foreach {k} in [128] total = total + part.at(k);
                y.at(b) = total;
              }
            }
          }
        }""",
        {"x": x, "y": np.zeros(8, np.float32)},
        {"y": x.astype(np.float64).sum(1)},
        1e-4,
    )


@pytest.mark.parametrize(("type_", "columns"), [("f8_e4m3", 128), ("f8_e5m2", 128), ("f16", 64), ("bf16", 32)])
def test_gemm_of_other_types(check, draw, type_, columns):
    a, b = draw((128, 256), type_), draw((192, 256), type_)
    swizzle = 64 if columns == 32 else 128
    check(
        f"""
        __co__ void f(global {type_} [M, K] a, global {type_} [N, K] b, global f32 [M, N] c) {{
          parallel {{bm, bn}} by [cdiv(M, 64), cdiv(N, 64)] : block {{
            parallel w by 1 : group-4 {{
              acc = mma.fill.f32 0.0f;
              foreach {{k}} in [cdiv(K, {columns})] {{
                sa = tma.load.swiz<{swizzle}> a.subspan(64, {columns}).at(bm, k) => shared;
                sb = tma.load.swiz<{swizzle}> b.subspan(64, {columns}).at(bn, k) => shared;
                mma.row.row acc, sa, sb;
              }}
              mma.store acc, c.subspan(64, 64).at(bm, bn);
            }}
          }}
        }}""",
        {"a": a, "b": b, "c": np.zeros((128, 192), np.float32)},
        {"c": a.astype(np.float64) @ b.astype(np.float64).T},
        1e-4,
    )


def test_row_values_inside_a_map_over_elements(check, draw):
    """A reduction that is recognised, one that is not (order matters), a condition, an intermediate value."""
    a, b = draw((64, 64), "bf16"), draw((64, 64), "bf16")
    product = a.astype(np.float64) @ b.astype(np.float64).T
    shifted = product - product.max(1, keepdims=True)
    lanes = shifted.reshape(64, 8, 4, 2).transpose(0, 2, 1, 3).reshape(64, 4, 16)  # a lane's own columns in order
    decayed = np.zeros((64, 4))
    for column in range(16):
        decayed = decayed * 0.5 + lanes[:, :, column]
    check(
        """
        __co__ void f(global bf16 [64, 64] a, global bf16 [64, 64] b,
                      global f32 [64] most, global f32 [64] sum, global f32 [64] last, global f32 [64, 64] c) {
          parallel z by 1 : block {
            sa = dma.copy.swiz<128> a => shared;
            sb = dma.copy.swiz<128> b => shared;
            parallel w by 1 : group-4 {
              frag f32 [64] m {-inf};
              frag f32 [64] s {0.0f};
              frag f32 [64] d {0.0f};
              acc = mma.fill.f32 0.0f;
              mma.row.row acc, sa, sb;
              reduce_max(m, acc, 1);
              apply {i, j} in acc.span {
                v = acc.at(i, j) - m.at(i);
                if (j % 2 == 0) { acc.at(i, j) = v * 2.0f; } else acc.at(i, j) = v;
                s.at(i) = s.at(i) + __exp(v);
                d.at(i) = d.at(i) * 0.5f + v;
              }
              all_reduce_sum(s);
              all_reduce_sum(d);
              mma.store m, most;
              mma.store s, sum;
              mma.store d, last;
              mma.store acc, c;
            }
          }
        }""",
        {
            "a": a,
            "b": b,
            **{n: np.zeros(64, np.float32) for n in ("most", "sum", "last")},
            "c": np.zeros((64, 64), "f4"),
        },
        {
            "most": product.max(1),
            "sum": np.exp(shifted).sum(1),
            "last": decayed.sum(1),
            "c": np.where(np.arange(64) % 2 == 0, 2, 1) * shifted,
        },
        1e-4,
    )


def test_fragment_without_an_mma(check, draw):
    x = draw((250,))
    check(
        """
        __co__ void f(global f32 [N] x, global f32 [N] y) {
          parallel b by cdiv(N, 100) : block {
            parallel w by 1 : group-4 {
              frag f32 [100] r {1.0f};
              apply {i} in r.span {
                if (b * 100 + i < N) r.at(i) = r.at(i) + x.at(b * 100 + i) * 2.0f;
              }
              mma.store r, y.subspan(100).at(b);
            }
          }
        }""",
        {"x": x, "y": np.zeros(250, np.float32)},
        {"y": 1 + 2 * x.astype(np.float64)},
        1e-6,
    )


def test_local_buffers_belong_to_a_thread(check, draw):
    x = draw((200,))
    check(
        """
        __co__ void f(global f32 [N] x, global f32 [N] y) {
          parallel b by cdiv(N, 64) : block, t by 64 : thread {
            local f32 [4] h {0.0f};
            i = b # t;
            foreach {k} in [8] { if (i + k < N) h.at(k % 4) = h.at(k % 4) + x.at(i + k); }
            if (i < N) y.at(i) = h.at(0) + h.at(1) * 2.0f + h.at(2) * 3.0f + h.at(3) * 4.0f;
          }
        }""",
        {"x": x, "y": np.zeros(200, np.float32)},
        {"y": [sum(float(x[i + k]) * (k % 4 + 1) for k in range(8) if i + k < 200) for i in range(200)]},
        1e-5,
    )


@pytest.mark.parametrize("extent", [1, 31, 64, 65])
def test_arrays_of_any_strides(lower, extent):
    text = """
    __co__ void f(global f32 [N, M] x, global f32 [N, M] y) {
      parallel b by cdiv(N, 64) : block, t by 64 : thread {
        i = b # t;
        if (i < N) { foreach {j} in [M] y.at(i, j) = x.at(i, j) + 1.0f; }
      }
    }"""
    x = np.arange(3 * extent, dtype=np.float32).reshape(3, extent).T
    y = np.zeros((extent, 6), np.float32)[:, ::2]
    simulate(lower(text), {"x": x, "y": y})
    assert (y == x + 1).all()


def test_16_bit_results_are_rounded_once(check):
    x = np.linspace(-3, 3, 512, dtype=np.float32)
    check(
        """
        __co__ void f(global f32 [N] x, global bf16 [N] y) {
          parallel b by cdiv(N, 128) : block, t by 128 : thread {
            i = b # t;
            if (i < N) y.at(i) = __to<bf16>(x.at(i) * 1.5f);
          }
        }""",
        {"x": x, "y": np.zeros(512, ml_dtypes.bfloat16)},
        {"y": (x * np.float32(1.5)).astype(ml_dtypes.bfloat16).astype(np.float64)},
    )


def test_a_variable_of_the_thread_keeps_what_its_last_element_assigns(check):
    """Thread t owns the elements t, t + 128, t + 256; some of them assign."""
    x = np.random.default_rng(2).integers(-9, 10, (3, 128)).astype(np.float32)
    last = [next((row[t] for row in x[::-1] if row[t] > 3), -1) for t in range(128)]
    check(
        """
        __co__ void f(global f32 [384] x, global f32 [128] y) {
          parallel q by 1 : block, t by 128 : thread {
            frag f32 [384] part;
            mutable f32 seen = -1.0f;
            apply {i} in part.span
              part.at(i) = x.at(i);
            apply {i} in part.span {
              if (part.at(i) > 3.0f)
                seen = part.at(i);
            }
            y.at(t) = seen;
          }
        }""",
        {"x": x.reshape(384), "y": np.zeros(128, np.float32)},
        {"y": last},
    )


@pytest.mark.parametrize(("body", "line"), [("s = s + a.at(i);", 6), ("{ s = a.at(i);\n a.at(i) = s; }", 7)])
def test_a_variable_that_elements_hand_on_is_refused_at_its_line(body, line):
    text = (
        "__co__ void f(global f32 [N] x) {\nparallel b by 1 : block, t by 32 : thread {\nfrag f32 [64] a {0.0f};\n"
        "mutable f32 s = 0.0f;\napply {i} in a.span\n" + body + "\nx.at(t) = s;\n}\n}\n"
    )
    with pytest.raises(croq.CroqError) as refused:
        croq.simulate(croq.compile(text), np.zeros(32, np.float32))
    found = refused.value.diagnostics[0]
    assert found.span is not None
    assert (found.code, found.span.line) == ("E-5030", line)
