"""The device prelude compiles whole, without spills or remarks, and its arithmetic is what its comments say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from croq.diagnostics import CompileError
from croq.driver.nvrtc import Compiled, compile_cuda, compile_ptx, prelude
from croq.target.sm90.instructions import Wgmma, register_fence

pytestmark = pytest.mark.nvrtc
HERE = Path(__file__).parent
INCLUDE = '#include "croq.cuh"\n'


@pytest.fixture(scope="module")
def source() -> str:
    text = (HERE / "uses_prelude.cu").read_text()
    return text.replace(INCLUDE, INCLUDE + Wgmma(128, False, "bf16", "bf16").wrapper + register_fence(64))


@pytest.fixture(scope="module")
def compiled(source: str) -> Compiled:
    return compile_cuda(source)


def prelude_functions() -> set[str]:
    return set(re.findall(r"^(?:__host__ )?CROQ_FN (?:constexpr )?[\w:]+ (\w+)\(", prelude()["croq.cuh"], re.M))


def test_the_test_kernel_uses_every_function(source: str) -> None:
    names = prelude_functions()
    assert len(names) > 80
    unused = {name for name in names if not re.search(rf"croq::{name}\b", source)}
    assert not unused


def test_everything_compiles_without_spills_or_remarks(compiled: Compiled) -> None:
    assert [u.name for u in compiled.usage if u.spill_stores or u.spill_loads or u.stack_bytes] == []
    assert {u.name for u in compiled.usage} == {"arithmetic", "memory", "roles"}
    assert compiled.warnings == ()
    assert compiled.cubin[:4] == b"\x7fELF"


def test_the_front_end_has_nothing_to_say(compiled: Compiled) -> None:
    assert "warning" not in compiled.log


def test_every_function_cites_its_instruction() -> None:
    """The comment over a function that holds PTX names the section; overloads share one comment."""
    text = prelude()["croq.cuh"]
    blocks = re.split(r"\n\n", text)
    missing = [b.splitlines()[0] for b in blocks if "asm" in b and "CROQ_FN" in b and "PTX ISA" not in b and "//" in b]
    allowed = ("// The same, but only until", "// `value`, but computed", "struct f8_e5m2", "// A value")
    assert [line for line in missing if not line.startswith(allowed)] == []


def test_the_watchdog_replaces_the_blocking_loop() -> None:
    body = INCLUDE + 'extern "C" __global__ void k(unsigned a) { croq::mbarrier_wait(a, 0); }'
    assert "trap;" not in compile_ptx(body)
    assert "trap;" in compile_ptx(body, options=["-DCROQ_WATCHDOG=1000000000"])


@pytest.mark.parametrize("count", [16, 260, 100])
def test_setmaxnreg_refuses_what_the_isa_does(count: int) -> None:
    body = f'extern "C" __global__ void k() {{ croq::setmaxnreg_inc<{count}>(); }}'
    with pytest.raises(CompileError, match="steps of 8"):
        compile_cuda(INCLUDE + body)
