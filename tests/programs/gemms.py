"""Matrix products: tile shapes, swizzles, rings, roles, ways in and out."""

from __future__ import annotations

import numpy as np

from tests.programs.entries import (
    BF16,
    F16,
    F32,
    LARGE,
    Argument,
    Program,
    Variant,
    given,
    mnk,
    operands,
    result,
    ring,
    scalar,
)
from tests.programs.references import gemm, gemm_scaled, gemm_trips, mlp

GEMMS = (
    Program(
        "gemm_wide.co",
        operands("bf16"),
        gemm,
        BF16,
        (
            Variant(
                "n96",
                sizes=(mnk(128, 131, 200),),
                large=LARGE,
                plan={
                    "events": {
                        "full": ring(2, 128 * 128 + 96 * 128),
                        "empty": dict(lowering="mbarrier", arrivals=4, triggers=[[128, 256]], ready=True),
                    },
                    "layouts": {"acc": "accumulator"},
                    "loads": {"a": 1, "b": 1},
                },
            ),
            Variant("n8", {"TILE_N": 8, "STAGES": 1}, (mnk(70, 9, 64),), mnk(1000, 250, 520)),
            Variant("n24", {"TILE_N": 24, "STAGES": 5}, (mnk(200, 48, 136),), mnk(1000, 333, 520)),
            Variant("n128", {"TILE_N": 128, "STAGES": 3}, (mnk(128, 128, 128),), LARGE),
        ),
    ),
    Program(
        "gemm_row_blocks.co",
        operands("f16"),
        gemm,
        F16,
        (
            Variant(
                sizes=(mnk(128, 64, 256), mnk(72, 72, 8)),
                large=mnk(2048, 1536, 1000),
                plan={"wait_depths": {"top, bottom": 0}, "events": {"empty": dict(arrivals=4, triggers=[[0, 128]])}},
            ),
            Variant("one_stage", {"STAGES": 1}, (mnk(128, 64, 192),)),
        ),
    ),
    Program(
        "gemm_halves.co",
        operands("f16"),
        gemm,
        F16,
        (
            Variant(
                "swiz64",
                sizes=(mnk(128, 64, 200),),
                large=LARGE,
                plan={
                    "swizzles": {"a_buf": 64, "b_buf": 64},
                    "events": {"empty": dict(arrivals=8, triggers=[[0, 128], [256, 384]], waiters=[[128, 256]])},
                },
            ),
            Variant("swiz32", {"TILE_K": 16, "SWIZ": 32, "STAGES": 5}, (mnk(128, 64, 96),), LARGE),
            Variant("two_slabs", {"TILE_K": 64, "SWIZ": 64, "STAGES": 2}, (mnk(136, 72, 128),), LARGE),
            Variant("four_slabs", {"TILE_K": 64, "SWIZ": 32, "STAGES": 2, "TILE_N": 32}, (mnk(128, 32, 128),), LARGE),
            Variant("wide_k", {"TILE_K": 128, "SWIZ": 128, "STAGES": 1}, (mnk(128, 64, 256),), LARGE),
        ),
    ),
    Program(
        "loaded_operand.co",
        operands("ELEM"),
        gemm,
        BF16,
        (
            Variant(
                "bf16",
                {"ELEM": "bf16"},
                (mnk(128, 64, 192), mnk(72, 40, 64)),
                LARGE,
                {
                    "events": {"a_empty": dict(arrivals=8)},
                    "swizzles": {"a_buf": 128},
                    "layouts": {"left": "accumulator"},
                },
            ),
            Variant("f16-two_slabs", {"ELEM": "f16", "SWIZ": 64, "STAGES": 3}, (mnk(128, 64, 264),), LARGE),
            Variant("three_slabs", {"ELEM": "bf16", "SWIZ": 32, "TILE_K": 48, "STAGES": 1}, (mnk(128, 64, 96),), LARGE),
            Variant("one_step", {"ELEM": "f16", "SWIZ": 32, "TILE_K": 16}, (mnk(128, 64, 56),), LARGE),
            Variant("wide", {"ELEM": "bf16", "TILE_K": 128, "STAGES": 2}, (mnk(128, 64, 384),), LARGE),
        ),
    ),
    Program(
        "gemm_col_f32.co",
        (given("a", "bf16", "M", "K"), given("b", "bf16", "K", "N"), result("c", "f32", "M", "N")),
        lambda a, b: {"c": a @ b},
        F32,
        (
            Variant(
                sizes=(mnk(64, 128, 128), mnk(40, 136, 104)),
                large=LARGE,
                plan={
                    "events": {
                        "a_full": ring(2, 64 * 128),
                        "b_full": ring(2, 64 * 256),
                        "empty": dict(waiters=[[0, 32]], arrivals=4),
                    },
                    "swizzles": {"b_buf": 128},
                },
            ),
            Variant("n64", {"TILE_N": 64, "STAGES": 3}, (mnk(64, 72, 256),), LARGE),
            Variant("n192", {"TILE_N": 192, "STAGES": 1}, (mnk(64, 192, 64),), LARGE),
        ),
    ),
    Program(
        "gemm_n256.co",
        operands("bf16"),
        gemm,
        BF16,
        (
            Variant(
                sizes=(mnk(128, 256, 128),),
                large=LARGE,
                plan={"registers": {"p == 2": 40, "p < 2": 232}, "events": {"empty": dict(arrivals=8)}},
            ),
        ),
    ),
    Program(
        "gemm_three_consumers.co",
        operands("f16", "f32"),
        gemm,
        F32,
        (
            Variant(
                sizes=(mnk(192, 128, 192),),
                large=LARGE,
                plan={
                    "registers": {"p == 0": 32, "p > 0": 160},
                    "events": {"af": ring(2, 192 * 128), "bf": ring(3, 128 * 128), "ae": dict(arrivals=12)},
                },
            ),
            Variant("deep_a", {"A_STAGES": 4, "B_STAGES": 1}, (mnk(200, 128, 320),), LARGE),
        ),
    ),
    Program(
        "gemm_trips.co",
        (*operands("bf16", "f32"), scalar("steps", "s32", "steps")),
        gemm_trips,
        F32,
        (
            Variant(
                "s3",
                {"STAGES": 3},
                tuple(mnk(64, 64, 256, steps=s) for s in (0, 1, 2, 3, 4)),
                mnk(512, 512, 2048, steps=31),
            ),
            Variant("s1", {"STAGES": 1}, tuple(mnk(64, 64, 128, steps=s) for s in (0, 1, 2))),
            Variant("s5", {"STAGES": 5}, tuple(mnk(64, 64, 384, steps=s) for s in (4, 6))),
        ),
    ),
    Program(
        "gemm_plain.co",
        operands("bf16"),
        gemm,
        BF16,
        (
            Variant(sizes=(mnk(64, 64, 192), mnk(30, 70, 72)), large=LARGE),
            Variant("n256", {"TILE_N": 256}, (mnk(64, 256, 64),), LARGE),
        ),
    ),
    Program(
        "gemm_futures.co",
        operands("f16", "f32"),
        gemm,
        F32,
        (
            Variant(
                sizes=(mnk(64, 64, 320), mnk(64, 64, 64), mnk(64, 72, 128)),
                large=LARGE,
                plan={"wait_depths": {"first": 1, "second": 0}},
            ),
        ),
    ),
    Program("gemm_chunks.co", operands("bf16", "f32"), gemm, F32, (Variant(sizes=(mnk(64, 64, 192),), large=LARGE),)),
    Program(
        "gemm_three_in_flight.co",
        operands("bf16", "f32"),
        gemm,
        F32,
        (Variant(sizes=(mnk(64, 192, 192),), large=LARGE, plan={"wait_depths": {"mid": 1, "right": 0, "left": 0}}),),
    ),
    Program(
        "gemm_scaled.co",
        (
            given("a", "bf16", "M", "64 * T"),
            given("b", "bf16", "N", "64 * T"),
            given("scale", "f32", "T"),
            result("c", "bf16", "M", "N"),
        ),
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
            given("a", "f16", "M", "K"),
            given("b", "f16", "N", "K"),
            Argument("c", "f32", ("M", "N"), "inout"),
            scalar("alpha", "f32", 1.5),
            scalar("beta", "f32", -0.25),
        ),
        lambda a, b, c, alpha, beta: {"c": alpha * (a @ b.T) + beta * c},
        F32,
        (Variant(sizes=(mnk(50, 91, 77),), large=mnk(1000, 777, 513)),),
    ),
    Program(
        "gemm_batched.co",
        (given("a", "bf16", "B", "M", "K"), given("b", "bf16", "B", "N", "K"), result("c", "bf16", "B", "M", "N")),
        lambda a, b: {"c": np.einsum("bmk,bnk->bmn", a, b)},
        BF16,
        (Variant(sizes=(mnk(40, 72, 96, B=2),), large=mnk(512, 328, 200, B=8)),),
    ),
    Program(
        "gemm_persistent.co",
        operands("bf16"),
        gemm,
        BF16,
        (
            Variant("many", sizes=(mnk(128, 200, 136),), large=LARGE),
            Variant("idle", {"CTAS": 3, "STAGES": 2}, (mnk(64, 64, 64),), mnk(64, 64, 640)),
            Variant("resident", {"CTAS": 132, "STAGES": 4}, (), LARGE),
        ),
    ),
    Program(
        "gemm_dma_ring.co",
        operands("f16"),
        gemm,
        F16,
        (
            Variant(
                sizes=(mnk(64, 50, 200),),
                large=mnk(1000, 777, 513),
                plan={"events": {"full": dict(arrivals=4, tx_bytes=0, triggers=[[128, 256]])}},
            ),
            Variant("one_stage", {"STAGES": 1}, (mnk(64, 64, 128),)),
        ),
    ),
    Program(
        "gemm_relay.co",
        operands("bf16", "f32"),
        lambda a, b: {"c": np.maximum(a, 0) @ b.T},
        F32,
        (
            Variant(
                sizes=(mnk(64, 64, 192),),
                large=LARGE,
                plan={
                    "swizzles": {"raw": 0, "a_buf": 128},
                    "events": {"a_full": dict(arrivals=4, waiters=[[256, 384]]), "raw_empty": dict(waiters=[[0, 32]])},
                },
            ),
            Variant("one_stage", {"RAW_STAGES": 1, "STAGES": 1}, (mnk(64, 64, 128),)),
        ),
    ),
    Program(
        "mlp.co",
        (
            given("x", "f16", "M", 64),
            given("w1", "f16", "F", 64),
            given("bias", "f32", "F"),
            given("w2", "f16", "F", 128),
            result("y", "f16", "M", 128),
        ),
        mlp,
        (5e-2, 1e-2),
        (
            Variant(
                sizes=({"M": 64, "F": 128},),
                large={"M": 2000, "F": 1024},
                plan={"events": {"full": ring(2, 64 * 128 + 64 * 256)}, "layouts": {"hidden": "accumulator"}},
            ),
        ),
    ),
)
