"""Diagnostics and reports at a prompt: what a person wants to read, and no dump of fields."""

from __future__ import annotations

import numpy as np

import croq

WRONG = "__co__ void k(global f32 [N] x) {\n  y = z;\n}\n"
RIGHT = """__co__ void twice(global f32 [N] x) {
  parallel b by 2 : block, t by 32 : thread { i = b # t; if (i < N) x.at(i) = x.at(i) * 2.0f; }
}
"""


def test_a_diagnostic_shows_as_it_is_printed():
    (found,) = croq.check(WRONG)
    assert repr(found) == found.render() and repr(found).startswith("error[E-")
    assert "Span(" not in repr([found]) and "  y = z;" in repr([found])


def test_a_report_shows_as_one_line_and_its_warnings():
    report = croq.simulate(croq.compile(RIGHT), np.ones(50, np.float32))
    assert repr(report).startswith("<twice: 2 of 2 blocks, schedule eager, ")
    assert repr(report).count("\n") == sum(repr(warning).count("\n") + 1 for warning in report.warnings)
