"""The host-built work list of persistent causal kernels: which block computes which query tiles, in which order.

The work of a query tile grows with its position, so equal counts are not equal work. The cost of tile `bm` is the
seed's, `2 * (bm + 1) + fixed_cost`. Heads are handled in windows whose K and V fit in a part of the L2 cache that all
blocks share; inside a window tiles go out in descending order, the heads of a window beside one another, each to the
block with the least work so far; a block keeps its tiles in the order in which it got them. So the blocks walk over the
heads in step, and what is left for the end of a window is small (docs/measurements.md: 1 to 3 % faster on an H200 than
pairs of heads, rebalanced and sorted by head).
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croq.diagnostics import Diagnostic, LaunchError, make

FIXED_COST = 4
WINDOW = 128  # key tiles of 128 rows whose K and V the blocks work on together: 8 MiB at head size 128
FIXED_COST_VARIABLE = "CROQ_SCHED_FIXED_COST"

# A task is `tile | head << 8 | batch << 14`; the batch keeps the s32 positive.
TILE_BITS, HEAD_BITS, BATCH_BITS = 8, 6, 17
_HEAD_SHIFT, _BATCH_SHIFT = TILE_BITS, TILE_BITS + HEAD_BITS


@dataclass(frozen=True)
class Schedule:
    """Block `i` computes `tasks[offsets[i]:offsets[i + 1]]`; both arrays are int32 and read-only."""

    tasks: NDArray[np.int32]
    offsets: NDArray[np.int32]
    loads: tuple[int, ...] = field(repr=False)  # estimated cost of each block

    @property
    def blocks(self) -> int:
        return len(self.offsets) - 1

    def of_block(self, block: int) -> list[tuple[int, int, int]]:
        """The (tile, head, batch) tasks of one block, in order."""
        part = self.tasks[int(self.offsets[block]) : int(self.offsets[block + 1])]
        return [decode(int(task)) for task in part]


def encode(tile: int, head: int, batch: int) -> int:
    """The task word of a query tile; the caller has checked the limits."""
    return tile | head << _HEAD_SHIFT | batch << _BATCH_SHIFT


def decode(task: int) -> tuple[int, int, int]:
    """(tile, head, batch) of a task word."""
    return task & (1 << TILE_BITS) - 1, task >> _HEAD_SHIFT & (1 << HEAD_BITS) - 1, task >> _BATCH_SHIFT


def tile_cost(tile: int, fixed_cost: int) -> int:
    """Estimated cost of a causal query tile: one QK and one PV a key tile, and what every task costs anyway."""
    return 2 * (tile + 1) + fixed_cost


def build_schedule(batch: int, heads: int, tiles: int, blocks: int, fixed_cost: int | None = None) -> Schedule:
    """The work list for `tiles` query tiles of each of `batch * heads` entries, on `blocks` persistent blocks.

    `fixed_cost` defaults to the environment's CROQ_SCHED_FIXED_COST, else 4. A block may get no task. Raises
    `LaunchError`: E-4170 for a size that a task word cannot hold, E-4171 for a bad CROQ_SCHED_FIXED_COST. The result
    is cached by size; the same sizes give the same lists on every machine.
    """
    faults = list(_limits(batch, heads, tiles, blocks))
    if faults:
        raise LaunchError(faults)
    return _build(batch, heads, tiles, blocks, _fixed_cost() if fixed_cost is None else fixed_cost)


def _limits(batch: int, heads: int, tiles: int, blocks: int) -> Iterator[Diagnostic]:
    for what, value, bits in (
        ("query tiles", tiles, TILE_BITS),
        ("heads", heads, HEAD_BITS),
        ("batch", batch, BATCH_BITS),
    ):
        if not 1 <= value <= 1 << bits:
            yield make(
                "E-4170",
                None,
                f"{what} = {value} does not fit the task word of a persistent kernel: 1 to {1 << bits}",
                notes=[f"a task is `tile | head << {_HEAD_SHIFT} | batch << {_BATCH_SHIFT}` in a positive s32"],
                hint="use a kernel without a work list (v4), or split the launch",
            )
    if blocks < 1:
        yield make("E-4170", None, f"a persistent kernel needs at least one block, not {blocks}")


def _fixed_cost() -> int:
    text = os.environ.get(FIXED_COST_VARIABLE, "").strip()
    if not text:
        return FIXED_COST
    if not text.isdecimal():
        message = f"`{FIXED_COST_VARIABLE}` is `{text}`, and must be a whole number, 0 or more"
        raise LaunchError([make("E-4171", None, message, hint=f"unset it for the default {FIXED_COST}")])
    return int(text)


@lru_cache(maxsize=64)
def _build(batch: int, heads: int, tiles: int, blocks: int, fixed_cost: int) -> Schedule:
    lists: list[list[int]] = [[] for _ in range(blocks)]
    loads = [(0, block) for block in range(blocks)]  # a heap: the least-loaded block, the first of equals
    window = max(1, WINDOW // tiles)
    for first in range(0, batch * heads, window):
        entries = range(first, min(first + window, batch * heads))
        for tile, entry in product(reversed(range(tiles)), entries):
            load, block = loads[0]
            lists[block].append(encode(tile, entry % heads, entry // heads))
            heapq.heapreplace(loads, (load + tile_cost(tile, fixed_cost), block))
    tasks = [task for tasks in lists for task in tasks]
    offsets = [0, *accumulate(len(tasks) for tasks in lists)]
    return Schedule(
        _frozen(tasks), _frozen(offsets), tuple(load for load, _ in sorted(loads, key=lambda item: item[1]))
    )


def _frozen(values: list[int]) -> NDArray[Any]:
    array = np.asarray(values, dtype=np.int32)
    array.setflags(write=False)
    return array
