"""Small inputs that were reported from outside: each stands for a kind of fault, and this table says what is right.

`PENDING` names those that are not right yet; a test fails when one of them has become right, so that the list cannot
lie. What needs a GPU is in tests/programs and tools/device_programs.py.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import croq
from croq.diagnostics import CroqError, Diagnostic

PROGRAMS = Path(__file__).parent / "programs"

PENDING = frozenset[str]()


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


def _products(name: str, k: int, columns: int) -> None:
    """c = a @ b.T over the first `columns` of a's `k`, from `first` on: every element right."""
    rng = np.random.default_rng(1)
    a = rng.integers(-3, 4, (64, k)).astype(ml_dtypes.bfloat16)
    b = rng.integers(-3, 4, (64, columns)).astype(ml_dtypes.bfloat16)
    c = np.full((64, 64), np.nan, dtype=np.float32)
    simulated(name, a, b, c)
    part = a[:, :columns] if columns == k else a[:, columns : 2 * columns]
    assert np.array_equal(c, part.astype(np.float32) @ b.astype(np.float32).T)
    proved(name)


def _k_subtile() -> None:
    _products("01_k_subtile", 192, 192)


def _static_offset() -> None:
    _products("02_static_offset", 192, 48)


def _other_side() -> None:
    assert {d.code for d in croq.check(path("03_other_side"))} & {"E-6008", "W-6000"}


def _selected_count() -> None:
    assert {d.code for d in croq.check(path("04_selected_count"))} & {"E-6012", "W-6000"}


def _primed_by_hand() -> None:
    proved("07_primed_by_hand")
    for k in (64, 128, 512):
        rng = np.random.default_rng(k)
        a, b = (rng.integers(-3, 4, (64, k)).astype(ml_dtypes.bfloat16) for _ in range(2))
        c = np.full((64, 64), np.nan, dtype=np.float32)
        simulated("07_primed_by_hand", a, b, c)
        assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


def elementwise(name: str, x: np.ndarray[Any, Any], dtype: type, count: int = 1) -> list[list[Any]]:
    """What the program makes of `x`, in as many outputs as it has."""
    made: list[np.ndarray[Any, Any]] = [np.zeros(len(x), dtype=dtype) for _ in range(count)]
    simulated(name, x, *made)
    return [array.tolist() for array in made]


def _narrow() -> None:
    x = np.array([300.0, -3.0, np.nan], dtype=np.float32)
    assert elementwise("08_narrow", x, np.int8) == [[127, -3, 0]]


def _wrap() -> None:
    assert elementwise("09_wrap", s32(2**30, 5), np.int32) == [[-(2**30), 5]]


def _f64() -> None:
    high, smooth = elementwise("11_f64", np.array([np.nan, 0.3]), np.float64, 2)
    assert high == [1.0, 1.0]
    assert abs(smooth[1] - 1.0 / (1.0 + np.exp(-0.3))) < 1e-15


def _empty_range() -> None:
    assert elementwise("12_empty_range", s32(-1, 0, 1, -64, -65), np.int32) == [[0, 0, 1, 0, 0]]


def _wide_count() -> None:
    cuda = "" if errors("13_wide_count") else croq.compile(path("13_wide_count")).cuda
    assert errors("13_wide_count") or re.search(r"for \(s64 \w+ = 0", cuda), cuda


def _mutable() -> None:
    assert errors("18_mutable") == []
    (fault,) = croq.check("__co__ void f(global s32 [N] y) { parallel b by 1 : block { int o = 0; o = 1; } }")
    assert fault.code == "E-310" and any("mutable" in note for note in (*fault.notes, str(fault.hint)))


def _lanes_disagree() -> None:
    said = bool(croq.check(path("19_lanes_disagree")))
    try:
        simulated("19_lanes_disagree", s32(0))
    except CroqError:
        said = True
    assert said


def _barrier_in_call() -> None:
    assert any(d.code == "W-6000" or d.severity == "error" for d in croq.check(path("20_barrier_in_call")))


def _no_ready() -> None:
    assert any("= ready" in str(d.hint) for d in errors("21_no_ready"))


def _nobody_waits() -> None:
    found = croq.check(path("22_no_wait_empty"))
    assert any("nothing waits for" in d.message and "`empty`" in d.message for d in found)


def _cta_mma() -> None:
    refused("25_cta_mma", "E-1113", "mma")


def _spin() -> None:
    def stop(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(30)
    try:
        with pytest.raises(CroqError) as caught:
            simulated("27_spin", s32(*[0] * 32), s32(*[0] * 32))
    finally:
        signal.alarm(0)
    assert any(d.span is not None and d.span.line == 4 for d in caught.value.diagnostics)


RIGHT: dict[str, Callable[[], None]] = {
    "01_k_subtile": _k_subtile,
    "02_static_offset": _static_offset,
    "03_other_side": _other_side,
    "04_selected_count": _selected_count,
    "05_ready_and_ring": lambda: proved("05_ready_and_ring"),
    "06_ready_between": lambda: proved("06_ready_between"),
    "07_primed_by_hand": _primed_by_hand,
    "08_narrow": _narrow,
    "09_wrap": _wrap,
    "10_shift": lambda: refused("10_shift", errors("10_shift")[0].code, "33"),
    "11_f64": _f64,
    "12_empty_range": _empty_range,
    "13_wide_count": _wide_count,
    "14_macro": _macro,
    "15_name": _name,
    "16_include": _include,
    "17_inf_to_int": lambda: refused("17_inf_to_int", errors("17_inf_to_int")[0].code, "inf"),
    "18_mutable": _mutable,
    "19_lanes_disagree": _lanes_disagree,
    "20_barrier_in_call": _barrier_in_call,
    "21_no_ready": _no_ready,
    "22_no_wait_empty": _nobody_waits,
    "23_literal": lambda: proved("23_literal"),
    "24_undeclared_call": _undeclared,
    "25_cta_mma": _cta_mma,
    "26_shift_in_place": _in_place,
    "27_spin": _spin,
    "28_qualified": _qualified,
}


def test_the_table_has_every_input() -> None:
    names = {file.stem for file in PROGRAMS.glob("*.co")}
    assert len(names) == 28
    assert set(RIGHT) == names
    assert names >= PENDING


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_a_reported_input_is_treated_right(name: str) -> None:
    if name not in PENDING:
        RIGHT[name]()
        return
    with pytest.raises(Exception):  # noqa: B017  # right now? then take its name out of `PENDING`
        RIGHT[name]()
