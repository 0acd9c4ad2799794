"""Random tile programs: refused by a rule, or right as lowered IR and as PTX.

CROQ_TILES=200 tries so many of each family (default 8), CROQ_TILES_FIRST is the first seed; tools/fuzz_ptx.py tries
more.
"""

from __future__ import annotations

import os

import pytest

from tests.random_tiles.tile_trials import FAMILIES, try_sample

COUNT = int(os.environ.get("CROQ_TILES", "8"))
FIRST = int(os.environ.get("CROQ_TILES_FIRST", "0"))
MOST_REFUSED = 0.4  # of the programs of a family: a generator whose programs do not compile tests nothing


@pytest.mark.nvrtc
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
@pytest.mark.parametrize("family", FAMILIES)
def test_program_is_refused_by_a_rule_or_right(family: str, seed: int) -> None:
    trial = try_sample(family, seed)
    assert trial.wrong is None, f"{trial.wrong}\n{trial.sample.text}"


@pytest.mark.parametrize("family", FAMILIES)
def test_most_programs_are_taken(family: str) -> None:
    import croq

    refused = 0
    for seed in range(20):
        try:
            croq.compile(FAMILIES[family](seed).text)
        except croq.CompileError:
            refused += 1
    assert refused <= 20 * MOST_REFUSED


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_seeds_give_equal_programs(family: str) -> None:
    for seed in range(30):
        first, second = FAMILIES[family](seed), FAMILIES[family](seed)
        assert first.text == second.text
        assert all(first.arrays[name].tobytes() == second.arrays[name].tobytes() for name in first.arrays)
