"""Random pipelines: correct ones are accepted and compute what they should, damaged ones are found.

CROQ_PIPELINES=200 tries so many (default 25), CROQ_PIPELINES_FIRST is the first seed; search.py tries more of each.
"""

from __future__ import annotations

import os
import random
from functools import cache

import pytest

from tests.random_pipelines.pipeline_plans import Plan, draw
from tests.random_pipelines.pipeline_text import render, write
from tests.random_pipelines.pipeline_trials import Trial, broken_ways, caught_by, try_program

COUNT = int(os.environ.get("CROQ_PIPELINES", "25"))
FIRST = int(os.environ.get("CROQ_PIPELINES_FIRST", "1000"))
SEEDS = range(FIRST, FIRST + COUNT)
MOST_UNDECIDED = 0.04  # of the programs


@cache
def tried(seed: int) -> Trial:
    return try_program(seed, sizes=(1 + seed % 3,), schedules=("lazy", f"random:{seed}"))


@pytest.mark.parametrize("seed", SEEDS)
def test_correct_pipeline_is_accepted_and_right(seed: int) -> None:
    trial = tried(seed)
    assert not trial.wrong, "\n".join([*trial.wrong, trial.text, repr(trial.plan)])


def test_hardly_any_is_left_undecided() -> None:
    undecided = {seed: tried(seed).undecided for seed in SEEDS if tried(seed).undecided}
    assert len(undecided) <= MOST_UNDECIDED * COUNT, undecided


@pytest.mark.parametrize("seed", SEEDS)
def test_fault_in_a_pipeline_is_found(seed: int) -> None:
    way = random.Random(seed).choice(broken_ways(seed))
    plan = draw(seed)
    assert caught_by(seed, way), f"{way.name}\n{render(way.lines, plan)}\n{plan!r}"


# ------------------------------------------------------------------------------------------------------ the generator
def test_equal_seeds_give_equal_texts() -> None:
    for seed in range(40):
        assert render(write(draw(seed)), draw(seed)) == render(write(draw(seed)), draw(seed))


def test_all_that_is_promised_is_drawn() -> None:
    """Each choice of the generator comes up among the first seeds."""
    plans = [draw(seed) for seed in range(300)]
    assert {len(plan.role_order) for plan in plans} >= {2, 3, 4}
    assert {ring.depth for plan in plans for ring in plan.rings} == {1, 2, 3, 4, 5}
    assert any(len({ring.depth for ring in plan.rings}) > 1 for plan in plans)
    for wanted in (_joined, _halves, _out_of_order, _late, _lagging, _relayed, _two_producers):
        assert any(wanted(plan) for plan in plans), wanted.__name__
    for name in ("split", "a", "order", "outer", "epilogue", "trips", "element", "out", "k", "asynchronous"):
        assert len({getattr(plan, name) for plan in plans}) > 1, name


def _joined(plan: Plan) -> bool:
    return any(len(ring.tiles) > 1 for ring in plan.rings)


def _halves(plan: Plan) -> bool:
    return plan.consumers > 1 and plan.split == "rows"


def _out_of_order(plan: Plan) -> bool:
    return plan.asynchronous and plan.wait_order != plan.issue_order


def _late(plan: Plan) -> bool:
    return any(ring.late for ring in plan.rings)


def _lagging(plan: Plan) -> bool:
    return plan.lagging


def _relayed(plan: Plan) -> bool:
    return plan.relay


def _two_producers(plan: Plan) -> bool:
    return plan.producers != "one"
