"""Names that C++, CUDA or the runtime have taken, in every place where a program can name something."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

import croq
from croq.diagnostics import CompileError, Diagnostic, Sink
from croq.driver.nvrtc import compile_cuda
from croq.sema import analyse
from croq.syntax import parse_program, source_text

_WORDS = """
    alignas and and_eq asm bitand bitor case catch char class compl concept const_cast consteval constinit
    co_await decltype default delete dynamic_cast enum explicit export extern friend inline long main namespace
    new noexcept not not_eq operator or or_eq private protected public register reinterpret_cast requires short
    signed sizeof static static_assert static_cast struct switch template this thread_local throw try typedef
    typeid typename union unsigned using virtual wchar_t xor xor_eq NULL assert errno std size_t ptrdiff_t
    clock_t va_list dim3 int2 float4 uint3 cudaError_t cudaStreamNonBlocking threadIdx blockIdx blockDim gridDim
    warpSize max min abs sin sinf cosf expf exp2f sqrt rsqrt fmaf fmaxf printf malloc free memcpy memset clock
    atomicAdd round floor y0 j1 tex2D make_float4 isnan __syncthreads __shfl_sync __popc __launch_bounds__
    __global__ __device__ __host__ __shared__ __restrict__ __align__ __CUDACC__ __CUDA_ARCH__ __FILE__ __LINE__
    __func__ __half __double _Under _Z1fv __nv_isinf __private croq croq_smem CROQ_FN CROQ_CUH CROQ_WATCHDOG
    smem_addr thread_id lane_id ex2 lg2 widen pack uniform elect_one register_fence wgmma_m64n64k16
    mbarrier_wait TensorMap SharedAccess bf16x2 u32x4 make_descriptor fence_proxy_async thread lane warp_row
    lane_row smem cta_sync infinity kernel f x_map buf_offset buf_stride __grid_constant__ extern_C INT_MAX
    FLT_MAX INFINITY NAN M_PI true_ linux unix i386 signbit
"""
WORDS = tuple(dict.fromkeys(_WORDS.split()))

# one program in which `@` stands for one name, `{n}` for others that are different from it
POSITIONS = {
    "function": "__co__ void @(global s32 [N] x, global s32 [N] y) { BODY y.at(t) = x.at(t) + 1; } }",
    "parameter": "__co__ void f(global s32 [N] @, global s32 [N] y) { BODY y.at(t) = @.at(t) + 1; } }",
    "scalar": "__co__ void f(global s32 [N] y, s32 @) { BODY y.at(t) = @ + 1; } }",
    "dimension": "__co__ void f(global s32 [@] x, global s32 [@] y) { BODY if (t < @) y.at(t) = x.at(t) + @; } }",
    "index": "__co__ void f(global s32 [N] y) { parallel b by 1 : block, @ by 32 : thread { y.at(@) = @ + 1; } }",
    "loop": "__co__ void f(global s32 [N] y) { BODY foreach {@} in [N] { y.at(t) = @ + t; } } }",
    "variable": "__co__ void f(global s32 [N] y) { BODY mutable s32 @ = t; @ += 3; @++; y.at(t) = @; } }",
    "constant": "__co__ void f(global s32 [N] x, global s32 [N] y) { BODY @ = x.at(t); y.at(t) = @ * @; } }",
}  # fmt: skip
BODY = "parallel b by 1 : block, t by 32 : thread {"
TILES = """
__co__ void f(global bf16 [M, K] a, global f32 [M, 64] c) {
  parallel bm by [cdiv(M, 64)] : block {
    shared bf16 [64, 64] BUFFER[2];
    shared event EVENT[2], empty[2] = ready;
    parallel p by 2 : group-4, t by 128 : thread {
      inthreads.async (p == 0) {
        foreach {k} in [cdiv(K, 64)] {
          wait empty.at(k);
          FUTURE = tma.load.async.swiz<128> a.subspan(64, 64).at(bm, k) => BUFFER[k % 2];
          trigger EVENT.at(k) after FUTURE;
        }
      }
      inthreads.async (p == 1) {
        ACC = mma.fill.f32 0.0f;
        frag f32 [64] FRAGMENT {-inf};
        foreach {k} in [cdiv(K, 64)] {
          wait EVENT.at(k);
          OPERATION = mma.row.row.async ACC, BUFFER[k % 2], BUFFER[k % 2];
          wait OPERATION;
          trigger empty.at(k);
        }
        reduce_max(FRAGMENT, ACC, 1);
        apply {i, j} in ACC.span
          ACC.at(i, j) = ACC.at(i, j) - FRAGMENT.at(i);
        mma.store ACC, c.subspan(64, 64).at(bm, 0);
      }
    }
  }
}
"""
ROLES = ("BUFFER", "EVENT", "FUTURE", "ACC", "FRAGMENT", "OPERATION")


def faults(text: str) -> list[Diagnostic]:
    """What the front end says of a program."""
    try:
        sink = Sink()
        analyse(parse_program(source_text("t.co", text), {}, sink), sink)
    except CompileError as fault:
        return list(fault.diagnostics)
    return [d for d in sink.diagnostics if d.severity == "error"]


def in_place(place: str, word: str) -> str:
    return POSITIONS[place].replace("BODY", BODY).replace("@", word)


def in_roles(words: Sequence[str]) -> str:
    names = dict(zip(ROLES, words, strict=True))
    return re.sub("|".join(ROLES), lambda match: names[match[0]], TILES)


def numbered(programs: Iterable[str]) -> str:
    return "\n".join(text.replace("void f(", f"void f_{i}(") for i, text in enumerate(programs))


FREE = tuple(word for word in WORDS if not faults(in_place("constant", word)))  # not words of the language itself


@pytest.mark.parametrize("place", POSITIONS)
def test_what_cpp_reserves_is_emitted_under_another_name(place: str) -> None:
    """Every word that the language leaves free, in a kernel of its own, all in one file that NVRTC reads to its end."""
    assert len(FREE) > 150
    check_cpp(croq.compile(numbered(in_place(place, word) for word in FREE)).cuda)


def test_what_cpp_reserves_may_name_tiles_events_futures_and_fragments() -> None:
    """Every free word in every role, six of them in a kernel."""
    chosen = [FREE[i:] + FREE[:i] for i in range(0, len(FREE), len(ROLES))]
    turned = [words[k:6] + words[:k] for words in chosen for k in range(len(ROLES))]
    check_cpp(croq.compile(numbered(in_roles(words) for words in turned)).cuda)


@pytest.mark.parametrize("place", [*POSITIONS, *ROLES])
def test_words_of_the_language_are_refused_where_they_stand(place: str) -> None:
    for word in sorted(set(WORDS) - set(FREE)):
        others = [f"n{i}" if role != place else word for i, role in enumerate(ROLES)]
        found = faults(in_place(place, word) if place in POSITIONS else in_roles(others))
        assert [f.span and f.span.text for f in found] == [word], [f.render() for f in found]
        assert found[0].code in ("E-200", "E-2010"), found[0].render()


def test_the_launch_knows_the_entry_by_the_name_that_it_was_given() -> None:
    made = croq.compile(in_place("function", "max"))
    assert [kernel.name for kernel in made.devices] == ["max"]
    assert [kernel.entry_name for kernel in made.devices] == ["max_2"]
    assert made.plan[0]["kernel"] == "max"
    assert b"max_2" in made.cubin
    x, y = np.arange(32, dtype=np.int32), np.zeros(32, dtype=np.int32)
    croq.simulate(made, x, y, level="ptx")
    assert y.tolist() == list(range(1, 33))


def check_cpp(cuda: str) -> None:
    log = cpp_log(cuda)
    assert log.count("error[") == 1 and "the end" in log, log[:3000]


def cpp_log(cuda: str) -> str:
    """What NVRTC says of emitted text, without making code of it: an error of our own stands at its end."""
    with pytest.raises(CompileError) as caught:
        compile_cuda(cuda + '\nstatic_assert(false, "the end");\n')
    return str(caught.value)
