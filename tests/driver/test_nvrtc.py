"""Compiling, the messages of failures, and reading the compiler's log."""

from __future__ import annotations

import pytest

from croq.diagnostics import CompileError, EnvironmentFault
from croq.driver import bindings, disassemble
from croq.driver.nvrtc import compile_cuda, compile_ptx
from croq.driver.ptxas_log import KernelUsage, parse_usage, parse_warnings
from croq.source import SourceFile, Span

LOG = """\
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register requirements.
ptxas info    : (C7517) wgmma.wait_group is injected in around line 126 by compiler to allow use of registers defined \
by GMMA in function 'a'
ptxas info    : (C7517) wgmma.wait_group is injected in around line 140 by compiler to allow use of registers defined \
by GMMA in function 'a'
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient \
register resources for the wgmma pipeline in the function 'a' in line 148
ptxas info    : 4 bytes gmem
ptxas info    : Compiling entry function 'a' for 'sm_90a'
ptxas info    : Function properties for a
ptxas         .     2200 bytes stack frame, 2120 bytes spill stores, 2740 bytes spill loads
ptxas info    : Function properties for helper
ptxas         .     8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 2200 bytes cumulative stack size, 32 bytes smem
ptxas info    : Compile time = 106.202 ms
ptxas info    : Compiling entry function 'b' for 'sm_90a'
ptxas info    : Function properties for b
ptxas         .     16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, 384 bytes cmem[0]
"""


def test_usage_is_read_for_each_kernel() -> None:
    assert parse_usage(LOG) == (
        KernelUsage("a", 168, 2120, 2740, 2200, 3, 32),
        KernelUsage("b", 10, 0, 0, 16, 0),
    )


def test_each_loss_is_one_warning() -> None:
    warnings = parse_warnings(LOG)
    assert [w.code for w in warnings] == ["W-3001", "W-3002", "W-3003", "W-3004", "W-3004"]
    assert all(w.severity == "warning" for w in warnings)
    assert "C7508" in warnings[2].message
    assert "adds synchronisation" in warnings[3].message
    assert "one at a time" in warnings[4].message


def test_remarks_name_lines_of_the_ptx() -> None:
    file = SourceFile("a.co", "x\n" * 200)
    spans = [w.span and w.span.start for w in parse_warnings(LOG, lambda line: Span(file, line, line + 1))]
    assert spans == [None, None, None, 126, 148]


def test_a_clean_log_has_no_warning() -> None:
    assert parse_warnings("ptxas info    : Compile time = 106.202 ms\n") == ()


@pytest.mark.nvrtc
def test_an_error_points_at_the_line_that_line_directives_name() -> None:
    origin = SourceFile("v4.co", "one\n  two three\nfour\n")
    text = 'extern "C" __global__ void k(float* p) {\n#line 2 "v4.co"\n  p[0] = nowhere;\n}\n'
    with pytest.raises(CompileError) as caught:
        compile_cuda(text, origins=[origin])
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E-3010"
    assert diagnostic.span is not None
    assert (str(diagnostic.span), diagnostic.span.text) == ("v4.co:2:3", "two three")
    assert '"nowhere" is undefined' in diagnostic.message
    assert "p[0] = nowhere;" in diagnostic.notes[0]


@pytest.mark.nvrtc
def test_an_error_elsewhere_names_the_place_in_the_emitted_file() -> None:
    with pytest.raises(CompileError) as caught:
        compile_cuda("nonsense here;", name="made.cu")
    assert "made.cu:1" in caught.value.diagnostics[0].notes[0]


@pytest.mark.nvrtc
def test_an_error_of_ptxas_is_a_compile_error() -> None:
    with pytest.raises(CompileError) as caught:
        compile_cuda('extern "C" __global__ void k() { asm volatile("no.such.instruction;"); }')
    assert {d.code for d in caught.value.diagnostics} == {"E-3010"}


@pytest.mark.nvrtc
def test_an_unknown_architecture_is_a_fault_of_the_environment() -> None:
    with pytest.raises(EnvironmentFault) as caught:
        compile_cuda("", arch="sm_1")
    assert caught.value.diagnostics[0].code == "E-3002"


@pytest.mark.nvrtc
def test_ptx_and_lineinfo() -> None:
    text = 'extern "C" __global__ void k(float* p) { p[0] = 1; }'
    assert ".target sm_90a" in compile_ptx(text)
    assert compile_cuda(text).usage[0].name == "k"
    assert len(compile_cuda(text, lineinfo=True).cubin) > len(compile_cuda(text).cubin)


def test_a_missing_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named '{name}'")

    bindings.nvrtc.cache_clear()
    monkeypatch.setattr("croq.driver.bindings.importlib.import_module", absent)
    with pytest.raises(EnvironmentFault) as caught:
        bindings.nvrtc()
    assert caught.value.diagnostics[0].code == "E-3001"
    assert "pip install" in (caught.value.diagnostics[0].hint or "")
    assert caught.value.exit_status == 3


def test_a_missing_disassembler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("croq.driver.disassemble.shutil.which", lambda name: None)
    monkeypatch.setattr("croq.driver.disassemble.sysconfig.get_paths", lambda: {"purelib": "/nowhere"})
    with pytest.raises(EnvironmentFault) as caught:
        disassemble.sass(b"")
    assert caught.value.diagnostics[0].code == "E-3004"
