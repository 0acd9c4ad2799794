"""The host-built work list of persistent causal kernels: which block computes which query tiles, in which order.

The work of a query tile grows with its position, so equal counts are not equal work. The rule is the seed's: the cost
of tile `bm` is `2 * (bm + 1) + fixed_cost`; (batch, head) entries are handled in pairs, query tiles descending, each
pair of tiles going to the block with the least estimated work; then units are moved between the heaviest and the
lightest block while that narrows the gap, pairs staying together; last, each block's list is put in (batch, head)
order, so that K and V of a head are read by many blocks at about the same time.

The pairs are the outer order: a window of two heads is spread before the next one is begun. That is what makes the
blocks walk over the heads in step (measured on an H200: 8 to 30 % faster than spreading all heads at once).
"""

from __future__ import annotations

import heapq
import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croq.diagnostics import Diagnostic, LaunchError, make

FIXED_COST = 4
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

    @property
    def gap(self) -> int:
        """Estimated cost of the heaviest block less that of the lightest."""
        return max(self.loads) - min(self.loads)

    def of_block(self, block: int) -> list[tuple[int, int, int]]:
        """The (tile, head, batch) tasks of one block, in order."""
        part = self.tasks[int(self.offsets[block]) : int(self.offsets[block + 1])]
        return [decode(int(task)) for task in part]


@dataclass(frozen=True)
class _Unit:
    """One query tile of a pair of (batch, head) entries: what is handed out and moved as a whole."""

    pair: int
    entries: tuple[int, ...]  # flat indices batch * heads + head
    tile: int
    cost: int


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
    bins, loads = _spread(batch * heads, tiles, blocks, fixed_cost)
    _rebalance(bins, loads)
    tasks: list[int] = []
    offsets = [0]
    for units in bins:
        # Longest tile first within a head: the order in which the tiles were handed out.
        flat = sorted((entry, -unit.tile) for unit in units for entry in unit.entries)
        tasks.extend(encode(-tile, entry % heads, entry // heads) for entry, tile in flat)
        offsets.append(len(tasks))
    return Schedule(_frozen(tasks), _frozen(offsets), tuple(loads))


def _spread(entries: int, tiles: int, blocks: int, fixed_cost: int) -> tuple[list[list[_Unit]], list[int]]:
    """Hand the units out in order, each to the least-loaded block (the first of equals)."""
    bins: list[list[_Unit]] = [[] for _ in range(blocks)]
    heap = [(0, index) for index in range(blocks)]
    for pair, first in enumerate(range(0, entries, 2)):
        members = tuple(range(first, min(first + 2, entries)))
        for tile in reversed(range(tiles)):
            unit = _Unit(pair, members, tile, len(members) * tile_cost(tile, fixed_cost))
            load, index = heap[0]
            bins[index].append(unit)
            heapq.heapreplace(heap, (load + unit.cost, index))
    loads = [0] * blocks
    for load, index in heap:
        loads[index] = load
    return bins, loads


def _rebalance(bins: list[list[_Unit]], loads: list[int]) -> None:
    """Move or swap one unit at a time between the heaviest and the lightest block while their gap shrinks.

    The gap of all blocks never grows, and ends no larger than one unit: that much the hand-out guarantees. Each step
    shrinks the sum of the squared loads, whole numbers, so it ends.
    """
    while True:
        heavy = loads.index(max(loads))
        light = loads.index(min(loads))
        step = _best_exchange(bins[heavy], bins[light], loads[heavy] - loads[light])
        if step is None:
            return
        give, take = step
        bins[heavy].remove(give)
        bins[light].append(give)
        moved = give.cost
        if take is not None:
            bins[light].remove(take)
            bins[heavy].append(take)
            moved -= take.cost
        loads[heavy] -= moved
        loads[light] += moved


def _best_exchange(heavy: list[_Unit], light: list[_Unit], gap: int) -> tuple[_Unit, _Unit | None] | None:
    """The exchange whose moved cost is nearest to half the gap; of equals, the one between the closest heads."""
    given, taken = _by_cost(heavy), _by_cost(light)
    costs = [0, *sorted(taken)]  # 0: nothing comes back
    best: tuple[int, int, int] | None = None
    for cost in sorted(given):
        near = bisect_left(costs, cost - gap // 2)
        for back in costs[max(0, near - 1) : near + 2]:
            moved = cost - back
            if 0 < moved < gap and (best is None or abs(gap - 2 * moved) < best[0]):
                best = abs(gap - 2 * moved), cost, back
    if best is None:
        return None
    _, cost, back = best
    if back == 0:
        return given[cost][-1], None
    pairs = [(a, b) for a in given[cost] for b in taken[back]]
    return min(pairs, key=lambda pair: (abs(pair[0].pair - pair[1].pair), pair[0].pair, pair[1].pair))


def _by_cost(units: list[_Unit]) -> dict[int, list[_Unit]]:
    groups: dict[int, list[_Unit]] = defaultdict(list)
    for unit in units:
        groups[unit.cost].append(unit)
    return groups


def _frozen(values: list[int]) -> NDArray[Any]:
    array = np.asarray(values, dtype=np.int32)
    array.setflags(write=False)
    return array
