"""Right programs are proved, as written and as lowered, and right in every schedule, whatever the trip count."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import croq
from croq.protocol import judge
from tests.handshakes.right import MEET, NARROWED, OTHERS, PRIMED

FOLDER = Path(__file__).resolve().parent
REPORTED = {path.stem: path.read_text(encoding="utf-8") for path in (FOLDER / "reported").glob("*.co")}
PROGRAMS = NARROWED | MEET | OTHERS | PRIMED
SCHEDULES = ("hostile", "random:1", "random:2")


@cache
def compiled(name: str) -> croq.Kernel:
    return croq.compile({**PROGRAMS, **REPORTED}[name])


def assert_proved(name: str) -> None:
    made = compiled(name).compilation
    for found in judge(made.module.kernels, made.written):
        assert found.proved, "\n".join([str(found), *(d.render() for d in found.diagnostics())])


def whys(kernel: croq.Kernel) -> str:
    return "\n".join(event["why"] for plan in kernel.plan for event in plan["events"])


@pytest.mark.parametrize("name", [*PROGRAMS, "ready_and_ring", "ready_between", "primed_by_hand"])
def test_right_program_is_proved(name: str) -> None:
    assert_proved(name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_right_program_gives_right_numbers(name: str) -> None:
    kernel = compiled(name)
    for tiles in (0, 1, 2, 3, 5):
        rng = np.random.default_rng(tiles)
        a, b = (rng.uniform(-1, 1, (64, 64 * tiles or 8)).astype(np.float16) for _ in "ab")
        want = a.astype(np.float64) @ b.astype(np.float64).T if tiles else np.zeros((64, 64))
        for schedule in SCHEDULES:
            c = np.full((64, 64), np.nan, np.float32)
            croq.simulate(kernel, a, b, c, schedule=schedule)
            np.testing.assert_allclose(c, want, atol=2e-2, err_msg=f"{tiles} tiles, {schedule}")


@pytest.mark.parametrize("name", ["ready_and_ring", "ready_between"])
def test_reported_program_gives_right_numbers(name: str) -> None:
    kernel = compiled(name)
    for rows in (64, 128, 192, 384):
        rng = np.random.default_rng(rows)
        a, b = (rng.uniform(-1, 1, (rows, 64)).astype(np.float16) for _ in "ab")
        blocks = [a[n : n + 64].astype(np.float64) @ b[n : n + 64].astype(np.float64).T for n in range(0, rows, 64)]
        for schedule in SCHEDULES:
            c = np.full((rows, 64), np.nan, np.float32)
            croq.simulate(kernel, a, b, c, schedule=schedule)
            np.testing.assert_allclose(c[:64], sum(blocks), atol=2e-2, err_msg=f"{rows} rows, {schedule}")


@pytest.mark.parametrize("name", NARROWED)
def test_only_who_issues_waits(name: str) -> None:
    """N5, said in the plan; a warp barrier lets its warp meet again."""
    kernel = compiled(name)
    assert "alone, which issues for its role (narrow.N5)" in whys(kernel)
    assert "(pace.K1)" not in whys(kernel)


@pytest.mark.parametrize("name", MEET)
def test_waiters_meet_before_one_goes_on_for_all(name: str) -> None:
    """K1, said in the plan."""
    assert "meet before one of them goes on for all (pace.K1)" in whys(compiled(name))


@pytest.mark.parametrize("name", OTHERS)
def test_nothing_is_added_where_nothing_is_needed(name: str) -> None:
    assert "(pace.K1)" not in whys(compiled(name))
    assert "(narrow.N5)" not in whys(compiled(name))


@pytest.mark.parametrize("name", [*PRIMED, "primed_by_hand"])
def test_an_arrival_has_no_generation(name: str) -> None:
    """An order that names another generation of its slot is worth a warning, and no more."""
    goes_on = "orders go on" in name or "another role" in name
    found = croq.check({**PROGRAMS, **REPORTED}[name])
    assert {d.code for d in found} == (set() if goes_on else {"W-6005"})


def test_slots_handed_out_by_hand_give_right_numbers() -> None:
    """Reported: E-6005, for a program that is right."""
    kernel = compiled("primed_by_hand")
    for extent in (64, 128, 512):
        rng = np.random.default_rng(extent)
        a, b = (rng.uniform(-1, 1, (64, extent)).astype(ml_dtypes.bfloat16) for _ in "ab")
        want = a.astype(np.float64) @ b.astype(np.float64).T
        for schedule in SCHEDULES:
            c = np.full((64, 64), np.nan, np.float32)
            croq.simulate(kernel, a, b, c, schedule=schedule)
            np.testing.assert_allclose(c, want, atol=2e-2, err_msg=f"K = {extent}, {schedule}")
