"""The functions of floats that the language has: one row each, from which every stage takes its part.

The grammar takes the names, the rules the arity, the simulator NumPy, emission the C++ function, timelines the
instructions, docs/language.md the accuracy; tests/api/test_functions.py holds the rows against the runtime. All are
functions of `f32` and of `f64`; narrower floats are computed in `f32`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Function:
    """`name`: in the IR; programs write two underscores before it. `cpp`: overloads of runtime/croq.cuh for both types.

    `vector`: of NumPy arrays or scalars of one type, which it keeps. `work`: instructions, by the pipe that they occupy
    (croq/timelines/costs.py). `accuracy`: in f32; PTX ISA, and CUDA guide, "Mathematical Functions".
    """

    name: str
    arity: int
    cpp: str
    vector: Callable[..., Any]
    work: Mapping[str, float]
    accuracy: str


_erf: Any = np.vectorize(math.erf, otypes=[np.float64])


def _gelu(x: Any) -> Any:
    wide = x.astype(np.float64)
    return (0.5 * wide * (1 + _erf(wide * 0.7071067811865476))).astype(x.dtype)


# ------------------------------------------------------------------------------------------------------- multiply-add
def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c with one rounding. PTX ISA, fma.rn."""
    if a.dtype == np.float64:
        return _fma_f64(a, b, c)[()]
    product, addend = a.astype(np.float64) * b.astype(np.float64), np.asarray(c, dtype=np.float64)
    total = product + addend  # the product of two f32 is exact in f64, the sum may be rounded
    result = total.astype(np.float32)
    halfway = np.abs(total - result) * 2 == np.spacing(np.abs(result)).astype(np.float64)
    halfway |= np.abs(total) < _SMALLEST_F32
    if not halfway.any():
        return result
    return rounded_to_odd(product, addend).astype(np.float32)


_SMALLEST_F32 = float(np.finfo(np.float32).tiny)


def rounded_to_odd(high: Any, low: Any) -> Any:
    """The sum of f64 `high` and `low` rounded to odd: rounded again to a type of half the digits, it is rounded once.

    The error of a sum is exact (Knuth, TwoSum); where it is not 0 and the last bit is even, the sum moves one place
    towards it. (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums".)
    """
    high, low = np.asarray(high, dtype=np.float64), np.asarray(low, dtype=np.float64)
    total = np.atleast_1d(high + low)
    back = total - high
    error = (high - (total - back)) + (low - back)
    even = (total.view(np.int64) & 1) == 0
    moved = np.where(error > 0, np.nextafter(total, np.inf), np.nextafter(total, -np.inf))
    found = np.where(np.isfinite(total) & even & (error != 0) & np.isfinite(error), moved, total)
    return found if np.ndim(high + low) else found[0]


def _exact_fma(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # the sign of zero
    try:
        return float(exact)  # correctly rounded
    except OverflowError:
        return math.copysign(math.inf, exact)


_fma_f64: Any = np.vectorize(_exact_fma, otypes=[np.float64])


# ---------------------------------------------------------------------------------------------------------- the table
_ROWS = (
    Function("exp2f", 1, "croq::ex2", np.exp2, {"xu": 1}, "2 ulp; subnormal results are 0"),
    Function("exp", 1, "croq::exp", np.exp, {"xu": 1, "fma": 1}, "2 ulp"),
    Function("log", 1, "croq::log", np.log, {"xu": 1, "fma": 1}, "1 ulp"),
    Function("sqrt", 1, "croq::sqrt", np.sqrt, {"xu": 1}, "rounded correctly"),
    Function("rsqrt", 1, "croq::rsqrt", lambda x: x.dtype.type(1) / np.sqrt(x), {"xu": 1}, "2 ulp"),
    Function("fabs", 1, "croq::abs", np.abs, {}, "exact"),
    Function("fmaf", 3, "croq::fma", fma, {"fma": 1}, "rounded correctly"),
    Function("frcp_rn", 1, "croq::rcp_rn", lambda x: x.dtype.type(1) / x, {"xu": 1, "fma": 2}, "rounded correctly"),
    Function("tanh", 1, "croq::tanh", np.tanh, {"xu": 1}, "2 ulp"),
    Function(
        "sigmoid", 1, "croq::sigmoid", lambda x: (1 / (1 + np.exp(-x))).astype(x.dtype), {"xu": 2, "fma": 2}, "4 ulp"
    ),
    Function("gelu", 1, "croq::gelu", _gelu, {"xu": 1, "fma": 6}, "of `x * Phi(x)` by `erff`, 2 ulp"),
    Function("pow", 2, "croq::pow", np.power, {"xu": 2, "fma": 1}, "4 ulp"),
)
FUNCTIONS: dict[str, Function] = {row.name: row for row in _ROWS}
