"""The table of functions (croq/functions.py) and what must agree with it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import croq
from croq.functions import FUNCTIONS
from croq.resources import resource
from croq.timelines.costs import Work
from tests.conftest import ROOT

PRELUDE = resource("runtime", "croq.cuh").read_text(encoding="utf-8")
PAGE = ROOT / "docs" / "language.md"
BEGIN, END, UPDATE = "<!-- functions -->\n", "<!-- end -->", "--update-golden"
PARAMETERS = "xyz"


def table() -> str:
    rows = [
        f"| `__{row.name}({', '.join(PARAMETERS[: row.arity])})` | {row.accuracy} |\n" for row in FUNCTIONS.values()
    ]
    return "".join(["\n| function | accuracy |\n|---|---|\n", *rows, "\n"])


def test_the_page_has_the_table(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    start = text.index(BEGIN) + len(BEGIN)
    stop = text.index(END, start)
    if request.config.getoption(UPDATE):
        PAGE.write_text(text[:start] + table() + text[stop:], encoding="utf-8")
    shown = PAGE.read_text(encoding="utf-8")[start:]
    assert shown.startswith(table() + END), f"run this test with {UPDATE} to write it"


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("type", ["float", "double"])
def test_the_runtime_has_it_for_both_types(name: str, type: str) -> None:
    """A function without an overload for `double` would compute f64 as f32, and say nothing."""
    row = FUNCTIONS[name]
    parameters = ", ".join(rf"{type} \w+" for _ in range(row.arity))
    assert re.search(rf"^CROQ_FN {type} {row.cpp.removeprefix('croq::')}\({parameters}\)", PRELUDE, re.MULTILINE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_its_cost_names_pipes(name: str) -> None:
    Work(**FUNCTIONS[name].work)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors_keep_their_type_and_lanes_do_not_matter(name: str, dtype: type) -> None:
    row = FUNCTIONS[name]
    values: np.ndarray[Any, Any] = np.linspace(0.25, 3, 32).astype(dtype)
    found = row.vector(*[values] * row.arity)
    assert found.dtype == dtype and found.shape == values.shape
    assert row.vector(*[values[5]] * row.arity) == found[5]


# Of rsqrt.approx.f64 the PTX ISA states no bound, so that its execution here is no better than f32 (croq/ptx/units).
LOOSE = {("rsqrt", "f64"): 2.0**-20}


@pytest.mark.nvrtc
@pytest.mark.parametrize("type", ["f32", "f64"])
def test_every_function_gives_the_same_in_the_simulator_and_as_ptx(type: str) -> None:
    """Within its accuracy: of f64, an emission by the f32 function would be off by millions of ulp."""
    rows = list(FUNCTIONS.values())
    calls = (f"y.at({n}, t) = __{row.name}({', '.join(['x.at(t)'] * row.arity)});" for n, row in enumerate(rows))
    params = f"global {type} [32] x, global {type} [{len(rows)}, 32] y"
    kernel = croq.compile(f"__co__ void k({params}) {{ parallel t by 32 : thread {{ {' '.join(calls)} }} }}\n")
    x = np.linspace(0.3, 3.1, 32).astype({"f32": np.float32, "f64": np.float64}[type])
    ours, ptx = (np.full((len(rows), 32), np.nan, x.dtype) for _ in range(2))
    croq.simulate(kernel, x, ours)
    croq.simulate(kernel, x, ptx, level="ptx")
    for row, a, b in zip(rows, ours, ptx, strict=True):
        absolute = 2.0**-22 if "absolute" in row.accuracy else 0
        tolerance = 8 * np.spacing(np.abs(a)) + absolute + LOOSE.get((row.name, type), 0) * np.abs(a)
        assert np.all(np.abs(a - b) <= tolerance), row.name
