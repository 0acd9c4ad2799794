"""Passes as text: `cases/PASS/BEHAVIOUR.cir` has IR, a line of dashes, and what the pass makes of it, or reports.

`--update-golden` writes what stands below the line.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from croq.diagnostics import Sink
from croq.ir.parser import parse_module
from croq.ir.printer import print_module
from croq.passes import pipeline
from tests.conftest import Golden

CASES = Path(__file__).parent / "cases"
LINE = "-" * 40 + "\n"
PASSES = {made.name: made for made in pipeline.passes()}


def behind(name: str, text: str) -> str:
    """The IR behind the pass; what it reports, where the program is wrong."""
    module, sink = parse_module(text), Sink()
    for kernel in module.kernels:
        PASSES[name].apply(kernel, sink)
    return "".join(f"{found.code}: {found.message}\n" for found in sink.diagnostics) or print_module(module)


@pytest.mark.parametrize("path", sorted(CASES.rglob("*.cir")), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_pass_makes_of_its_input_what_stands_below(path: Path, golden: Golden) -> None:
    given = path.read_text(encoding="utf-8").split(LINE)[0]
    golden(given + LINE + behind(path.parent.name, given), str(path.relative_to(CASES.parents[2])))


def test_every_pass_has_a_case() -> None:
    assert {path.parent.name for path in CASES.rglob("*.cir")} == set(PASSES)
