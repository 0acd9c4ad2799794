"""Whole programs through the compiler: the shipped kernels and every test program."""

from __future__ import annotations

from pathlib import Path

import pytest

from croq.diagnostics import Sink
from croq.driver.nvrtc import compile_cuda
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
def test_shipped_kernels_compile_without_spills_and_remarks(path: Path) -> None:
    compiled = compile_cuda(emit_cuda(lowered(path)))
    assert [w.message for w in compiled.warnings] == []
    assert all(u.spill_stores == u.spill_loads == u.stack_bytes == 0 for u in compiled.usage)
