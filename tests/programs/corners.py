"""Corners of views, of what is in flight, of events and of `apply`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.programs.entries import (
    BF16,
    EXACT,
    F16,
    F32,
    LARGE,
    NUMPY_TYPES,
    Program,
    Variant,
    given,
    mnk,
    operands,
    result,
    ring,
    scalar,
)
from tests.programs.references import (
    LOG2E,
    Array,
    apply_rules,
    attention,
    chain_b,
    chain_shared,
    conversions,
    facts,
    filled,
    gemm,
    k_parts,
    long_flight,
    m_parts,
    math_functions,
    mn_parts,
    predicates,
    reentered,
    scalars,
    stop_early,
    two_launches,
    two_readers,
)


def _bytes(rng: np.random.Generator, names: Mapping[str, Any]) -> Array:
    return rng.integers(0, 56, names["N"], dtype=np.uint8)


def _rows_of_ints(width: int | None = None) -> Callable[[np.random.Generator, Mapping[str, Any]], Array]:
    def draw(rng: np.random.Generator, names: Mapping[str, Any]) -> Array:
        shape = (names["R"],) if width is None else (names["R"], width)
        return rng.integers(-1000, 1000, shape, dtype=np.int32)

    return draw


def _stopping_list(rng: np.random.Generator, names: Mapping[str, Any]) -> Array:
    """Entries from 1 to 2 M, and a 0 at place `stop`."""
    entries = rng.integers(1, 2 * names["M"] + 1, names["R"], dtype=np.int32)
    entries[names["stop"] : names["stop"] + 1] = 0
    return entries


def _small(*shape: int | str) -> Callable[[np.random.Generator, Mapping[str, Any]], Array]:
    """Small whole numbers, whose products add up to the same in every order."""

    def draw(rng: np.random.Generator, names: Mapping[str, Any]) -> Array:
        extents = [n if isinstance(n, int) else names[n] for n in shape]
        return rng.integers(-4, 5, extents).astype(np.float32).astype(NUMPY_TYPES[names.get("ELEM", "bf16")])

    return draw


def _parts(element: str, width: int, k: int, tile: int, step: int) -> dict[str, Any]:
    """Macros of programs that cut K into tiles of `tile` from every multiple of `step`."""
    return {"ELEM": element, "W": width, "K": k, "T": tile, "STEP": step, "COUNT": (k - tile) // step + 1}


CORNERS = (
    Program(
        "chain_shared.co",
        (
            given("a", "bf16", "M", 64),
            given("b", "bf16", "T", 64, 64),
            given("c", "bf16", "T", 64, 64),
            result("d", "f32", "M", 64),
        ),
        chain_shared,
        (2e-1, 1e-2),
        (Variant(sizes=({"M": 64, "T": 3},), large={"M": 1000, "T": 9}),),
    ),
    Program(
        "sub_tiles.co",
        (given("a", "f16", "M", 128), given("b", "f16", 128, 128), result("c", "f16", "M", 128)),
        gemm,
        F16,
        (Variant(sizes=({"M": 128},), large={"M": 1000}, plan={"events": {"full": ring(1, 128 * 256 * 2)}}),),
    ),
    Program(
        "apart_rows.co",
        (given("a", "f16", 64, 64), given("b", "f16", 64, 64), result("c", "f16", 64, 2, 64)),
        lambda a, b: {"c": np.stack([a @ b.T, 2 * (a @ b.T)], axis=1)},
        F16,
        (Variant(sizes=({},)),),
    ),
    Program(
        "k_parts.co",
        (
            given("a", "ELEM", 72, "K", make=_small(72, "K")),
            given("b", "ELEM", "N", "K", make=_small("N", "K")),
            result("c", "f32", 64, "N"),
            *(scalar(name, "", name) for name in ("T", "STEP", "COUNT")),
        ),
        k_parts,
        EXACT,
        tuple(
            Variant(
                f"{element}-{width}-{tile}-by-{step}", _parts(element, width, k, tile, step) | {"N": n}, sizes=({},)
            )
            for element, width, k, tile, step, n in [
                *(("bf16", w, 192, t, t, 64) for w in (128, 64, 32) for t in (16, 48, 96)),
                *(("f16", w, 320, 80, 80, 24) for w in (128, 64)),
                *(("bf16", w, 192, 48, 16, 64) for w in (128, 64)),
                ("f16", 128, 192, 112, 32, 8),
                ("f8_e4m3", 128, 384, 96, 96, 64),
                ("f8_e4m3", 64, 384, 160, 32, 64),
                ("tf32", 128, 96, 24, 24, 64),
                ("tf32", 64, 96, 40, 8, 64),
            ]
        ),
    ),
    Program(
        "m_parts.co",
        (
            given("a", "bf16", 144, 256, make=_small(144, 256)),
            given("b", "bf16", 144, 64, make=_small(144, 64)),
            given("b_t", "bf16", 64, 144, make=_small(64, 144)),
            result("c", "f32", "M", 64),
            scalar("M", "", "M"),
            scalar("ALONG_K", "", "ALONG_K"),
        ),
        m_parts,
        EXACT,
        tuple(
            Variant(f"{width}-{m}-{('n', 'k')[along]}", {"W": width, "M": m, "ALONG_K": along}, sizes=({},))
            for width in (128, 64, 32)
            for m in (64, 128)
            for along in (0, 1)
        ),
    ),
    Program(
        "mn_parts.co",
        (
            given("a", "ELEM", 64, "T", make=_small(64, "T")),
            given("b", "ELEM", "K", 192, make=_small("K", 192)),
            result("c", "f32", 64, 64),
            *(scalar(name, "", name) for name in ("T", "STEP", "COUNT")),
        ),
        mn_parts,
        EXACT,
        tuple(
            Variant(f"{element}-{width}-{tile}-by-{step}", _parts(element, width, 96, tile, step), sizes=({},))
            for element, width, tile, step in [
                *(("bf16", w, t, t) for w in (128, 64, 32) for t in (16, 48)),
                *(("f16", w, 32, 8) for w in (128, 64, 32)),
            ]
        ),
    ),
    Program(
        "col_parts.co",
        (given("a", "bf16", "M", 64), given("b", "bf16", 64, 256), result("c", "f32", "M", 256)),
        lambda a, b: {"c": a @ b},
        F32,
        (Variant(sizes=({"M": 70},), large={"M": 1000}),),
    ),
    Program(
        "tall_fragments.co",
        (given("q", "f16", "M", 64), given("k", "f16", 96, 64), given("v", "f16", 96, 64), result("o", "f16", "M", 64)),
        lambda q, k, v: {"o": attention(q[None, :, None], k[None, :, None], v[None, :, None], 1.0)["o"][0, :, 0]},
        (2e-3, 4e-3),
        (Variant(sizes=({"M": 150},), large={"M": 2000}, plan={"layouts": {"top": "row", "probs": "accumulator"}}),),
    ),
    Program(
        "long_flight.co",
        (
            given("a", "bf16", 3, 64, 64),
            given("b", "bf16", 64, 64),
            result("c", "f32", 3, 64, 64),
            scalar("rounds", "s32", "rounds"),
        ),
        long_flight,
        F32,
        (
            Variant(
                sizes=tuple({"rounds": n} for n in range(4)),
                large={"rounds": 5},
                plan={"wait_depths": {"short_one": 0, "long_one": 0, "other": 1, "more": 0, "again": 0}},
            ),
        ),
    ),
    Program(
        "two_readers.co",
        (
            given("x", "s32", "R", 128, make=_rows_of_ints(128)),
            result("y", "s32", "R", 128),
            result("z", "s32", "R", 128),
        ),
        two_readers,
        EXACT,
        (
            Variant(
                sizes=({"R": 2}, {"R": 4}, {"R": 10}),
                large={"R": 300},
                plan={
                    "events": {"free": dict(arrivals=8, triggers=[[0, 128], [256, 384]]), "filled": dict(arrivals=4)}
                },
            ),
        ),
    ),
    Program(
        "barrier_ids.co",
        (given("x", "s32", "R", 16, make=_rows_of_ints(16)), result("y", "s32", "R", 16)),
        lambda x: {"y": 2 * (x + np.arange(len(x))[:, None])},
        EXACT,
        (Variant(sizes=({"R": 3},), large={"R": 100}),),
    ),
    *(
        Program(
            "tma_shapes.co",
            (given("x", dtype, *shape), result("y", dtype, *shape)),
            reference,
            EXACT,
            (variant,),
            kernel=kernel,
        )
        for kernel, dtype, shape, reference, variant in (
            ("tma_line", "f32", ("N",), lambda x: {"y": x}, Variant(sizes=({"N": 300},), large={"N": 100000})),
            (
                "tma_tall",
                "f16",
                ("M", "N"),
                lambda x: {"y": x},
                Variant(sizes=({"M": 410, "N": 40},), large={"M": 2000, "N": 200}),
            ),
            (
                "tma_five",
                "bf16",
                ("A", "B", "C", "M", 128),
                lambda x: {"y": x},
                Variant(sizes=({"A": 2, "B": 1, "C": 2, "M": 20},), large={"A": 3, "B": 4, "C": 5, "M": 100}),
            ),
            (
                "tma_box",
                "f32",
                ("A", "M", 32),
                lambda x: {"y": 2 * x},
                Variant(sizes=({"A": 5, "M": 9},), large={"A": 33, "M": 100}),
            ),
        )
    ),
    Program(
        "apply_rules.co",
        (given("x", "f32", 64, 64), result("y", "f32", 64, 64), result("rows", "f32", 64, 4)),
        apply_rules,
        (2e-2, 1e-3),
        (Variant(sizes=({},), large={}),),
    ),
    Program(
        "reentered.co",
        (given("x", "f32", "R", 256), result("y", "f32", "R", 256)),
        reentered,
        (1e-3, 1e-5),
        (Variant(sizes=({"R": 3},), large={"R": 40}),),
    ),
    Program(
        "two_launches.co",
        (given("x", "f32", "N"), result("part", "f32", "P"), result("total", "f32", 1), scalar("parts", "", "P")),
        two_launches,
        (1e-3, 1e-5),
        (Variant(sizes=({"N": 1000, "P": 3},), large={"N": 100000, "P": 70}),),
    ),
    Program(
        "warp_units.co",
        (given("x", "f32", "R", 100), result("y", "f32", "R", 100)),
        lambda x: {"y": x * x + 0.5},
        (1e-6, 1e-6),
        (Variant(sizes=({"R": 6},), large={"R": 1000}, plan={"layouts": {"value": "uniform"}}),),
    ),
    Program(
        "facts.co",
        (given("x", "f32", "M", "N"), result("out", "s32", 16), result("y", "f32", "M", "N")),
        facts,
        EXACT,
        (Variant(sizes=({"M": 13, "N": 5},), large={"M": 13, "N": 5}),),
    ),
    Program(
        "narrow_types.co",
        (
            given("a", "u8", "N", make=_bytes),
            given("b", "s8", "N"),
            given("c", "s16", "N"),
            given("h", "bf16", "N"),
            result("sums", "s32", "N"),
            result("bytes", "u8", "N"),
            result("means", "bf16", "N"),
        ),
        lambda a, b, c, h: {"sums": a * b + c, "bytes": (a + 200) % 256, "means": (a + h) * 0.5},
        (2e-3, 4e-3),
        (Variant(sizes=({"N": 200},), large={"N": 100000}),),
    ),
    Program(
        "declared_accumulator.co",
        (
            given("a", "f16", 2, 64, 64),
            given("b", "f16", 64, 64),
            given("start", "f32", 64, 64),
            result("c", "f32", 3, 64, 64),
        ),
        lambda a, b, start: {"c": np.stack([a[0] @ b.T, a[1] @ b.T, start + a[0] @ b])},
        F32,
        (Variant(sizes=({},), large={}),),
    ),
    Program(
        "stored_by_copy.co",
        (
            given("a", "bf16", "M", 64),
            given("b", "bf16", 64, 64),
            result("c", "bf16", "M", 64),
            result("sums", "f32", "M"),
        ),
        lambda a, b: {"c": a @ b.T, "sums": (a @ b.T).sum(1)},
        (2e-1, 1e-2),
        (Variant(sizes=({"M": 70},), large={"M": 1000}),),
    ),
    Program(
        "warpgroup_grid.co",
        operands("bf16"),
        gemm,
        BF16,
        (Variant(sizes=(mnk(128, 128, 128), mnk(72, 136, 72)), large=LARGE),),
    ),
    Program(
        "ping_pong.co",
        (given("a", "f16", "M", "K"), given("b", "f16", 64, "K"), result("c", "f16", "M", 64)),
        gemm,
        F16,
        (
            Variant(
                sizes=({"M": 128, "K": 64}, {"M": 128, "K": 320}),
                large={"M": 2048, "K": 1024},
                plan={
                    "events": {
                        "turn0": dict(lowering="named_barrier", threads=256, ready=True),
                        "turn1": dict(lowering="mbarrier", arrivals=4, ready=False),
                    }
                },
            ),
        ),
    ),
    Program(
        "ready_twice.co",
        (given("x", "s32", "R", 64, make=_rows_of_ints(64)), result("y", "s32", "R", 64), result("z", "s32", 64)),
        lambda x: {"y": x[:, ::-1] * np.where(np.arange(len(x)) % 2 == 0, 1, -1)[:, None], "z": 1063 - np.arange(64)},
        EXACT,
        (Variant(sizes=({"R": 1}, {"R": 4}), large={"R": 100}),),
    ),
    Program(
        "shared_ring.co",
        (
            given("q", "f16", "S", 64),
            given("k", "f16", "T", 64),
            given("v", "f16", "T", 128),
            result("o", "f16", "S", 128),
            scalar("scale", "f32", "LOG2E / 8"),
        ),
        lambda q, k, v, scale: {
            "o": attention(q[None, :, None], k[None, :, None], v[None, :, None], scale)["o"][0, :, 0]
        },
        (2e-3, 4e-3),
        (
            Variant(
                "three",
                sizes=({"S": 64, "T": 320}, {"S": 100, "T": 64}),
                large={"S": 1000, "T": 1024},
                plan={"events": {"full": dict(arrivals=1, tx_bytes=64 * 256), "empty": dict(arrivals=4)}},
            ),
            Variant("one", {"STAGES": 1}, ({"S": 64, "T": 128},), {"S": 1000, "T": 1024}),
            Variant("four", {"STAGES": 4}, ({"S": 64, "T": 256},), {"S": 1000, "T": 1024}),
        ),
        {"LOG2E": LOG2E},
    ),
    Program(
        "predicates.co",
        (result("out", "s32", 384), scalar("limit", "s32", "limit")),
        predicates,
        EXACT,
        (Variant(sizes=({"limit": 0}, {"limit": 50}), large={"limit": 200}),),
    ),
    Program(
        "stop_early.co",
        (given("list", "s32", "R", make=_stopping_list), given("x", "f32", "M", 64), result("y", "f32", "R", 64)),
        stop_early,
        (1e-6, 1e-6),
        (
            Variant(
                sizes=({"R": 12, "M": 9, "stop": 9}, {"R": 3, "M": 9, "stop": 0}),
                large={"R": 300, "M": 70, "stop": 300},
            ),
        ),
    ),
    Program(
        "scalars.co",
        (
            scalar("flip", "bool", "flip"),
            given("x", "f32", "M", 32),
            scalar("mask", "u32", 0x80F0_0001),
            scalar("factor", "f32", 0.5),
            result("places", "s32", "X", "Y", "Z"),
            scalar("shift", "s32", -7),
            result("y", "f32", "M", 32),
            scalar("wide", "u64", 5_000_000_123),
            scalar("low", "s64", -3),
            scalar("grid", "", "[X, Y, Z]"),
        ),
        scalars,
        (1e-3, 1e-6),
        (
            Variant(
                sizes=(
                    {"flip": True, "M": 40, "X": 2, "Y": 3, "Z": 1},
                    {"flip": False, "M": 32, "X": 1, "Y": 1, "Z": 4},
                ),
                large={"flip": True, "M": 300, "X": 10, "Y": 7, "Z": 5},
            ),
        ),
    ),
    Program(
        "math.co",
        (given("x", "f32", "N"), result("y", "f32", "N", 12)),
        math_functions,
        (1e-5, 1e-5),
        (Variant(sizes=({"N": 70},), large={"N": 10000}),),
    ),
    Program(
        "conversions.co",
        (
            given("x", "f32", "N"),
            result("i", "s32", "N", 4),
            result("h", "f16", "N"),
            result("b", "bf16", "N", 2),
            result("c", "s32", "N", 3),
        ),
        conversions,
        EXACT,
        (Variant(sizes=({"N": 100},), large={"N": 10000}),),
    ),
    Program(
        "clipped_views.co",
        (given("x", "f32", "M", "N"), result("y", "f32", "M", "N")),
        lambda x: {"y": 2 * x},
        EXACT,
        (Variant(sizes=({"M": 19, "N": 70},), large={"M": 1001, "N": 777}),),
    ),
    Program(
        "filled.co",
        (given("x", "f32", "R", 64), result("y", "f32", "R", 64)),
        filled,
        (1e-4, 1e-5),
        (Variant(sizes=({"R": 1}, {"R": 5}), large={"R": 40}),),
    ),
    Program(
        "turns.co",
        (
            given("x", "s32", "R", 128, make=_rows_of_ints(128)),
            result("y", "s32", "R", 128),
            scalar("count", "", "COUNT"),
        ),
        lambda x, count: {"y": x[:, ::-1] * 10 + (np.arange(len(x)) % count)[:, None]},
        EXACT,
        tuple(
            Variant(
                f"c{count}_s{stages}",
                {"COUNT": count, "STAGES": stages},
                tuple({"R": r} for r in rows),
                {"R": 300},
                {"events": {"empty": dict(arrivals=4, triggers=[[0, 128 * count]]), "full": dict(arrivals=4)}},
            )
            for count, stages, rows in ((2, 3, (2, 8)), (3, 3, (6,)), (2, 2, (4,)), (3, 5, (15,)))
        ),
    ),
    Program(
        "chain_b.co",
        (given("a", "f16", "M", 64), given("b", "f16", 3, 64, 64), result("d", "f32", "M", 64)),
        chain_b,
        (2e-2, 4e-3),
        (Variant(sizes=({"M": 100},), large={"M": 1000}),),
    ),
)
