"""Some blocks of a grid: which, what they touch, and whether they wrote it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from croq.bench.inputs import make_inputs
from croq.bench.partial import check_part, choose_blocks, evaluate
from croq.bench.reference import attention_rows
from croq.bench.schedule import build_schedule
from croq.bench.workload import AttentionWorkload, bind


@dataclass
class P:
    name: str
    dtype: str = "bf16"
    shape: tuple = ("B", "Q_SEQ", "H", "16")


BINDING = bind([P(name) for name in "QKVO"])
PLAN = [{"grid": ["cdiv(Q_SEQ, 64)", "H", "B"]}]
WORKLOAD = AttentionWorkload(2, 3, 256, 16)


@pytest.mark.parametrize(
    ("text", "value"), [("114", 114), ("H", 3), ("cdiv(S, 128)", 2), ("S / 64 * 2 - 1", 5), ("cdiv(S + 1, 4) % 7", 2)]
)
def test_grid_extents_are_evaluated(text, value):
    assert evaluate(text, {"H": 3, "S": 200}) == value


@pytest.mark.parametrize("text", ["X", "open('f')", "H.x", "1.5", "cdiv(H)"])
def test_nothing_else_is(text):
    with pytest.raises(ValueError, match="not known in a grid extent"):
        evaluate(text, {"H": 3})


def test_all_blocks_touch_all_slabs():
    part = choose_blocks(PLAN, BINDING, WORKLOAD, None)
    assert part.whole and len(part.blocks) == part.total == 4 * 3 * 2
    assert part.slabs == WORKLOAD.slabs and part.rows == 256 * 6


def test_some_blocks_are_spread_and_touch_their_slabs_only():
    part = choose_blocks(PLAN, BINDING, WORKLOAD, 3)
    assert part.blocks == ((0, 0, 0), (3, 2, 0), (3, 2, 1)) and not part.whole
    assert part.slabs == ((0, 0), (0, 2), (1, 2)) and part.rows == 3 * 64


def test_an_unknown_grid_may_touch_everything():
    part = choose_blocks([{"grid": ["H * B"]}], BINDING, WORKLOAD, 2)
    assert part.slabs == WORKLOAD.slabs and part.rows is None


def test_a_persistent_block_touches_what_its_list_says():
    schedule = build_schedule(2, 3, 2, 50)
    part = choose_blocks([{"grid": ["50"]}], BINDING, WORKLOAD, 2, schedule)
    tasks = [task for x, _, _ in part.blocks for task in schedule.of_block(x)]
    assert len(part.blocks) == 2 and part.slabs == tuple(sorted({(b, h) for _, h, b in tasks}))
    assert part.rows == 128 * len(tasks) > 0
    assert choose_blocks([{"grid": ["50"]}], BINDING, WORKLOAD, None, schedule).whole


def _solve(inputs, slab, rows):
    q, k, v = (array[slab[0], :, slab[1]] for array in (inputs.q, inputs.k, inputs.v))
    inputs.o[slab[0], rows, slab[1]] = attention_rows(q, k, v, rows, causal=True)


def test_what_was_written_is_checked_and_what_was_not_is_missed():
    part = choose_blocks(PLAN, BINDING, WORKLOAD, 2)
    inputs = make_inputs(WORKLOAD, part.slabs)
    _solve(inputs, (0, 0), list(range(64)))
    report = check_part(inputs, part)
    assert not report.ok and report.unwritten == 64 * 16 and report.checked == 2 * 64 * 16
    _solve(inputs, (1, 2), list(range(192, 256)))
    assert check_part(inputs, part).ok
    inputs.o[1, 200, 2, 3] = 7
    worst = check_part(inputs, part).worst
    assert worst is not None and worst.row == 200
