"""Attention in shapes that no kernel of the project has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.programs.entries import Argument, Program, Sizes, Variant, given, result, ring, scalar
from tests.programs.references import LOG2E, Array, attention, attention_of_tasks


def _qkvo(dtype: str, dim: int | str, q: str = "S", kv: str = "S", kv_heads: str = "H") -> tuple[Argument, ...]:
    return (
        given("q", dtype, "B", q, "H", dim),
        given("k", dtype, "B", kv, kv_heads, dim),
        given("v", dtype, "B", kv, kv_heads, dim),
        result("o", dtype, "B", q, "H", dim),
    )


def _scale(dim: int) -> float:
    return LOG2E / dim**0.5


def _bhs(b: int, h: int, q: int, kv: int) -> Sizes:
    return {"B": b, "H": h, "Q_SEQ": q, "KV_SEQ": kv}


def _streams(name: str, dim: int, sizes: Sizes, **defines: Any) -> Variant:
    large = _bhs(2, 3, 1000, 777)
    consumers = defines.get("CONSUMERS", 2)
    k_tile = defines.get("BLOCK_N", 64) * dim * 2
    facts = {
        "events": {
            "kf": ring(defines.get("K_STAGES", 2), k_tile),
            "vf": ring(defines.get("V_STAGES", 3), k_tile),
            "ke": dict(arrivals=4 * consumers, ready=True, triggers=[[0, 128 * consumers]]),
        },
        "wait_depths": {"qk": 0, "pv": 0},
        "layouts": {"probs": "accumulator", "row_max": "row", "acc_o": "accumulator"},
    }
    return Variant(name, {"DIM": dim, **defines}, (sizes,), large, facts)


def _tasks(rng: np.random.Generator, names: Mapping[str, Any]) -> Array:
    """All query tiles of all heads but the last tile of the last head, in random order."""
    tiles = [
        bm | head << 8 | batch << 16
        for batch in range(names["B"])
        for head in range(names["H"])
        for bm in range(names["S"] // 64)
    ]
    return rng.permutation(np.array(tiles[:-1], dtype=np.uint32))


def _first_tasks(rng: np.random.Generator, names: Mapping[str, Any]) -> Array:
    """CTA 0 has no task, CTA 1 one, the last one most of the rest."""
    total, ctas = names["T"], names["CTAS"]
    cuts = np.sort(rng.integers(1, 1 + total // 2, ctas - 2))
    return np.array([0, 0, 1, *cuts[1:], total], dtype=np.int32)


def _task_sizes(b: int, h: int, s: int) -> Sizes:
    return {"B": b, "H": h, "S": s, "T": b * h * (s // 64) - 1}


ATTENTION = (
    Program(
        "attn_streams.co",
        (*_qkvo("ELEM", "DIM", "Q_SEQ", "KV_SEQ"), scalar("scale", "f32", "LOG2E / DIM ** 0.5")),
        attention,
        (4e-3, 1e-2),
        (
            _streams("d64", 64, _bhs(1, 2, 128, 192)),
            _streams("tails", 64, _bhs(1, 1, 100, 150), CONSUMERS=1, K_STAGES=1, V_STAGES=1),
            _streams("d96", 96, _bhs(1, 1, 64, 128), CONSUMERS=1, SWIZ=64, K_STAGES=3, V_STAGES=2),
            _streams("d128_n80", 128, _bhs(1, 1, 128, 170), BLOCK_N=80, ELEM="f16", K_STAGES=2, V_STAGES=1),
            _streams("d128_n128", 128, _bhs(1, 1, 128, 128), BLOCK_N=128, K_STAGES=2, V_STAGES=2),
            _streams("d256", 256, _bhs(1, 1, 64, 128), CONSUMERS=1, ELEM="f16", K_STAGES=2, V_STAGES=1),
            _streams("three", 64, _bhs(1, 1, 192, 129), CONSUMERS=3, K_STAGES=5, V_STAGES=4),
        ),
        {"ELEM": "bf16", "LOG2E": LOG2E},
    ),
    Program(
        "attn_overlap.co",
        (*_qkvo("bf16", "DIM"), scalar("scale", "f32", "LOG2E / DIM ** 0.5")),
        lambda q, k, v, scale: attention(q, k, v, scale, causal=True),
        (4e-3, 1e-2),
        (
            Variant(
                "qk_first",
                sizes=({"B": 1, "H": 1, "S": 256},),
                large={"B": 2, "H": 3, "S": 1000},
                plan={
                    "wait_depths": {"qk": 1, "pv": 0, "last": 0},
                    "events": {
                        "kf": ring(3, 64 * 128),
                        "ke": dict(waiters=[[128, 160]], triggers=[[0, 128], [256, 384]], arrivals=8),
                        "ve": dict(waiters=[[224, 256]]),
                    },
                },
            ),
            Variant(
                "pv_first",
                {"PV_FIRST": 1, "K_STAGES": 2, "V_STAGES": 1},
                ({"B": 1, "H": 1, "S": 160},),
                {"B": 2, "H": 3, "S": 1000},
                {"wait_depths": {"pv": 0, "qk": 0}},
            ),
            Variant(
                "one_stage",
                {"K_STAGES": 1, "V_STAGES": 1, "DIM": 128},
                ({"B": 1, "H": 1, "S": 128},),
                {"B": 2, "H": 3, "S": 1000},
            ),
        ),
        {"DIM": 64, "LOG2E": LOG2E},
    ),
    Program(
        "attn_tasks.co",
        (
            *_qkvo("f16", 64),
            given("tasks", "u32", "T", make=_tasks),
            given("first", "s32", "CTAS + 1", make=_first_tasks),
            scalar("scale", "f32", _scale(64)),
        ),
        attention_of_tasks,
        (2e-3, 4e-3),
        (
            Variant(
                sizes=(_task_sizes(1, 2, 192),),
                large=_task_sizes(2, 4, 1024),
                plan={
                    "events": {
                        "qe": dict(lowering="named_barrier", threads=160, waiters=[[128, 160]], triggers=[[0, 128]]),
                        "qf": dict(lowering="mbarrier", ready=False, tx_bytes=64 * 128),
                        "kf": ring(3, 64 * 128),
                        "ve": dict(slots=2, arrivals=4),
                    }
                },
            ),
            Variant("many", {"CTAS": 40, "K_STAGES": 2, "V_STAGES": 4}, (), _task_sizes(2, 8, 2048)),
        ),
        {"CTAS": 6},
    ),
    Program(
        "attn_bias.co",
        (
            *_qkvo("bf16", "DIM", kv_heads="G")[:3],
            given("bias", "f32", "S", "S"),
            _qkvo("bf16", "DIM")[3],
            scalar("scale", "f32", "LOG2E / DIM ** 0.5"),
            scalar("window", "s32", "window"),
        ),
        lambda q, k, v, bias, scale, window: attention(q, k, v, scale, causal=True, window=window, bias=bias),
        (4e-3, 1e-2),
        (
            Variant(
                sizes=({"B": 1, "H": 2, "G": 1, "S": 192, "window": 70},),
                large={"B": 2, "H": 6, "G": 2, "S": 1024, "window": 300},
            ),
            Variant(
                "narrow",
                {"DIM": 128},
                ({"B": 1, "H": 1, "G": 1, "S": 128, "window": 1},),
                {"B": 2, "H": 6, "G": 3, "S": 1024, "window": 4096},
            ),
        ),
        {"DIM": 64, "LOG2E": LOG2E},
    ),
)
