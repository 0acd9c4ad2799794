"""Fragments, copies, hand-offs, scalars, macros: kernels without a matrix product at their heart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.programs.entries import BF16, EXACT, F32, Program, Variant, given, result, scalar
from tests.programs.references import (
    Array,
    branches,
    clamp_product,
    compose,
    dma_async,
    integers,
    layer_norm,
    map_scalars,
    softmax_rows,
    sub_warps,
    uniform_fragments,
    writers,
)


def _modes(rng: np.random.Generator, names: Mapping[str, Any]) -> Array:
    fixed = np.array([3, 0, 1, 2, 0, 1], dtype=np.int32)
    return np.concatenate([fixed, rng.integers(0, 4, max(0, names["R"] - 6))])[: names["R"]].astype(np.int32)


def _all_words(rng: np.random.Generator, names: Mapping[str, Any]) -> Array:
    special = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 7, 6, 255], dtype=np.uint32)
    drawn = rng.integers(0, 2**32, max(0, names["N"] - 8), dtype=np.uint32)
    return np.concatenate([special, drawn])[: names["N"]]


def _signed_words(rng: np.random.Generator, names: Mapping[str, Any]) -> Array:
    special = np.array([0, 1, -1, 2**31 - 1, 1 - 2**31, 7, -7, -8], dtype=np.int32)
    drawn = rng.integers(-(2**31) + 1, 2**31, max(0, names["N"] - 8), dtype=np.int32)
    return np.concatenate([special, drawn])[: names["N"]]


def _small_ints(rng: np.random.Generator, names: Mapping[str, Any]) -> Array:
    return rng.integers(-1000, 1000, (names["R"], names.get("W", 128)), dtype=np.int32)


def _writers(count: int, stages: int, *rows: int) -> Variant:
    facts = {
        "events": {
            "filled": dict(slots=stages, arrivals=4 * count, ready=False, triggers=[[0, 128 * count]]),
            "free": dict(slots=stages, arrivals=4, ready=True, waiters=[[0, 128 * count]], lowering="mbarrier"),
        }
    }
    sizes = tuple({"R": r} for r in rows)
    return Variant(f"w{count}_s{stages}", {"WRITERS": count, "STAGES": stages}, sizes, {"R": 200}, facts)


REST = (
    Program(
        "softmax_rows.co",
        (given("x", "f32", "M", "N"), result("y", "f32", "M", "N"), result("maxima", "f32", "M")),
        softmax_rows,
        (1e-5, 1e-4),
        (
            Variant(
                sizes=({"M": 70, "N": 91},),
                large={"M": 5000, "N": 96},
                plan={"layouts": {"tile": "accumulator", "top": "row", "total": "row"}},
            ),
            Variant("c256", {"COLS": 256}, ({"M": 64, "N": 256},), {"M": 5000, "N": 255}),
            Variant("c8", {"COLS": 8}, ({"M": 3, "N": 5},), {"M": 5001, "N": 7}),
        ),
    ),
    Program(
        "layer_norm.co",
        (
            given("x", "bf16", "M", 128),
            given("gain", "f32", 128),
            given("shift", "f32", 128),
            result("y", "bf16", "M", 128),
            scalar("epsilon", "f32", 1e-5),
        ),
        layer_norm,
        BF16,
        (Variant(sizes=({"M": 75},), large={"M": 5000}),),
    ),
    Program(
        "uniform_fragments.co",
        (given("x", "f32", "R", 300), result("y", "f32", "R", 300), result("z", "f32", "R", 40)),
        uniform_fragments,
        (1e-5, 1e-6),
        (Variant(sizes=({"R": 2},), large={"R": 1000}, plan={"layouts": {"value": "uniform", "few": "uniform"}}),),
    ),
    Program(
        "transpose.co",
        (given("a", "f32", "M", "N"), result("b", "f32", "N", "M")),
        lambda a: {"b": a.T},
        EXACT,
        (
            Variant("plain", sizes=({"M": 70, "N": 65},), large={"M": 1001, "N": 777}, plan={"swizzles": {"tile": 0}}),
            Variant("swiz128", {"SWIZ": 128}, ({"M": 64, "N": 100},), {"M": 1001, "N": 777}),
            Variant("swiz32", {"SWIZ": 32, "TILE": 32}, ({"M": 33, "N": 31},), {"M": 1001, "N": 777}),
        ),
    ),
    Program(
        "copy_chain.co",
        (given("x", "ELEM", "M", "N"), result("y", "ELEM", "M", "N")),
        lambda x: {"y": x},
        EXACT,
        (
            Variant("f32", sizes=({"M": 33, "N": 67},), large={"M": 1001, "N": 777}),
            Variant("f16", {"ELEM": "f16", "SWIZ": 128, "COLS": 128}, ({"M": 31, "N": 129},), {"M": 1001, "N": 777}),
            Variant("aligned", {"ELEM": "bf16", "SWIZ": 32, "COLS": 16}, ({"M": 64, "N": 48},), {"M": 1024, "N": 512}),
            Variant("u32", {"ELEM": "u32", "SWIZ": 64, "COLS": 16}, ({"M": 20, "N": 20},), {"M": 1001, "N": 777}),
        ),
        {"ELEM": "f32"},
    ),
    Program(
        "dma_async.co",
        (given("x", "f32", "M", 64), given("y", "f32", "M", 64), result("z", "f32", "M", 64)),
        dma_async,
        (1e-5, 1e-5),
        (Variant(sizes=({"M": 40},), large={"M": 1001}),),
    ),
    Program(
        "handoff.co",
        (given("x", "f32", "R", 128), result("y", "f32", "R", 128)),
        lambda x: {"y": 2 * x[:, ::-1]},
        EXACT,
        (
            Variant(
                sizes=({"R": 1}, {"R": 2}, {"R": 7}),
                large={"R": 300},
                plan={
                    "events": {
                        "free": dict(lowering="named_barrier", threads=256, waiters=[[0, 128]], triggers=[[128, 256]]),
                        "filled": dict(lowering="mbarrier", arrivals=4, ready=False),
                    }
                },
            ),
        ),
    ),
    Program(
        "slot_events.co",
        (given("x", "s32", "R", 128, make=_small_ints), result("y", "s32", "R", 128)),
        lambda x: {"y": 3 * np.roll(x, -1, axis=1) + np.arange(len(x))[:, None]},
        EXACT,
        (
            Variant("s3", sizes=tuple({"R": r} for r in (1, 2, 3, 4, 11)), large={"R": 300}),
            Variant("s2", {"STAGES": 2}, ({"R": 7},), {"R": 300}),
            Variant("s5", {"STAGES": 5}, ({"R": 12},), {"R": 300}),
        ),
    ),
    Program(
        "writers.co",
        (given("x", "f32", "R", 128), result("y", "f32", "R", 128), scalar("count", "", "WRITERS")),
        writers,
        (1e-4, 1e-5),
        (_writers(1, 3, 4), _writers(2, 1, 1, 3), _writers(3, 2, 1, 5)),
    ),
    Program(
        "few_threads.co",
        (given("x", "s32", "R", 16, make=_small_ints), result("y", "s32", "R", 5)),
        lambda x: {"y": x[:, :5] + x[:, 11:]},
        EXACT,
        (
            Variant(
                sizes=({"R": 1, "W": 16}, {"R": 5, "W": 16}),
                large={"R": 300, "W": 16},
                plan={
                    "events": {
                        "filled": dict(lowering="mbarrier", arrivals=16, triggers=[[0, 16]], waiters=[[168, 173]]),
                        "free": dict(lowering="mbarrier", arrivals=5, ready=True, waiters=[[0, 16]]),
                    }
                },
            ),
        ),
    ),
    Program(
        "sub_warps.co",
        (given("x", "f32", "R", 128), result("y", "f32", "R", 32)),
        sub_warps,
        (1e-4, 1e-5),
        (Variant(sizes=({"R": 2},), large={"R": 1000}),),
    ),
    Program(
        "branches.co",
        (
            given("a", "f16", "R", 64, 64),
            given("b", "f16", 64, 64),
            given("mode", "s32", "R", make=_modes),
            result("c", "f32", "R", 64, 64),
        ),
        branches,
        F32,
        (Variant(sizes=({"R": 6},), large={"R": 50}, plan={"wait_depths": {"product": 0}}),),
    ),
    Program(
        "integers.co",
        (
            given("a", "s32", "N", make=_signed_words),
            given("b", "u32", "N", make=_all_words),
            result("si", "s32", "N", 8),
            result("ui", "u32", "N", 8),
        ),
        integers,
        EXACT,
        (Variant(sizes=({"N": 70},), large={"N": 5000}),),
    ),
    Program(
        "tree_sum.co",
        (given("x", "f32", "R", "N"), result("y", "f32", "R")),
        lambda x: {"y": x.sum(1)},
        (1e-4, 1e-5),
        (Variant(sizes=({"R": 2, "N": 700},), large={"R": 500, "N": 10000}),),
    ),
    Program(
        "compose.co",
        (
            given("x", "s32", "M", "N", make=lambda rng, n: rng.integers(0, 1000, (n["M"], n["N"]), dtype=np.int32)),
            result("y", "s32", "M", "N"),
        ),
        compose,
        EXACT,
        (Variant(sizes=({"M": 64, "N": 48},), large={"M": 1024, "N": 512}),),
    ),
    Program(
        "helpers.co",
        (given("x", "f32", "N"), result("y", "f32", "N"), scalar("knee", "f32", 0.25)),
        map_scalars,
        (1e-6, 1e-6),
        (Variant(sizes=({"N": 300},), large={"N": 100000}),),
        kernel="map_scalars",
    ),
    Program(
        "helpers.co",
        (
            given("a", "bf16", "M", 64),
            given("b", "bf16", 64, 64),
            result("c", "f32", "M", 64),
            scalar("limit", "f32", 1.5),
        ),
        clamp_product,
        F32,
        (Variant(sizes=({"M": 100},), large={"M": 5000}),),
        kernel="clamp_product",
    ),
    *(
        Program(
            "macros.co",
            (given("x", "f32", "N"), given("y", "f32", "N"), result("z", "f32", "N")),
            reference,
            (1e-6, 1e-6),
            (Variant(f"mode{mode}", {"MODE": mode, **more}, ({"N": 100},), {"N": 100000}),),
            kernel="macros",
        )
        for mode, more, reference in (
            (0, {}, lambda x, y: {"z": x}),
            (1, {}, lambda x, y: {"z": x + 2 * y}),
            (2, {}, lambda x, y: {"z": 0.5 * (x - y)}),
            (4, {"SCALE": "3.0f"}, lambda x, y: {"z": 3 * (x - y)}),
        )
    ),
)
