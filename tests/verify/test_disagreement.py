"""Threads that store different values to one element are said to; threads that store one value, or apart, are not."""

from __future__ import annotations

import numpy as np
import pytest

from croq.simulate import SimulationFault
from croq.simulate import run as simulate
from croq.verify import disagreements
from tests.verify.helpers import kernels

TEXT = """
__co__ void f(global s32 [N] y, global f32 [N] z, global f32 [N] x) {{
  parallel b by cdiv(N, 64) : block {{
    shared s32 [64] s {{0}};
    parallel t by 32 : thread {{ i = b # t; {body} }}
  }}
}}
"""
DIFFERENT = [
    "y.at(0) = t;",
    "y.at(t / 2) = t;",
    "y.at(b) = i * 3 + 1;",
    "z.at(0) = x.at(t);",
    "z.at(t % 7) = __to<f32>(t);",
    "s.at(5) = -t;",
    "if (t < 8) y.at(0) = t;",
    "foreach {k} in [3] y.at(k) = t + k;",
]
ALIKE = [
    "y.at(i) = t;",
    "y.at(0) = 7;",
    "y.at(t / 2) = t / 2;",
    "y.at(b) = b + N;",
    "z.at(0) = x.at(b);",
    "if (t == 3) y.at(0) = t;",
    "if (t < 16) { y.at(t) = 2 * t; } else { y.at(t) = t; }",
    "s.at(63 - t) = t;",
]


def run(text: str) -> str:
    """`ok`, or the code of what the simulator finds."""
    (kernel,) = kernels(text)
    arrays = {"y": np.zeros(64, np.int32), "z": np.zeros(64, np.float32), "x": np.arange(64, dtype=np.float32)}
    try:
        simulate(kernel, arrays, races=True)
    except SimulationFault as found:
        return found.diagnostics[0].code
    return "ok"


@pytest.mark.parametrize("body", DIFFERENT)
def test_different_values_for_one_element_are_named(body: str) -> None:
    text = TEXT.format(body=body)
    (warning,) = disagreements(kernels(text)[0])
    assert (warning.code, warning.severity) == ("W-6014", "warning")
    assert warning.span is not None and warning.span.line == 5
    assert run(text) == "E-5053"


@pytest.mark.parametrize("body", ALIKE)
def test_one_value_for_an_element_is_right(body: str) -> None:
    text = TEXT.format(body=body)
    assert disagreements(kernels(text)[0]) == []
    assert run(text) == "ok"
