"""Hardware IR in, CUDA out: recorded text, and what the compiler says to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from croq.driver.nvrtc import compile_cuda
from tests.emit.samples import SAMPLES, cuda, function_of

if TYPE_CHECKING:
    from tests.conftest import Golden

THREADS = {"pipeline": 256}

# what the samples call
HELPERS = """
template <int N, class T> __device__ croq::u32 helper(croq::u32 a, croq::u32* p) { return p[a] * N; }
__device__ void helper(croq::u32) {}
__device__ void touch(float* a, float* b, const float* c) { *b = *a + *c; }
"""


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_text(name: str, golden: Golden) -> None:
    golden(function_of(cuda(*SAMPLES[name], threads=THREADS.get(name, 128))), suffix=".cu")


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_the_text_is_the_same_every_time(name: str) -> None:
    assert cuda(*SAMPLES[name]) == cuda(*SAMPLES[name])


@pytest.mark.nvrtc
@pytest.mark.parametrize(("name", "lineinfo"), [*((name, False) for name in sorted(SAMPLES)), ("maps", True)])
def test_it_compiles_without_spills_and_remarks(name: str, lineinfo: bool) -> None:
    text = cuda(*SAMPLES[name], threads=THREADS.get(name, 128), lineinfo=lineinfo)
    compiled = compile_cuda(text.replace('#include "croq.cuh"', '#include "croq.cuh"' + HELPERS), lineinfo=lineinfo)
    assert [w.message for w in compiled.warnings] == []
    assert all(u.spill_stores == u.spill_loads == u.stack_bytes == 0 for u in compiled.usage)
