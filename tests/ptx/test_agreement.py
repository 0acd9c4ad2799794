"""The PTX of whole programs gives what the simulator of the lowered IR gives."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "programs"))

from harness import Case, cases, make_run

import croq

pytestmark = pytest.mark.nvrtc

FIRST = [case for case in cases() if case.variant is case.program.variants[0]]


@pytest.mark.parametrize("case", FIRST, ids=lambda case: case.id)
def test_programs_give_their_references(case: Case) -> None:
    compiled = croq.compile(case.path, case.defines, verify=False)
    kernel = compiled.kernels[case.program.name]
    made = make_run(case, case.variant.sizes[0])
    for schedule in ("eager", "lazy", "random:3"):
        arrays = made.fresh()
        given = [made.scalars[p.name] if p.shape is None else arrays[p.name] for p in kernel.params]
        croq.simulate(kernel, *given, schedule=schedule, level="ptx")
        assert made.faults(arrays) == [], schedule
