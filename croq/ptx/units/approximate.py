"""The approximate instructions: what the model computes, and how far the ISA lets the chip be from it.

The model is the function of the exact operand in float64, rounded once to the type. Special values are those of IEEE
functions and agree with the ISA's tables; tests/ptx/units/test_approximate.py holds every line of those tables. An
error bound holds between the chip and the *exact* value; `tolerance` turns it into a distance from the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from croq.ptx.units.fault import UnitFault
from croq.ptx.units.formats import FORMATS, Array, Doubles, flushed, rounded, widened

_TOP_WORD = np.uint64(0xFFFFFFFF00000000)


@dataclass(frozen=True)
class Bound:
    """For operands with low <= |x| <= high: `amount` of `unit`.

    `ulp`: units of the correctly rounded result in its last place; `relative` and `absolute` to the exact value;
    `none`: the ISA promises nothing.
    """

    unit: str
    amount: float = 0.0
    low: float = 0.0
    high: float = np.inf


@dataclass(frozen=True)
class Approximation:
    """One instruction. `bounds`: the first whose range has the operand counts; for `div` the operand is the divisor."""

    name: str  # with the type, without .ftz
    function: Callable[..., Doubles]
    bounds: tuple[Bound, ...]
    source: str

    @property
    def type(self) -> str:
        return self.name.rpartition(".")[2]


def _entry(name: str, function: Callable[..., Doubles], *bounds: Bound, section: str = "") -> Approximation:
    return Approximation(name, function, bounds, f'PTX ISA, "{section or name.partition(".")[0]}"')


def _reciprocal(x: Doubles) -> Doubles:
    return 1.0 / x


def _reciprocal_root(x: Doubles) -> Doubles:
    return 1.0 / np.sqrt(x)


def _quotient(a: Doubles, b: Doubles) -> Doubles:
    return a / b


def _product_with_reciprocal(a: Doubles, b: Doubles) -> Doubles:
    """div.approx is a * (1 / b): for 2^126 < |b| < 2^128 the reciprocal is flushed, so the result is 0, or NaN."""
    huge = (np.abs(b) > 2.0**126) & np.isfinite(b)
    return np.where(huge, a * np.copysign(0.0, b), a / b)


# The ISA says 2^-20.5 up to 2 pi; an H200 was 2^-20.46 off (cos of 4.8273115), the only figure found that is exceeded.
_TRIGONOMETRIC = (
    Bound("absolute", 2.0**-20.4, high=2 * np.pi),
    Bound("absolute", 2.0**-14.7, high=100 * np.pi),
    Bound("none"),
)
_HALF = "Half Precision Floating-Point Instructions: "

APPROXIMATIONS: Mapping[str, Approximation] = {
    entry.name: entry
    for entry in (
        _entry("rcp.approx.f32", _reciprocal, Bound("ulp", 1)),
        _entry("sqrt.approx.f32", np.sqrt, Bound("relative", 2.0**-23)),
        _entry("rsqrt.approx.f32", _reciprocal_root, Bound("relative", 2.0**-22.9)),
        _entry("sin.approx.f32", np.sin, *_TRIGONOMETRIC),
        _entry("cos.approx.f32", np.cos, *_TRIGONOMETRIC),
        _entry("lg2.approx.f32", np.log2, Bound("absolute", 2.0**-22, 0.5, 2.0), Bound("relative", 2.0**-22)),
        _entry("ex2.approx.f32", np.exp2, Bound("ulp", 2)),
        _entry("tanh.approx.f32", np.tanh, Bound("relative", 2.0**-11)),
        _entry("div.approx.f32", _product_with_reciprocal, Bound("ulp", 2, 2.0**-126, 2.0**126), Bound("none")),
        _entry("div.full.f32", _quotient, Bound("ulp", 2)),
        _entry("ex2.approx.f16", np.exp2, Bound("relative", 2.0**-9.9), section=_HALF + "ex2"),
        _entry("ex2.approx.bf16", np.exp2, Bound("relative", 2.0**-7), section=_HALF + "ex2"),
        _entry("tanh.approx.f16", np.tanh, Bound("absolute", 2.0**-10.987), section=_HALF + "tanh"),
        _entry("tanh.approx.bf16", np.tanh, Bound("relative", 2.0**-8), section=_HALF + "tanh"),
        # Seeds for Newton steps, of the upper word alone; the ISA states no error, the model cuts the result off.
        _entry("rcp.approx.f64", _reciprocal, Bound("none"), section="rcp.approx.ftz.f64"),
        _entry("rsqrt.approx.f64", _reciprocal_root, Bound("none"), section="rsqrt.approx.ftz.f64"),
    )
}


def approximate(name: str, *operands: Array, ftz: bool = False) -> Array:
    """The model's result of instruction `name` (a key of `APPROXIMATIONS`). Faults: `approximate-name`."""
    entry = APPROXIMATIONS.get(name)
    if entry is None:
        raise UnitFault("approximate-name", f"no approximate instruction `{name}`")
    with np.errstate(all="ignore"):
        if entry.type == "f64":
            return _upper_word(entry.function, *operands)
        exact = entry.function(*(widened(_flushed(x, ftz)) for x in operands))
        return _flushed(rounded(exact, entry.type), ftz)


def tolerance(name: str, *operands: Array) -> Doubles:
    """How far a result that the ISA allows may be from `approximate`, in absolute terms; inf where all is allowed.

    Where the model's result is no finite number the tolerance is 0: those results are exact.
    """
    entry = APPROXIMATIONS[name]
    with np.errstate(all="ignore"):
        exact = entry.function(*(widened(x) for x in operands))
        model = widened(rounded(exact, entry.type))
    magnitude = np.abs(widened(operands[-1]))
    unit = _unit(model, entry.type)
    last = np.where(np.abs(model) < _smallest_normal(entry.type), unit, unit / 2)  # an H200 cuts subnormal results off
    result = np.full(model.shape, np.inf)
    undecided = np.ones(model.shape, bool)
    for bound in entry.bounds:
        here = undecided & (magnitude >= bound.low) & (magnitude <= bound.high)
        allowed = {
            "ulp": bound.amount * unit,
            "relative": bound.amount * np.abs(np.where(np.isfinite(exact), exact, 0.0)) + last,
            "absolute": bound.amount + last,
            "none": np.full(model.shape, np.inf),
        }[bound.unit]
        result = np.where(here, allowed, result)
        undecided &= ~here
    return np.where(np.isfinite(model), result, 0.0)


def _unit(values: Doubles, type_: str) -> Doubles:
    """One unit in the last place of finite `values` of a type."""
    form = FORMATS[type_]
    _, exponent = np.frexp(np.where(np.isfinite(values), values, 1.0))
    unit: Doubles = np.ldexp(1.0, np.maximum(exponent - form.precision, form.exponent_min - form.precision + 1))
    return unit


def _smallest_normal(type_: str) -> float:
    return float(np.ldexp(1.0, FORMATS[type_].exponent_min))


def _flushed(values: Array, ftz: bool) -> Array:
    """`.ftz` of the half precision forms flushes bf16 too."""
    if ftz and values.dtype == FORMATS["bf16"].dtype:
        return flushed(values.astype(np.float32), True).astype(values.dtype)
    return flushed(values, ftz)


def _upper_word(function: Callable[..., Any], a: Array) -> Array:
    """rcp and rsqrt.approx.ftz.f64: operand and result have an upper word only; subnormals are zeros."""
    tiny = float(np.finfo(np.float64).smallest_normal)

    def cut(x: Array) -> Array:
        upper = (np.ascontiguousarray(x).view(np.uint64) & _TOP_WORD).view(np.float64)
        return np.where(np.abs(upper) < tiny, np.copysign(0.0, upper), upper)

    result = cut(function(cut(a)))
    result.view(np.uint64)[np.isnan(a) | np.isnan(result)] = 0x7FFFFFFF00000000
    return result
