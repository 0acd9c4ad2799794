"""Small inputs that were reported from outside: each stands for a kind of fault, and this table says what is right.

`PENDING` names those that are not right yet; a test fails when one of them has become right, so that the list cannot
lie. What needs a GPU is in tests/programs and tools/device_programs.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import croq
from croq.diagnostics import CroqError, Diagnostic

PROGRAMS = Path(__file__).parent / "programs"

# Each colleague's names go when the input is right.
PENDING: frozenset[str] = frozenset(
    (
        "01_k_subtile",
        "02_static_offset",
        "03_other_side",
        "04_selected_count",
        "05_ready_and_ring",
        "06_ready_between",
        "07_primed_by_hand",
        "08_narrow",
        "09_wrap",
        "10_shift",
        "11_f64",
        "12_empty_range",
        "13_wide_count",
        "17_inf_to_int",
        "18_mutable",
        "19_lanes_disagree",
        "20_barrier_in_call",
        "21_no_ready",
        "22_no_wait_empty",
        "23_literal",
        "25_cta_mma",
        "27_spin",
    )
)


def path(name: str) -> Path:
    return PROGRAMS / f"{name}.co"


def errors(name: str) -> list[Diagnostic]:
    """What `croq check` would refuse the program for."""
    return [d for d in croq.check(path(name)) if d.severity == "error"]


def refused(name: str, code: str, quoted: str) -> None:
    """Refused with `code`, at the text `quoted`."""
    found = errors(name)
    assert code in [d.code for d in found], [d.render() for d in found]
    assert any(d.code == code and d.span is not None and quoted in d.span.text for d in found), [
        d.render() for d in found
    ]


def proved(name: str) -> None:
    """Checked without an error, and compiled to a cubin."""
    assert errors(name) == []
    assert croq.compile(path(name)).cubin[:4] == b"\x7fELF"


def simulated(name: str, *arguments: np.ndarray[Any, Any]) -> None:
    croq.simulate(croq.compile(path(name)), *arguments)


def s32(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int32)


# ------------------------------------------------------------------------------------------------ what is right
def _macro() -> None:
    proved("14_macro")
    x, y = s32(1, 3, 4, 5), s32(0, 0, 0, 0)
    simulated("14_macro", x, y)
    assert y.tolist() == [1, 1, 2, 2]


def _name() -> None:
    proved("15_name")
    made = croq.compile(path("15_name"))
    assert made.plan[0]["kernel"] == "max"
    assert made.devices[0].entry_name != "max"


def _include() -> None:
    found = croq.check(path("16_include"))
    assert [(d.code, d.span and d.span.line) for d in found] == [("W-2003", 1), ("E-1208", 4)]
    assert [label.span.line for label in found[1].labels] == [1]


def _undeclared() -> None:
    refused("24_undeclared_call", "E-1208", "nowhere")


def _qualified() -> None:
    proved("28_qualified")


def _in_place() -> None:
    x = np.zeros(64, dtype=np.float32)
    with pytest.raises(CroqError) as caught:
        simulated("26_shift_in_place", x, x)
    assert [d.code for d in caught.value.diagnostics] == ["E-5050"]


RIGHT: dict[str, Callable[[], None]] = {
    "14_macro": _macro,
    "15_name": _name,
    "16_include": _include,
    "24_undeclared_call": _undeclared,
    "26_shift_in_place": _in_place,
    "28_qualified": _qualified,
}


def test_the_table_has_every_input() -> None:
    names = {file.stem for file in PROGRAMS.glob("*.co")}
    assert len(names) == 28
    assert set(RIGHT) | PENDING == names
    assert names >= PENDING


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_a_reported_input_is_treated_right(name: str) -> None:
    if name not in PENDING:
        RIGHT[name]()
        return
    with pytest.raises((AssertionError, CroqError, ValueError)):
        RIGHT[name]()  # right now? then it is pending no longer: take its name out of the list
