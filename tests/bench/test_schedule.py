"""The host-built work list of persistent kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croq.bench import schedule as module
from croq.bench.schedule import FIXED_COST_VARIABLE, build_schedule, decode, encode, tile_cost
from croq.diagnostics import LaunchError

SIZES = dict(
    batch=st.integers(1, 5),
    heads=st.integers(1, 9),
    tiles=st.integers(1, 20),
    blocks=st.integers(1, 40),
    fixed_cost=st.integers(0, 40),
)


@settings(max_examples=150, deadline=None)
@given(**SIZES)
def test_every_task_is_there_once_and_offsets_are_sound(batch, heads, tiles, blocks, fixed_cost):
    made = build_schedule(batch, heads, tiles, blocks, fixed_cost)
    assert made.tasks.dtype == made.offsets.dtype == np.int32
    assert made.offsets[0] == 0 and made.offsets[-1] == len(made.tasks) and made.blocks == blocks
    assert (np.diff(made.offsets) >= 0).all()
    wanted = sorted(encode(t, h, b) for b in range(batch) for h in range(heads) for t in range(tiles))
    assert sorted(made.tasks.tolist()) == wanted


@settings(max_examples=150, deadline=None)
@given(**SIZES)
def test_the_gap_is_at_most_the_longest_tile(batch, heads, tiles, blocks, fixed_cost):
    made = build_schedule(batch, heads, tiles, blocks, fixed_cost)
    loads = [sum(tile_cost(tile, fixed_cost) for tile, _, _ in made.of_block(i)) for i in range(blocks)]
    assert tuple(loads) == made.loads
    assert max(loads) - min(loads) <= tile_cost(tiles - 1, fixed_cost)


@settings(max_examples=60, deadline=None)
@given(**SIZES)
def test_blocks_walk_over_the_windows_in_step_and_over_tiles_downwards(batch, heads, tiles, blocks, fixed_cost):
    made = build_schedule(batch, heads, tiles, blocks, fixed_cost)
    window = max(1, module.WINDOW // tiles)
    for block in range(blocks):
        order = [((b * heads + h) // window, -t) for t, h, b in made.of_block(block)]
        assert order == sorted(order)


@pytest.mark.parametrize("seq", [4096, 8192, 16384])
@pytest.mark.parametrize("blocks", [114, 132])
def test_published_sizes_leave_the_heaviest_block_little_above_the_mean(seq, blocks):
    made = build_schedule(4, 32, seq // 128, blocks)
    assert max(made.loads) <= 1.015 * sum(made.loads) / blocks


def test_blocks_may_stay_without_tasks():
    made = build_schedule(1, 2, 2, 114)
    assert made.blocks == 114 and len(made.tasks) == 4
    assert sum(np.diff(made.offsets) == 0) == 110


def test_the_least_loaded_block_gets_the_next_tile():
    made = build_schedule(1, 1, 4, 2, 0)  # costs 8, 6, 4, 2
    assert [[tile for tile, _, _ in made.of_block(block)] for block in range(2)] == [[3, 0], [2, 1]]


def test_task_words_are_positive_and_decode():
    corner = encode(255, 63, (1 << 17) - 1)
    assert 0 < corner == np.iinfo(np.int32).max
    assert decode(corner) == (255, 63, (1 << 17) - 1)
    assert encode(5, 3, 2) == 5 | 3 << 8 | 2 << 14


@pytest.mark.parametrize(
    ("sizes", "named"),
    [((1, 1, 257, 4), "query tiles"), ((1, 65, 1, 4), "heads"), (((1 << 17) + 1, 1, 1, 4), "batch")],
)
def test_a_size_over_the_limit_is_named(sizes, named):
    with pytest.raises(LaunchError, match=rf"E-4170.*{named}"):
        build_schedule(*sizes)


def test_sizes_at_the_limit_are_fine():
    assert len(build_schedule(1, 1, 256, 3).tasks) == 256
    assert len(build_schedule(1, 64, 1, 3).tasks) == 64


@pytest.mark.parametrize("sizes", [(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0)])
def test_empty_sizes_are_refused(sizes):
    with pytest.raises(LaunchError, match="E-4170"):
        build_schedule(*sizes)


def test_the_fixed_cost_is_read_at_each_call(monkeypatch):
    monkeypatch.delenv(FIXED_COST_VARIABLE, raising=False)
    default = build_schedule(2, 4, 9, 5)
    assert default is build_schedule(2, 4, 9, 5, 4)
    monkeypatch.setenv(FIXED_COST_VARIABLE, "100")
    assert build_schedule(2, 4, 9, 5) is build_schedule(2, 4, 9, 5, 100)
    monkeypatch.setenv(FIXED_COST_VARIABLE, "many")
    with pytest.raises(LaunchError, match="E-4171"):
        build_schedule(2, 4, 9, 5)


def test_lists_are_cached_and_cannot_be_changed():
    made = build_schedule(2, 2, 3, 4)
    assert build_schedule(2, 2, 3, 4) is made
    with pytest.raises(ValueError, match="read-only"):
        made.tasks[0] = 1


def test_the_same_sizes_give_the_same_lists():
    first = build_schedule(3, 7, 11, 13, 4)
    module._build.cache_clear()
    second = build_schedule(3, 7, 11, 13, 4)
    assert first is not second
    np.testing.assert_array_equal(first.tasks, second.tasks)
    np.testing.assert_array_equal(first.offsets, second.offsets)
