"""What `run` decides before anything is executed: sizes, tiles, the part that the simulator takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from croq.bench.partial import choose_blocks
from croq.bench.workload import AttentionWorkload, bind
from croq.cli.run import query_tile, some_tasks


@dataclass
class P:
    name: str
    dtype: str = "bf16"
    shape: tuple = ("B", "S", "H", 128)


@dataclass
class FakeKernel:
    params: tuple
    grid: tuple

    @property
    def plan(self):
        return [{"grid": list(self.grid)}]


PLAIN: Any = FakeKernel(tuple(P(name) for name in "QKVO"), ("cdiv(S, 64)", "H", "B"))
LISTS = (P("tasks", "s32", ("T",)), P("offsets", "s32", (133,)))
PERSISTENT: Any = FakeKernel((*PLAIN.params, *LISTS), ("132",))


def test_the_query_tile_comes_from_the_grid_of_the_plan():
    assert query_tile(PLAIN, bind(PLAIN.params)) == 64
    assert query_tile(PERSISTENT, bind(PERSISTENT.params)) == 128


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_a_part_of_the_tasks_of_a_persistent_kernel_is_named(count):
    workload = AttentionWorkload(2, 4, 1024, 128)
    schedule, described = some_tasks(132, workload, 128, count)
    assert len(schedule.tasks) == count and len(schedule.offsets) == 133
    done = [task for block in range(132) for task in schedule.of_block(block)]
    assert len(set(done)) == count
    assert (0, 0, 0) in done
    assert f"{count} of 64 tasks" in described
    part = choose_blocks(PERSISTENT.plan, bind(PERSISTENT.params), workload, None, schedule, 128)
    assert len(part.blocks) == -(-count // 2)
    assert part.rows == 128 * count


def test_more_tasks_than_blocks_still_all_run():
    schedule, _ = some_tasks(2, AttentionWorkload(1, 2, 1024, 128), 128, 16)
    assert [len(schedule.of_block(block)) for block in range(2)] == [8, 8]
