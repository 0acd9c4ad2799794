"""Arguments for a plan's program and what it must compute. Small integers: every sum is exact in every type used."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.random_pipelines.pipeline_plans import Plan

Array = NDArray[Any]
TYPES: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "s32": np.int32}


@dataclass
class Inputs:
    arrays: dict[str, Array]
    scalars: dict[str, int | float]
    want: Array

    def fresh(self) -> dict[str, Array]:
        return {name: array.copy() for name, array in self.arrays.items()}


def inputs(plan: Plan, size: int) -> Inputs:
    """Arguments number `size` (0: smallest trip counts) of a plan."""
    rng = random.Random(plan.seed * 16 + size)
    deepest = max(ring.depth for ring in plan.rings)
    units, trips, first = _units(plan, rng, size, deepest)
    k_tiles = max([f + t for f, t in zip(first, trips, strict=True)] + [1])
    data = np.random.default_rng(plan.seed * 16 + size)
    element = TYPES[plan.element]
    arrays: dict[str, Array] = {}
    if plan.stationary:
        arrays["q"] = data.integers(-2, 3, (units * plan.a_rows, plan.k)).astype(element)
    else:
        arrays["a"] = data.integers(-2, 3, (units * plan.a_rows, k_tiles * plan.k)).astype(element)
    b = data.integers(-2, 3, (plan.columns, k_tiles * plan.k)).astype(element)
    arrays["b"] = np.ascontiguousarray(b.T) if plan.columns_first else b
    arrays["c"] = np.full((units * 64 * plan.row_tiles, plan.columns), np.nan, TYPES[plan.out])
    scalars: dict[str, int | float] = {}
    if plan.outer in ("tasks", "lists", "strided"):
        arrays["starts"], arrays["lengths"] = np.array(first, np.int32), np.array(trips, np.int32)
    if plan.outer == "lists":
        cut = units if size == 2 else rng.randint(0, units)
        arrays["first"] = np.array([0, cut, units], np.int32)
    if plan.outer == "nested":
        scalars["turns"] = units
    if plan.trips == "steps":
        scalars["steps"] = trips[0] if trips else 0
    return Inputs(arrays, scalars, _reference(plan, arrays, trips, first))


def _units(plan: Plan, rng: random.Random, size: int, deepest: int) -> tuple[int, list[int], list[int]]:
    """How many units there are, and for each its trip count and first K tile."""
    if plan.outer == "none":
        least = 1 if plan.trips != "steps" else 0
        trips = [least, 1, deepest + 1, rng.randint(least, 2 * deepest + 1)][min(size, 3)]
        return 1 + size % 2, [trips] * (1 + size % 2), [0] * (1 + size % 2)
    units = [1, 3, 4, 3][min(size, 3)]
    if plan.outer == "nested":
        steps = [0, deepest, deepest + 1, rng.randint(1, 4)][min(size, 3)]
        counts = {"steps": [steps] * units, "turn + 1": range(1, units + 1), "turn % 3": [u % 3 for u in range(units)]}
        return units, list(counts[plan.trips]), list(range(units))
    if size == 2:  # round a ring and further, then short ones
        return units, [deepest, deepest + 1, 1, 2], [0, 2, 1, 0]
    lengths = [rng.choice([0, 1, 1, 2, deepest, deepest + 1]) for _ in range(units)]
    return units, lengths, [rng.randint(0, 2) for _ in range(units)]


def _reference(plan: Plan, arrays: dict[str, Array], trips: list[int], first: list[int]) -> Array:
    rows, k = plan.a_rows, plan.k
    b = arrays["b"].astype(np.float64)
    b = b.T if plan.columns_first else b
    want = np.full(arrays["c"].shape, np.nan)
    tall = 64 * plan.row_tiles
    for unit, (count, start) in enumerate(zip(trips, first, strict=True)):
        columns = slice(start * k, (start + count) * k)
        if plan.stationary:
            a = np.tile(arrays["q"][unit * rows : (unit + 1) * rows].astype(np.float64), (1, count))
        else:
            a = arrays["a"][unit * rows : (unit + 1) * rows, columns].astype(np.float64)
        if plan.relay:
            a = np.maximum(a, 0)
        made = a @ b[:, columns].T
        part = plan.n * plan.shares
        for j in plan.bump:
            made[:, j * part : (j + 1) * part] += count
        want[unit * tall : (unit + 1) * tall] = np.tile(made, (tall // rows, 1))
    return want.astype(TYPES[plan.out])
