"""Whole programs through the compiler: the shipped kernels and every test program."""

from __future__ import annotations

from pathlib import Path

import pytest

from croq.diagnostics import Sink
from croq.driver.disassemble import sass
from croq.driver.nvrtc import compile_cuda
from croq.driver.sass_stats import statistics
from croq.emit import emit_cuda
from croq.ir.build import build
from croq.ir.objects import Kernel
from croq.passes import pipeline
from croq.sema import analyse
from croq.source import SourceFile
from croq.syntax import parse_program

ROOT = Path(__file__).resolve().parents[2]
KERNELS = sorted((ROOT / "kernels").glob("*.co"))
PROGRAMS = sorted([*(ROOT / "tests/programs").glob("*.co"), *(ROOT / "tests/cases").glob("*.co")])


def lowered(path: Path) -> list[Kernel]:
    sink = Sink()
    program = parse_program(SourceFile(path.name, path.read_text(encoding="utf-8")), {}, sink)
    module = build(analyse(program, sink), sink)
    pipeline.run(module, sink)
    sink.check()
    return module.kernels


@pytest.mark.parametrize("path", [*KERNELS, *PROGRAMS], ids=lambda path: path.stem)
def test_programs_are_emitted_and_twice_the_same(path: Path) -> None:
    kernels = lowered(path)
    text = emit_cuda(kernels)
    assert emit_cuda(kernels) == text
    assert max(map(len, text.splitlines())) < 200


@pytest.mark.nvrtc
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_shipped_kernels_compile_without_remarks_and_keep_hot_loops_in_registers(path: Path) -> None:
    """v5 spills addresses that it needs once a task (tests/driver/budgets); nothing may be spilled in a hot loop."""
    compiled = compile_cuda(emit_cuda(lowered(path)))
    assert [w.message for w in compiled.warnings if w.code != "W-3001"] == []
    if any(u.spill_stores or u.spill_loads for u in compiled.usage):
        for function in statistics(sass(compiled.cubin)):
            assert function.hot is not None and function.hot.spills == 0
