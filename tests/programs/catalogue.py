"""The programs of this folder: arguments, references, sizes, variants, and what the compiler must derive for them.

A program is one kernel; a variant is one set of macros, with the sizes to simulate (small: a second or two) and with facts of
the plan. `large` sizes are for a GPU. Extents are integers or expressions over the sizes, macros and `constants`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from references import (
    LOG2E,
    Array,
    Outputs,
    attention,
    attention_of_tasks,
    branches,
    clamp_product,
    compose,
    dma_async,
    gemm,
    gemm_scaled,
    gemm_trips,
    integers,
    layer_norm,
    map_scalars,
    mlp,
    softmax_rows,
    sub_warps,
    uniform_fragments,
    writers,
)

Role = Literal["in", "out", "inout", "scalar"]
Sizes = Mapping[str, Any]


@dataclass(frozen=True)
class Argument:
    """`shape`: extents; `make(rng, names)` draws it where uniform [-1, 1] (integers: the whole range) will not do."""

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    role: Role
    value: Any = None
    make: Callable[[np.random.Generator, Mapping[str, Any]], Array] | None = None


@dataclass(frozen=True)
class Variant:
    """`plan`: facts as tests/cases has them: events, wait_depths, registers, swizzles, layouts, loads."""

    name: str = ""
    defines: Mapping[str, Any] = field(default_factory=dict)
    sizes: tuple[Sizes, ...] = ()
    large: Sizes | None = None
    plan: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """`reference` takes inputs and scalars by name and gives the outputs; NaN where an output must stay as it was."""

    file: str
    args: tuple[Argument, ...]
    reference: Callable[..., Outputs]
    tolerance: tuple[float, float]  # absolute, relative
    variants: tuple[Variant, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)
    kernel: str = ""

    @property
    def name(self) -> str:
        return self.kernel or self.file.removesuffix(".co")


def _in(name: str, dtype: str, *shape: int | str, **more: Any) -> Argument:
    return Argument(name, dtype, shape, "in", **more)


def _out(name: str, dtype: str, *shape: int | str) -> Argument:
    return Argument(name, dtype, shape, "out")


def _scalar(name: str, dtype: str, value: Any) -> Argument:
    """A string is looked up among the sizes."""
    return Argument(name, dtype, None, "scalar", value)


def _ab(dtype: str, out: str = "") -> tuple[Argument, ...]:
    return _in("a", dtype, "M", "K"), _in("b", dtype, "N", "K"), _out("c", out or dtype, "M", "N")


def _mnk(m: int, n: int, k: int, **more: Any) -> Sizes:
    return {"M": m, "N": n, "K": k, **more}


BF16, F16, F32 = (1e-2, 1e-2), (4e-3, 4e-3), (2e-3, 1e-3)
EXACT = (0.0, 0.0)
LARGE = _mnk(2048, 1536, 1024)


def _ring(slots: int, tx: int) -> dict[str, Any]:
    return dict(lowering="mbarrier", slots=slots, arrivals=1, tx_bytes=tx)


GEMMS = (
    Program(
        "gemm_wide.co",
        _ab("bf16"),
        gemm,
        BF16,
        (
            Variant(
                "n96",
                sizes=(_mnk(128, 131, 200),),
                large=LARGE,
                plan={
                    "events": {
                        "full": _ring(2, 128 * 128 + 96 * 128),
                        "empty": dict(lowering="mbarrier", arrivals=4, triggers=[[128, 256]], ready=True),
                    },
                    "layouts": {"acc": "accumulator"},
                    "loads": {"a": 1, "b": 1},
                },
            ),
            Variant("n8", {"TILE_N": 8, "STAGES": 1}, (_mnk(70, 9, 64),), _mnk(1000, 250, 520)),
            Variant("n24", {"TILE_N": 24, "STAGES": 5}, (_mnk(200, 48, 136),), _mnk(1000, 333, 520)),
            Variant("n128", {"TILE_N": 128, "STAGES": 3}, (_mnk(128, 128, 128),), LARGE),
        ),
    ),
    Program(
        "gemm_row_blocks.co",
        _ab("f16"),
        gemm,
        F16,
        (
            Variant(
                sizes=(_mnk(128, 64, 256), _mnk(72, 72, 8)),
                large=_mnk(2048, 1536, 1000),
                plan={"wait_depths": {"top, bottom": 0}, "events": {"empty": dict(arrivals=4, triggers=[[0, 128]])}},
            ),
            Variant("one_stage", {"STAGES": 1}, (_mnk(128, 64, 192),)),
        ),
    ),
    Program(
        "gemm_halves.co",
        _ab("f16"),
        gemm,
        F16,
        (
            Variant(
                "swiz64",
                sizes=(_mnk(128, 64, 200),),
                large=LARGE,
                plan={
                    "swizzles": {"a_buf": 64, "b_buf": 64},
                    "events": {"empty": dict(arrivals=8, triggers=[[0, 128], [256, 384]], waiters=[[128, 256]])},
                },
            ),
            Variant("swiz32", {"TILE_K": 16, "SWIZ": 32, "STAGES": 5}, (_mnk(128, 64, 96),), LARGE),
            Variant("two_slabs", {"TILE_K": 64, "SWIZ": 64, "STAGES": 2}, (_mnk(136, 72, 128),), LARGE),
            Variant("four_slabs", {"TILE_K": 64, "SWIZ": 32, "STAGES": 2, "TILE_N": 32}, (_mnk(128, 32, 128),), LARGE),
            Variant("wide_k", {"TILE_K": 128, "SWIZ": 128, "STAGES": 1}, (_mnk(128, 64, 256),), LARGE),
        ),
    ),
    Program(
        "gemm_col_f32.co",
        (_in("a", "bf16", "M", "K"), _in("b", "bf16", "K", "N"), _out("c", "f32", "M", "N")),
        lambda a, b: {"c": a @ b},
        F32,
        (
            Variant(
                sizes=(_mnk(64, 128, 128), _mnk(40, 136, 104)),
                large=LARGE,
                plan={
                    "events": {
                        "a_full": _ring(2, 64 * 128),
                        "b_full": _ring(2, 64 * 256),
                        "empty": dict(waiters=[[0, 32]], arrivals=4),
                    },
                    "swizzles": {"b_buf": 128},
                },
            ),
            Variant("n64", {"TILE_N": 64, "STAGES": 3}, (_mnk(64, 72, 256),), LARGE),
            Variant("n192", {"TILE_N": 192, "STAGES": 1}, (_mnk(64, 192, 64),), LARGE),
        ),
    ),
    Program(
        "gemm_n256.co",
        _ab("bf16"),
        gemm,
        BF16,
        (
            Variant(
                sizes=(_mnk(128, 256, 128),),
                large=LARGE,
                plan={"registers": {"p == 2": 40, "p < 2": 232}, "events": {"empty": dict(arrivals=8)}},
            ),
        ),
    ),
    Program(
        "gemm_three_consumers.co",
        _ab("f16", "f32"),
        gemm,
        F32,
        (
            Variant(
                sizes=(_mnk(192, 128, 192),),
                large=LARGE,
                plan={
                    "registers": {"p == 0": 32, "p > 0": 160},
                    "events": {"af": _ring(2, 192 * 128), "bf": _ring(3, 128 * 128), "ae": dict(arrivals=12)},
                },
            ),
            Variant("deep_a", {"A_STAGES": 4, "B_STAGES": 1}, (_mnk(200, 128, 320),), LARGE),
        ),
    ),
    Program(
        "gemm_trips.co",
        (*_ab("bf16", "f32"), _scalar("steps", "s32", "steps")),
        gemm_trips,
        F32,
        (
            Variant("s3", {"STAGES": 3}, tuple(_mnk(64, 64, 256, steps=s) for s in (0, 1, 2, 3, 4)), _mnk(512, 512, 2048, steps=31)),
            Variant("s1", {"STAGES": 1}, tuple(_mnk(64, 64, 128, steps=s) for s in (0, 1, 2))),
            Variant("s5", {"STAGES": 5}, tuple(_mnk(64, 64, 384, steps=s) for s in (4, 6))),
        ),
    ),
    Program(
        "gemm_plain.co",
        _ab("bf16"),
        gemm,
        BF16,
        (
            Variant(sizes=(_mnk(64, 64, 192), _mnk(30, 70, 72)), large=LARGE),
            Variant("n256", {"TILE_N": 256}, (_mnk(64, 256, 64),), LARGE),
        ),
    ),
    Program(
        "gemm_futures.co",
        _ab("f16", "f32"),
        gemm,
        F32,
        (
            Variant(
                sizes=(_mnk(64, 64, 320), _mnk(64, 64, 64), _mnk(64, 72, 128)),
                large=LARGE,
                plan={"wait_depths": {"first": 1, "second": 0}},
            ),
        ),
    ),
    Program("gemm_chunks.co", _ab("bf16", "f32"), gemm, F32, (Variant(sizes=(_mnk(64, 64, 192),), large=LARGE),)),
    Program(
        "gemm_three_in_flight.co",
        _ab("bf16", "f32"),
        gemm,
        F32,
        (Variant(sizes=(_mnk(64, 192, 192),), large=LARGE, plan={"wait_depths": {"mid": 1, "right": 0, "left": 0}}),),
    ),
    Program(
        "gemm_scaled.co",
        (_in("a", "bf16", "M", "64 * T"), _in("b", "bf16", "N", "64 * T"), _in("scale", "f32", "T"), _out("c", "bf16", "M", "N")),
        gemm_scaled,
        BF16,
        (
            Variant(
                sizes=({"M": 64, "N": 64, "T": 3},),
                large={"M": 1024, "N": 1024, "T": 16},
                plan={"layouts": {"sum": "accumulator"}, "wait_depths": {"product": 0}},
            ),
        ),
    ),
    Program(
        "gemm_alpha_beta.co",
        (
            _in("a", "f16", "M", "K"),
            _in("b", "f16", "N", "K"),
            Argument("c", "f32", ("M", "N"), "inout"),
            _scalar("alpha", "f32", 1.5),
            _scalar("beta", "f32", -0.25),
        ),
        lambda a, b, c, alpha, beta: {"c": alpha * (a @ b.T) + beta * c},
        F32,
        (Variant(sizes=(_mnk(50, 91, 77),), large=_mnk(1000, 777, 513)),),
    ),
    Program(
        "gemm_batched.co",
        (_in("a", "bf16", "B", "M", "K"), _in("b", "bf16", "B", "N", "K"), _out("c", "bf16", "B", "M", "N")),
        lambda a, b: {"c": np.einsum("bmk,bnk->bmn", a, b)},
        BF16,
        (Variant(sizes=(_mnk(40, 72, 96, B=2),), large=_mnk(512, 328, 200, B=8)),),
    ),
    Program(
        "gemm_persistent.co",
        _ab("bf16"),
        gemm,
        BF16,
        (
            Variant("many", sizes=(_mnk(128, 200, 136),), large=LARGE),
            Variant("idle", {"CTAS": 3, "STAGES": 2}, (_mnk(64, 64, 64),), _mnk(64, 64, 640)),
            Variant("resident", {"CTAS": 132, "STAGES": 4}, (), LARGE),
        ),
    ),
    Program(
        "gemm_dma_ring.co",
        _ab("f16"),
        gemm,
        F16,
        (
            Variant(
                sizes=(_mnk(64, 50, 200),),
                large=_mnk(1000, 777, 513),
                plan={"events": {"full": dict(arrivals=4, tx_bytes=0, triggers=[[128, 256]])}},
            ),
            Variant("one_stage", {"STAGES": 1}, (_mnk(64, 64, 128),)),
        ),
    ),
    Program(
        "gemm_relay.co",
        _ab("bf16", "f32"),
        lambda a, b: {"c": np.maximum(a, 0) @ b.T},
        F32,
        (
            Variant(
                sizes=(_mnk(64, 64, 192),),
                large=LARGE,
                plan={
                    "swizzles": {"raw": 0, "a_buf": 128},
                    "events": {"a_full": dict(arrivals=4, waiters=[[256, 384]]), "raw_empty": dict(waiters=[[0, 32]])},
                },
            ),
            Variant("one_stage", {"RAW_STAGES": 1, "STAGES": 1}, (_mnk(64, 64, 128),)),
        ),
    ),
    Program(
        "mlp.co",
        (
            _in("x", "f16", "M", 64),
            _in("w1", "f16", "F", 64),
            _in("bias", "f32", "F"),
            _in("w2", "f16", "F", 128),
            _out("y", "f16", "M", 128),
        ),
        mlp,
        (5e-2, 1e-2),
        (
            Variant(
                sizes=({"M": 64, "F": 128},),
                large={"M": 2000, "F": 1024},
                plan={"events": {"full": _ring(2, 64 * 128 + 64 * 256)}, "layouts": {"hidden": "accumulator"}},
            ),
        ),
    ),
)


# ------------------------------------------------------------------------------------------------------------ attention
def _qkvo(dtype: str, dim: int | str, q: str = "S", kv: str = "S", kv_heads: str = "H") -> tuple[Argument, ...]:
    return (
        _in("q", dtype, "B", q, "H", dim),
        _in("k", dtype, "B", kv, kv_heads, dim),
        _in("v", dtype, "B", kv, kv_heads, dim),
        _out("o", dtype, "B", q, "H", dim),
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
            "kf": _ring(defines.get("K_STAGES", 2), k_tile),
            "vf": _ring(defines.get("V_STAGES", 3), k_tile),
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
        (*_qkvo("ELEM", "DIM", "Q_SEQ", "KV_SEQ"), _scalar("scale", "f32", "LOG2E / DIM ** 0.5")),
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
        (*_qkvo("bf16", "DIM"), _scalar("scale", "f32", "LOG2E / DIM ** 0.5")),
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
                        "kf": _ring(3, 64 * 128),
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
            Variant("one_stage", {"K_STAGES": 1, "V_STAGES": 1, "DIM": 128}, ({"B": 1, "H": 1, "S": 128},), {"B": 2, "H": 3, "S": 1000}),
        ),
        {"DIM": 64, "LOG2E": LOG2E},
    ),
    Program(
        "attn_tasks.co",
        (
            *_qkvo("f16", 64),
            _in("tasks", "u32", "T", make=_tasks),
            _in("first", "s32", "CTAS + 1", make=_first_tasks),
            _scalar("scale", "f32", _scale(64)),
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
                        "kf": _ring(3, 64 * 128),
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
            _in("bias", "f32", "S", "S"),
            _qkvo("bf16", "DIM")[3],
            _scalar("scale", "f32", "LOG2E / DIM ** 0.5"),
            _scalar("window", "s32", "window"),
        ),
        lambda q, k, v, bias, scale, window: attention(q, k, v, scale, causal=True, window=window, bias=bias),
        (4e-3, 1e-2),
        (
            Variant(sizes=({"B": 1, "H": 2, "G": 1, "S": 192, "window": 70},), large={"B": 2, "H": 6, "G": 2, "S": 1024, "window": 300}),
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


# ------------------------------------------------------------------------------------- fragments, copies, hand-offs, scalars
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
        (_in("x", "f32", "M", "N"), _out("y", "f32", "M", "N"), _out("maxima", "f32", "M")),
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
            _in("x", "bf16", "M", 128),
            _in("gain", "f32", 128),
            _in("shift", "f32", 128),
            _out("y", "bf16", "M", 128),
            _scalar("epsilon", "f32", 1e-5),
        ),
        layer_norm,
        BF16,
        (Variant(sizes=({"M": 75},), large={"M": 5000}),),
    ),
    Program(
        "uniform_fragments.co",
        (_in("x", "f32", "R", 300), _out("y", "f32", "R", 300), _out("z", "f32", "R", 40)),
        uniform_fragments,
        (1e-5, 1e-6),
        (Variant(sizes=({"R": 2},), large={"R": 1000}, plan={"layouts": {"value": "uniform", "few": "uniform"}}),),
    ),
    Program(
        "transpose.co",
        (_in("a", "f32", "M", "N"), _out("b", "f32", "N", "M")),
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
        (_in("x", "ELEM", "M", "N"), _out("y", "ELEM", "M", "N")),
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
        (_in("x", "f32", "M", 64), _in("y", "f32", "M", 64), _out("z", "f32", "M", 64)),
        dma_async,
        (1e-5, 1e-5),
        (Variant(sizes=({"M": 40},), large={"M": 1001}),),
    ),
    Program(
        "handoff.co",
        (_in("x", "f32", "R", 128), _out("y", "f32", "R", 128)),
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
        (_in("x", "s32", "R", 128, make=_small_ints), _out("y", "s32", "R", 128)),
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
        (_in("x", "f32", "R", 128), _out("y", "f32", "R", 128), _scalar("count", "", "WRITERS")),
        writers,
        (1e-4, 1e-5),
        (_writers(1, 3, 4), _writers(2, 1, 1, 3), _writers(3, 2, 1, 5)),
    ),
    Program(
        "few_threads.co",
        (_in("x", "s32", "R", 16, make=_small_ints), _out("y", "s32", "R", 5)),
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
        (_in("x", "f32", "R", 128), _out("y", "f32", "R", 32)),
        sub_warps,
        (1e-4, 1e-5),
        (Variant(sizes=({"R": 2},), large={"R": 1000}),),
    ),
    Program(
        "branches.co",
        (
            _in("a", "f16", "R", 64, 64),
            _in("b", "f16", 64, 64),
            _in("mode", "s32", "R", make=_modes),
            _out("c", "f32", "R", 64, 64),
        ),
        branches,
        F32,
        (Variant(sizes=({"R": 6},), large={"R": 50}, plan={"wait_depths": {"product": 0}}),),
    ),
    Program(
        "integers.co",
        (
            _in("a", "s32", "N", make=_signed_words),
            _in("b", "u32", "N", make=_all_words),
            _out("si", "s32", "N", 8),
            _out("ui", "u32", "N", 8),
        ),
        integers,
        EXACT,
        (Variant(sizes=({"N": 70},), large={"N": 5000}),),
    ),
    Program(
        "tree_sum.co",
        (_in("x", "f32", "R", "N"), _out("y", "f32", "R")),
        lambda x: {"y": x.sum(1)},
        (1e-4, 1e-5),
        (Variant(sizes=({"R": 2, "N": 700},), large={"R": 500, "N": 10000}),),
    ),
    Program(
        "compose.co",
        (_in("x", "s32", "M", "N", make=lambda rng, n: rng.integers(0, 1000, (n["M"], n["N"]), dtype=np.int32)), _out("y", "s32", "M", "N")),
        compose,
        EXACT,
        (Variant(sizes=({"M": 64, "N": 48},), large={"M": 1024, "N": 512}),),
    ),
    Program(
        "helpers.co",
        (_in("x", "f32", "N"), _out("y", "f32", "N"), _scalar("knee", "f32", 0.25)),
        map_scalars,
        (1e-6, 1e-6),
        (Variant(sizes=({"N": 300},), large={"N": 100000}),),
        kernel="map_scalars",
    ),
    Program(
        "helpers.co",
        (_in("a", "bf16", "M", 64), _in("b", "bf16", 64, 64), _out("c", "f32", "M", 64), _scalar("limit", "f32", 1.5)),
        clamp_product,
        F32,
        (Variant(sizes=({"M": 100},), large={"M": 5000}),),
        kernel="clamp_product",
    ),
    *(
        Program(
            "macros.co",
            (_in("x", "f32", "N"), _in("y", "f32", "N"), _out("z", "f32", "N")),
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

PROGRAMS: tuple[Program, ...] = (*GEMMS, *ATTENTION, *REST)
