"""Blind faults of emission (tools/mutate_emission.py --blind): drawing them, and a few judged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from croq.driver.nvrtc import prelude
from tools.blind_mutants import MAKERS, RUNTIME, Change, draw
from tools.blind_mutation import EACH, judge, sample, usual
from tools.blind_subjects import names, subjects

CUDA = (Path(__file__).resolve().parent.parent.parent / "generated" / "v4.cu").read_text(encoding="utf-8")
TEXT = next(iter(prelude().values()))


def drawn(count: int, seed: int) -> list[Change]:
    rng, found = random.Random(seed), list[Change]()
    while len(found) < count:
        try:
            found.append(draw(CUDA, {"flash_atten"}, TEXT, rng))
        except LookupError:
            continue
    return found


def test_every_kind_finds_places_and_each_change_changes_one_line_or_statement() -> None:
    changes = drawn(600, 1)
    assert {c.kind for c in changes} == set(MAKERS)
    assert any(c.place == RUNTIME for c in changes)
    for change in changes:
        text = TEXT if change.place == RUNTIME else CUDA
        assert change.apply(text) != text
        assert len(change.apply(text)) - len(text) < 1500


def test_equal_seeds_draw_equal_changes() -> None:
    assert drawn(50, 7) == drawn(50, 7) != drawn(50, 8)


def test_kernels_that_are_not_launched_are_left_alone() -> None:
    with pytest.raises(LookupError):
        for _ in range(200):
            draw(CUDA, {"another"}, TEXT, random.Random(2))


@pytest.mark.nvrtc
def test_a_sample_is_judged() -> None:
    name = next(n for n in names() if n.startswith("programs/slot_events"))
    (subject,) = subjects(name)
    assert usual(subject) == ""
    outcomes = list(sample(subject, random.Random(4), EACH))
    assert len(outcomes) == EACH
    assert {o.result for o in outcomes} <= {"caught", "survived", "same"}
    assert any(o.result == "caught" for o in outcomes)


@pytest.mark.nvrtc
def test_arrivals_of_other_lanes_are_noticed_where_a_warp_is_behind() -> None:
    """31 arrivals for one leave every parity as it should be, and slots are free too early."""
    from croq.driver.nvrtc import compile_ptx

    (subject,) = subjects(next(n for n in names() if n.startswith("programs/slot_events")))
    before, once, after = subject.cuda.rpartition("if (lane == 0) {")
    assert once and judge(subject, compile_ptx(before + "if (lane != 0) {" + after))[1]
