"""Device functions: what is read, what it computes, and what is refused."""

import numpy as np
import pytest

from croq.simulate import cfunc
from croq.simulate.cexec import Library
from croq.simulate.cnodes import Unsupported
from croq.simulate.cvalues import Lanes, Pointer


class _Cta:
    limit = 10_000
    block = (3, 1, 0)
    watch = None


class _Warp:
    cta = _Cta()
    steps = 0
    index = 1
    threads = 32 + np.arange(32)


def call(text, name, *args, template=()):
    """Call a function; arrays of f32 are passed as pointers to lane arrays."""
    library = Library(text)
    types, values = [], []
    for arg in args:
        if isinstance(arg, np.ndarray) and arg.ndim == 2:
            types.append("f32*")
            values.append(Pointer(Lanes(arg, "f32", "x")))
        else:
            types.append("s32" if isinstance(arg, int) or getattr(arg, "dtype", None) == np.int32 else "f32")
            values.append(arg)
    return library.find(name, template, tuple(types))[1](_Warp(), values, None)


def test_loops_arrays_and_compound_assignment():
    text = """
    template <int N>
    __device__ __forceinline__ void pairs(float* out, const float* in) {
      float part[2] = {0.0f, 1.0f};
      #pragma unroll
      for (int i = 0; i < N / 2; ++i) {  // two sums
        part[0] += in[2 * i];
        part[1] += in[2 * i + 1];
      }
      out[0] = part[0];
      out[1] = part[1] - 1.0f;
    }"""
    data, out = np.random.default_rng(0).random((32, 8), np.float32), np.zeros((32, 2), np.float32)
    call(text, "pairs", out, data, template=(8,))
    np.testing.assert_allclose(out, np.stack([data[:, ::2].sum(1), data[:, 1::2].sum(1)], 1), rtol=1e-6)


def test_shuffle_adds_up_lanes():
    text = """
    __device__ float total(float x) {
      for (int k = 16; k > 0; k >>= 1) x += __shfl_xor_sync(0xffffffffu, x, k);
      return x;
    }"""
    assert (call(text, "total", np.arange(32, dtype=np.float32)) == 496).all()


def test_divergent_if_and_conditional():
    text = """
    __device__ float f(float x) {
      float y = 0.0f;
      if (x > 3.0f && x < 10.0f) { y = x * 2.0f; } else if (x >= 10.0f) y = -1.0f;
      return x == 0.0f ? 7.0f : y;
    }"""
    x = np.arange(32, dtype=np.float32)
    want = np.where(x == 0, 7, np.where((x > 3) & (x < 10), 2 * x, np.where(x >= 10, -1, 0)))
    assert (call(text, "f", x) == want).all()


def test_integer_arithmetic_is_c():
    text = """
    static __device__ inline int g(int a, int b) { return a / b * 100 + a % b; }
    __device__ int f(int a) { int s = 0; while (a > 0) { s += g(a, 3); a -= 4; if (s > 100000) break; } return -s / 7; }
    """
    want, a = 0, 11
    while a > 0:
        want += a // 3 * 100 + a % 3
        a -= 4
    assert call(text, "f", 11) == -(want // 7)


def test_unsigned_literals_wrap():
    assert call("__device__ unsigned f(int a) { return 0xffffffffu + 2u * (unsigned)a; }", "f", 1) == 1


def test_pointers_move():
    text = """
    __device__ void f(float* x) {
      float* y = x + 2; *y = 5.0f; y[1] = x[0]; ++x[0];
      float* z = &x[3]; z[0] *= 2.0f;
    }"""
    x = np.ones((32, 4), np.float32)
    call(text, "f", x)
    assert (x == [2, 1, 5, 2]).all()


def test_types_of_templates_are_deduced():
    text = """
    template <typename T> __device__ T twice(T x) { return x + x; }
    __device__ float f(float x) { return twice(x) + twice<float>(1.5f) + float(twice(3)); }"""
    assert call(text, "f", np.float32(1)) == 11


def test_thread_and_block_index():
    assert (call("__device__ int f() { return threadIdx.x + 100 * blockIdx.x; }", "f") == 332 + np.arange(32)).all()


@pytest.mark.parametrize(
    ("body", "construct"),
    [
        ('asm volatile("nop;"); return x;', "asm"),
        ("switch (1) { } return x;", "switch"),
        ("goto out; out: return x;", "goto"),
        ("return frob(x);", "frob"),
        ("for (int i = 0; i < x; ++i) {} return x;", "lanes leave"),
        ("if (x > 3.0f) return x; return 0.0f;", "return"),
        ("float** p; return x;", "pointer to a pointer"),
        ("return nothing + x;", "nothing"),
        ("return *reinterpret_cast<float*>(&x);", "reinterpret_cast"),
        ("while (true) {} return x;", "does not end"),
        ("return x % 2.0f;", "%"),
    ],
)
def test_what_is_refused_is_named(body, construct):
    with pytest.raises(Unsupported, match=construct.replace("*", r"\*")):
        call(f"__device__ float f(float x) {{ {body} }}", "f", np.arange(32, dtype=np.float32))


def test_one_unreadable_function_does_not_hide_the_others():
    text = "struct S { int a; };\n__device__ int bad(S s) { return s.a; }\n__device__ int good(int x) { return x + 1; }"
    assert isinstance(cfunc.functions(text)["bad"], Unsupported)
    assert call(text, "good", 4) == 5


def test_index_beyond_an_array():
    with pytest.raises(IndexError, match="part"):
        call("__device__ void f() { float part[2]; for (int i = 0; i < 3; ++i) part[i] = 1.0f; }", "f")
