"""Every program compiles to what its plan must say, and computes what its reference says on every schedule."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from croq.diagnostics import CompileError, Sink
from croq.emit import emit_cuda
from croq.ir.build import build
from croq.ir.objects import Kernel, Module
from croq.passes import pipeline
from croq.plan import plan_kernel
from croq.sema import analyse
from croq.simulate import run
from croq.source import SourceFile
from croq.syntax import parse_program
from croq.verify import verify_protocol
from tests.programs.harness import FOLDER, Case, cases, make_run, plan_faults

CASES = list(cases())
SCHEDULES = ("eager", "lazy", "random:1", "random:2")
BROKEN = sorted((FOLDER / "broken").glob("*.co"))
# NVRTC is the slowest part: one variant of each program
COMPILED = [case for case in CASES if case.variant is case.program.variants[0]]


def lower(path: Path, defines: dict[str, str], sink: Sink) -> Module:
    program = parse_program(SourceFile(path.name, path.read_text(encoding="utf-8")), defines, sink)
    sink.check()
    model = analyse(program, sink)
    sink.check()
    module = build(model, sink)
    sink.check()
    pipeline.run(module, sink)
    sink.check()
    return module


@cache
def _module(case_id: str) -> Module:
    case = next(case for case in CASES if case.id == case_id)
    return lower(case.path, case.defines, Sink())


def kernels_of(case: Case) -> list[Kernel]:
    """The launches of the case's function, in order."""
    return [k for k in _module(case.id).kernels if k.function == case.program.name]


def test_names_are_unique() -> None:
    ids = [case.id for case in CASES]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_plan(case: Case) -> None:
    assert plan_faults(plan_kernel(kernels_of(case)[0]), case.variant.plan) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_simulated_results(case: Case) -> None:
    for sizes in case.variant.sizes:
        made = make_run(case, sizes)
        for schedule in SCHEDULES:
            arrays = made.fresh()
            for kernel in kernels_of(case):
                run(kernel, arrays, made.scalars, schedule=schedule)
            assert made.faults(arrays) == [], f"{dict(sizes)}, {schedule}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_emitted_text_is_stable(case: Case) -> None:
    kernels = _module(case.id).kernels
    assert emit_cuda(kernels) == emit_cuda(kernels)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_protocol_holds(case: Case) -> None:
    found = [d for kernel in kernels_of(case) for d in verify_protocol(kernel) if d.severity == "error"]
    assert [d.render() for d in found] == []


@pytest.mark.nvrtc
@pytest.mark.parametrize("case", COMPILED, ids=lambda case: case.id)
def test_compiles_without_warnings(case: Case) -> None:
    from croq.driver.nvrtc import compile_cuda

    compiled = compile_cuda(emit_cuda(_module(case.id).kernels), name=f"{case.id}.cu")
    assert [w.render() for w in compiled.warnings] == []
    assert not re.search(r"\bwarning\b", compiled.log, re.IGNORECASE), compiled.log


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_mistakes_are_rejected(path: Path) -> None:
    """The first line names the code; `// here` marks the line that an error must point at."""
    text = path.read_text(encoding="utf-8")
    code = text[3 : text.index(":")]
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "// here" in line)
    with pytest.raises(CompileError) as caught:
        lower(path, {}, Sink())
    errors = [d for d in caught.value.diagnostics if d.severity == "error"]
    assert code in {d.code for d in errors}, str(caught.value)
    places = [(d.span.line, d.span.file.line_of(d.span.end)) for d in errors if d.code == code and d.span]
    assert any(first <= line <= last for first, last in places), str(caught.value)
