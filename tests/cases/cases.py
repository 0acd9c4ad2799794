"""The kernels of this folder: arguments, references, and what the compiler must derive.

Each case: file, kernel, tier, defines, args (name, dtype, shape, role 'in' | 'out' | 'inout' or a scalar),
small and large symbol bindings, reference(inputs) -> outputs in float64, tolerance, plan facts.
Inputs are drawn uniform in [-1, 1] unless `range` says otherwise, then rounded to the argument's dtype; the
reference gets the rounded values. A tail case binds sizes that are no multiple of the tile.
"""

from typing import Any

import numpy as np


def _attention(q, k, v, scale):
    """q, k, v: [B, S, H, D] float64 -> [B, S, H, D]."""
    s = np.einsum("bihd,bjhd->bhij", q, k) * scale
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhij,bjhd->bihd", p / p.sum(-1, keepdims=True), v)


CASES: list[dict[str, Any]] = [
    dict(
        file="saxpy.co",
        kernel="saxpy",
        tier="T1",
        args=[("x", "f32", ["N"], "in"), ("y", "f32", ["N"], "inout"), ("a", "f32", None, 1.5)],
        small={"N": 1000},
        large={"N": 1 << 24},
        tail={"N": 12345},
        reference=lambda x, y, a: {"y": a * x + y},
        tolerance=(1e-6, 1e-6),
    ),
    dict(
        file="gemm_ring.co",
        kernel="gemm",
        tier="T0",
        args=[("a", "bf16", ["M", "K"], "in"), ("b", "bf16", ["N", "K"], "in"), ("c", "bf16", ["M", "N"], "out")],
        defines=[{}, {"STAGES": 1}, {"STAGES": 2}, {"STAGES": 5}],
        small={"M": 128, "N": 256, "K": 320},
        large={"M": 4096, "N": 4096, "K": 4096},
        # TMA zero-fills what lies outside on load and clips it on store: a tail in M, N or K is right as written
        tail={"M": 100, "N": 136, "K": 72},
        reference=lambda a, b: {"c": a @ b.T},
        tolerance=(1e-2, 1e-2),
        plan={
            "events": {
                "full": dict(lowering="mbarrier", slots=3, arrivals=1, tx_bytes=64 * 64 * 2 + 128 * 64 * 2),
                "empty": dict(lowering="mbarrier", slots=3, ready=True, triggers=[[128, 256]], waiters=[[0, 128]]),
            },
            "wait_depths": {"step": 0},
        },
    ),
    dict(
        file="gemm_two_halves.co",
        kernel="gemm_two_halves",
        tier="T0",
        args=[("a", "f16", ["M", "K"], "in"), ("b", "f16", ["N", "K"], "in"), ("c", "f32", ["M", "N"], "out")],
        small={"M": 64, "N": 512, "K": 256},
        large={"M": 2048, "N": 4096, "K": 2048},
        reference=lambda a, b: {"c": a @ b.T},
        tolerance=(1e-3, 1e-3),
        plan={
            "events": {"full": dict(lowering="mbarrier", arrivals=1, tx_bytes=(64 + 128 + 128) * 64 * 2)},
            "wait_depths": {"left": 1, "right": 0},
        },
    ),
    dict(
        file="attention_d64.co",
        kernel="attention",
        tier="T0",
        args=[(n, "f16", ["B", s, "H", 64], "in") for n, s in (("q", "Q_SEQ"), ("k", "KV_SEQ"), ("v", "KV_SEQ"))]
        + [("o", "f16", ["B", "Q_SEQ", "H", 64], "out")],
        small={"B": 1, "H": 2, "Q_SEQ": 128, "KV_SEQ": 192},
        large={"B": 2, "H": 8, "Q_SEQ": 2048, "KV_SEQ": 4096},
        reference=lambda q, k, v: {"o": _attention(q, k, v, 1 / 8)},
        tolerance=(4e-3, 4e-3),
    ),
    dict(
        file="handoffs.co",
        kernel="one_slot_ready",
        tier="T0",
        args=[("x", "f32", ["N"], "in")],
        plan={
            "events": {
                "free": dict(
                    lowering="named_barrier", threads=288, ready=True, waiters=[[0, 32]], triggers=[[128, 384]]
                )
            }
        },
    ),
    dict(
        file="handoffs.co",
        kernel="part_of_a_warp",
        tier="T0",
        args=[("x", "f32", ["N"], "in")],
        plan={"events": {"free": dict(lowering="mbarrier", ready=True, waiters=[[0, 1]], triggers=[[128, 256]])}},
    ),
    dict(
        file="handoffs.co",
        kernel="pending",
        tier="T0",
        args=[("x", "f32", ["N"], "in")],
        plan={"events": {"done": dict(lowering="mbarrier", ready=False, waiters=[[128, 256]], triggers=[[0, 128]])}},
    ),
]
