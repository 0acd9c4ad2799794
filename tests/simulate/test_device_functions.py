"""Device functions: whatever C++ says, on lanes, fragments and memory of the simulation."""

from __future__ import annotations

import numpy as np
import pytest

from croq import services
from croq.diagnostics import CompileError, EnvironmentFault, make
from croq.simulate import SimulationFault, run

pytestmark = pytest.mark.nvrtc

PROGRAM = """
{text}
__co__ void k(global {kind} [32] x, global {kind} [32] y) {{
  parallel b by 1 : block, t by 32 : thread {{
    {body}
  }}
}}
"""


@pytest.fixture
def called(lower):
    """y = f(x) for 32 lanes; x is 0, 1, 2, .. unless given."""

    def call(text, x=None, kind="f32", body="y.at(t) = call f(x.at(t));"):
        data = np.arange(32) if x is None else x
        arrays = {name: np.array(data, {"f32": np.float32, "s32": np.int32}[kind]) for name in ("x", "y")}
        run(lower(PROGRAM.format(text=text, kind=kind, body=body)), arrays, races=True)
        return arrays["y"]

    return call


X = np.arange(32, dtype=np.float32)


def test_loops_arrays_and_templates(called):
    text = """
    template <int N>
    __device__ __forceinline__ float pairs(float x) {
      float part[2] = {0.0f, 1.0f};
      #pragma unroll
      for (int i = 0; i < N / 2; ++i) { part[0] += x; part[1] += 2.0f * x; }
      return part[0] + part[1];
    }
    __device__ float f(float x) { return pairs<8>(x); }"""
    np.testing.assert_array_equal(called(text), 12 * X + 1)


def test_shuffles_add_up_lanes(called):
    text = """
    __device__ float f(float x) {
      for (int k = 16; k > 0; k >>= 1) x += __shfl_xor_sync(0xffffffffu, x, k);
      return x;
    }"""
    np.testing.assert_array_equal(called(text), np.full(32, 496))


def test_lanes_part(called):
    text = """
    __device__ float f(float x) {
      if (x > 20.0f) return -2.0f;
      float y = 0.0f;
      for (int i = 0; i < x; ++i) { if (i == 7) break; y += i; }
      switch ((int)x) { case 1: return 100.0f; case 2: goto out; default: ; }
      return y;
    out:
      return 200.0f;
    }"""
    want = [sum(range(min(int(x), 7))) for x in X]
    want[1], want[2] = 100, 200
    np.testing.assert_array_equal(called(text), np.where(X > 20, -2, want))


def test_structures_pointers_and_assembly(called):
    text = """
    struct Pair { int a; float b; };
    __device__ __noinline__ Pair make(float x, int* count) { ++*count; return Pair{(int)x, x * 0.5f}; }
    __device__ float f(float x) {
      int count = 0; Pair (*maker)(float, int*) = nullptr; (void)maker;
      Pair p = make(x, &count); p = make(p.b, &count);
      float y; asm volatile("add.f32 %0, %1, %2;" : "=f"(y) : "f"(p.b), "f"((float)p.a));
      return y + 100.0f * count;
    }"""
    np.testing.assert_array_equal(called(text), X / 4 + np.floor(X / 2) + 200)


def test_where_it_runs_is_known(called):
    text = "__device__ int f(int x) { return threadIdx.x + 100 * blockDim.x + 10000 * blockIdx.x; }"
    np.testing.assert_array_equal(called(text, kind="s32"), np.arange(32) + 3200)


def test_pointers_to_data_move(called):
    text = "__device__ void f(float* y, const float* x, int t) { y[t] = x[t + 1] + 1.0f; }"
    got = called(text, body="if (t < 31) { call f(y, x, t); }")
    np.testing.assert_array_equal(got, [*(X[1:] + 1), 31])


def test_it_prints(called, capsys):
    text = """extern "C" __device__ int printf(const char*, ...);
    __device__ float f(float x) { if (x == 3.0f) printf("lane %d: %.1f\\n", (int)threadIdx.x, x); return x; }"""
    called(text)
    assert capsys.readouterr().out == "lane 3: 3.0\n"


def _code(call, *args, **options):
    with pytest.raises(SimulationFault) as caught:
        call(*args, **options)
    return caught.value.diagnostics[0]


def test_a_loop_that_does_not_end_is_stopped(called, monkeypatch):
    monkeypatch.setattr("croq.ptx.warp_call.STEP_LIMIT", 1000)
    found = _code(
        called, "__device__ float f(float x) { while (x < 1e30f) { x = x + 0.0f; if (x == -1.0f) break; } return x; }"
    )
    assert found.code == "E-5011" and "`f`" in found.message


def test_division_by_zero(called):
    assert _code(called, "__device__ int f(int x) { return 7 / x; }", kind="s32").code == "E-5022"


def test_what_needs_more_than_a_warp_is_refused(called):
    found = _code(called, "__device__ float f(float x) { __syncthreads(); return x; }")
    assert found.code == "E-5032" and "bar.sync" in found.message


def test_a_pointer_beyond_its_array_is_found(called):
    text = "__device__ void f(float* y, int t) { y[t + 1] = 1.0f; }"
    assert _code(called, text, body="call f(y, t);").code == "E-5012"


def test_cpp_that_the_compiler_refuses_is_said(called):
    with pytest.raises(CompileError) as caught:
        called("__device__ float f(float x) { return x + ; }")
    assert caught.value.diagnostics[0].code == "E-3010"


def test_only_programs_that_call_need_the_compiler(called, monkeypatch):
    def missing(text):
        raise EnvironmentFault([make("E-3001", None, "NVRTC is not installed")])

    monkeypatch.setattr(services, "cuda_to_ptx", missing)
    np.testing.assert_array_equal(called("", body="y.at(t) = x.at(t) + 1.0f;"), X + 1)
    with pytest.raises(EnvironmentFault):
        called("__device__ float f(float x) { return x; }")
