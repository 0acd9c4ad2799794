"""An architecture is a value: budgets, legality, printed IR and messages follow it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from croq.compiler import compile_file, resume
from croq.diagnostics import CompileError, Diagnostic, InternalError
from croq.ir.hw import SetMaxNReg
from croq.ir.parser import parse_kernel
from croq.ir.printer import print_kernel
from croq.ir.types import BYTES
from croq.ir.verify import verify
from croq.settings import Settings
from croq.source import SourceFile
from croq.stages import Stages
from croq.target import TARGETS, cuda, fragments
from croq.target.sm90 import SM_90A
from croq.target.sm90.wgmma import K_BYTES, WGMMA
from croq.texts import load
from tests.conftest import ROOT

SMALL = replace(
    SM_90A,
    name="sm_small",
    shared_bytes=64 * 1024,
    registers=32768,
    register_requests=range(24, 129, 8),
    named_barriers=4,
    tensor_core=replace(WGMMA, n=range(8, 65, 8), elements={"bf16": WGMMA.elements["bf16"]}),
)
PROGRAMS = ROOT / "tests" / "programs"


@pytest.fixture(autouse=True)
def _another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, SMALL.name, SMALL)


def compiled(program: str, arch: str = SMALL.name, **defines: int) -> Stages:
    """Never recalled: another test's target of this name may have been another one."""
    return compile_file(load(PROGRAMS / program), Settings.of(defines, arch=arch), lambda name, kernel: None)


def refused(program: str, **defines: int) -> Diagnostic:
    compiled(program, SM_90A.name, **defines)
    with pytest.raises(CompileError) as error:
        compiled(program, SMALL.name, **defines)
    return error.value.diagnostics[0]


def test_shared_memory_has_the_size_of_the_target() -> None:
    found = refused("gemm_wide.co", TILE_N=64, STAGES=3)
    assert found.code == "E-324"
    assert f"more than the {64 * 1024} of a CTA" in found.message


def test_the_tensor_core_decides_which_tiles_there_are() -> None:
    found = refused("gemm_wide.co", STAGES=1)
    assert (found.code, found.message, found.notes) == ("E-1113", "N is 96", ("it is a multiple of 8, at most 64",))


def requests(*counts: int, arch: str) -> list[Diagnostic]:
    """What is said of warpgroups that ask for so many registers: the first for fewer than it has."""
    calls = (f"call croq::cuda::setreg_{'inc' if i else 'dec'}({count});" for i, count in enumerate(counts))
    roles = (f"inthreads (p == {i}) {{ {call} }}" for i, call in enumerate(calls))
    body = f"parallel p by {len(counts)} : group-4, t by 128 : thread {{ {' '.join(roles)} }}"
    file = SourceFile("t.co", f"__co__ void k(global f32 [4] x) {{\n{body}\n}}\n")
    try:
        compile_file(file, Settings.of(arch=arch), lambda name, kernel: None)
    except CompileError as error:
        return list(error.diagnostics)
    return []


def test_register_requests_are_those_of_the_target() -> None:
    assert requests(40, 160, arch=SM_90A.name) == []
    (found,) = requests(40, 160, arch=SMALL.name)
    assert (found.code, found.notes) == ("E-1202", ("the hardware takes multiples of 8 from 24 to 128",))


def test_warpgroups_share_the_registers_of_the_target() -> None:
    assert requests(40, 112, 112, arch=SM_90A.name) == []
    (found,) = requests(40, 112, 112, arch=SMALL.name)
    assert found.code == "E-2401" and "the CTA has 240" in found.message


def test_events_leave_named_barriers_where_there_are_few() -> None:
    def named(arch: str) -> list[int]:
        (kernel,) = compiled("barrier_ids.co", arch).module.kernels
        return [event.barrier_id for event in kernel.events if event.barrier_id is not None]

    assert named(SM_90A.name) and not named(SMALL.name)


def test_kernels_print_and_parse_with_their_target() -> None:
    kernel = compiled("gemm_wide.co", TILE_N=64, STAGES=1).module.kernels[0]
    text = print_kernel(kernel)
    assert kernel.target is SMALL and "arch=sm_small" in text.splitlines()[0]
    again = parse_kernel(text)
    assert again.target is SMALL and print_kernel(again) == text
    assert "arch" not in print_kernel(compiled("gemm_wide.co", SM_90A.name).module.kernels[0]).splitlines()[0]


def test_resumed_ir_is_held_to_its_target() -> None:
    text = compiled("gemm_wide.co", SM_90A.name, TILE_N=64, STAGES=3).ir
    head, rest = text.split("\n", 1)
    file = SourceFile("t.cir", head.replace(" {", ", arch=sm_small {") + "\n" + rest)
    with pytest.raises(CompileError) as error:
        resume(file, ["shared-memory"])
    assert error.value.diagnostics[0].code == "E-324"


def test_ir_of_an_unknown_target_is_refused() -> None:
    with pytest.raises(CompileError, match="sm_90a, sm_small"):
        parse_kernel("kernel k file=t.co, grid=(1, 1, 1), threads=32, arch=sm_1 {\n}\n")


def test_the_verifier_asks_the_target_about_machine_operations() -> None:
    kernel = parse_kernel(
        "kernel k file=t.co, grid=(1, 1, 1), threads=128, arch=sm_small {\n"
        "  setmaxnreg inc, count=160 by registers.R1\n}\n"
    )
    assert isinstance(kernel.body.ops[0], SetMaxNReg)
    with pytest.raises(InternalError, match="setmaxnreg of 160"):
        verify(kernel, "hw")
    kernel.arch = SM_90A.name
    verify(kernel, "hw")


def test_unknown_architectures_are_refused_with_those_that_there_are() -> None:
    with pytest.raises(CompileError) as error:
        Settings.of(arch="sm_80")
    assert error.value.diagnostics[0].hint == "use one of sm_90a, sm_small"


def test_a_warpgroup_is_four_warps() -> None:
    assert cuda.WARPGROUP == 4 * cuda.WARP


def test_a_block_of_rows_is_what_one_instruction_computes() -> None:
    assert WGMMA.m == fragments.ROWS


def test_one_instruction_multiplies_32_bytes_along_k() -> None:
    assert {element.k * BYTES[name] for name, element in WGMMA.elements.items()} == {K_BYTES}
