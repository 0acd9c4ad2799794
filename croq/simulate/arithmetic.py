"""Scalar operators on uniform values and vectors of lanes, with the wrap-around and division of C.

`binary`, `unary` and `math` give the function of an operator for one type. Integer division is not here: it needs to
know the active lanes (see `ops_scalar`), and gets `quotient` and `remainder`.
"""

from __future__ import annotations

import math as libm
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import croq.numbers as numbers
from croq.ir.types import FLOATS
from croq.simulate.dtypes import DTYPES, WIDTH, Scalar, converter, is_vector, rounded_to_odd, wrapper

Function = Callable[[Scalar, Scalar], Scalar]

COMPARISONS: dict[str, Function] = {
    "lt": lambda a, b: a < b,
    "gt": lambda a, b: a > b,
    "le": lambda a, b: a <= b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
LOGIC: dict[str, Function] = {"land": lambda a, b: a & b, "lor": lambda a, b: a | b}
_BITS: dict[str, Function] = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}
_WRAPPING: dict[str, Function] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}
_FLOAT: dict[str, Function] = {
    **_WRAPPING,
    "div": lambda a, b: a / b,
    "min": lambda a, b: _extreme_float(np.fmin, np.signbit, a, b),
    "max": lambda a, b: _extreme_float(np.fmax, lambda x: ~np.signbit(x), a, b),
}


def _extreme_float(pick: Any, wins: Any, a: Scalar, b: Scalar) -> Scalar:
    """The other operand where one is NaN; +0 is larger than -0. PTX ISA, max and min."""
    found = pick(a, b)
    zeros = (found == 0) & (a == b)
    return np.where(zeros, np.where(wins(a), a, b), found)[()] if np.any(zeros) else found


def binary(op: str, type_: str) -> Function:
    """The function of a binary operator on operands of `type_`, except integer `div`, `mod` and `cdiv`."""
    if op in COMPARISONS:
        compare = COMPARISONS[op]
        return lambda a, b: r if type(r := compare(a, b)) is np.ndarray else bool(r)
    if op in LOGIC:
        return LOGIC[op]
    if type_ in FLOATS:
        return _float(op, type_)
    if op in _BITS:
        return _BITS[op]
    if op in ("shl", "shr"):
        return _shift(op, type_)
    if op in ("min", "max"):
        return _extreme(op)
    return _wrapped(_WRAPPING[op], type_)


def _float(op: str, type_: str) -> Function:
    function, dtype = _FLOAT[op], DTYPES[type_]

    def apply(a: Scalar, b: Scalar) -> Scalar:
        result = function(a, b)
        return result if result.dtype == dtype else result.astype(dtype)

    return apply


def _wrapped(function: Function, type_: str) -> Function:
    wrap = wrapper(type_)

    def apply(a: Scalar, b: Scalar) -> Scalar:
        result = function(a, b)
        return wrap(result) if type(result) is int else result

    return apply


def _extreme(op: str) -> Function:
    plain: Any = min if op == "min" else max
    vector = np.minimum if op == "min" else np.maximum
    return lambda a, b: vector(a, b) if is_vector(a) or is_vector(b) else plain(a, b)


def _shift(op: str, type_: str) -> Function:
    """Amounts are unsigned and clamped to the width. PTX ISA, shl and shr."""
    bits, wrap, dtype = WIDTH[type_], wrapper(type_), DTYPES[type_]

    def apply(a: Scalar, b: Scalar) -> Scalar:
        if not is_vector(a) and not is_vector(b):
            amount = bits if b < 0 else min(b, bits)
            return wrap(a << amount) if op == "shl" else a >> amount
        amount = np.asarray(b).astype(np.int64)
        amount = np.where((amount < 0) | (amount > bits), bits, amount)
        last = np.minimum(amount, bits - 1).astype(dtype)
        value = np.asarray(a, dtype=dtype)
        if op == "shl":
            return np.where(amount >= bits, dtype.type(0), np.left_shift(value, last)).astype(dtype)
        shifted = np.right_shift(value, last)
        return shifted if type_.startswith("s") else np.where(amount >= bits, dtype.type(0), shifted).astype(dtype)

    return apply


def quotient(a: Scalar, b: Scalar) -> Scalar:
    """a / b of integers towards zero, b nowhere 0."""
    if not is_vector(a) and not is_vector(b):
        return numbers.quotient(a, b)
    down = np.floor_divide(a, b)
    inexact_negative = (np.remainder(a, b) != 0) & ((np.asarray(a) < 0) != (np.asarray(b) < 0))
    return (down + inexact_negative).astype(down.dtype)


def remainder(a: Scalar, b: Scalar) -> Scalar:
    """a - (a / b) * b."""
    return np.fmod(a, b) if is_vector(a) or is_vector(b) else numbers.remainder(a, b)


def ceiling(a: Scalar, b: Scalar) -> Scalar:
    """The ceiling of the true quotient."""
    if not is_vector(a) and not is_vector(b):
        return numbers.ceiling(a, b)
    down = np.floor_divide(a, b)
    return (down + (np.remainder(a, b) != 0)).astype(down.dtype)


def unary(op: str, type_: str) -> Callable[[Scalar], Scalar]:
    if op == "lnot":
        return lambda a: np.logical_not(a) if is_vector(a) else not a
    if type_ in FLOATS:
        return lambda a: -a
    wrap = wrapper(type_)
    if op == "not":
        return lambda a: ~a if is_vector(a) else wrap(~a)
    return lambda a: np.negative(a) if is_vector(a) else wrap(-a)


_erf: Any = np.vectorize(libm.erf, otypes=[np.float64])


def _rsqrt(x: Any) -> Any:
    return x.dtype.type(1) / np.sqrt(x)


def _gelu(x: Any) -> Any:
    return (0.5 * x.astype(np.float64) * (1 + _erf(x.astype(np.float64) * 0.7071067811865476))).astype(x.dtype)


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


def _exact_fma(a: float, b: float, c: float) -> float:
    if not (libm.isfinite(a) and libm.isfinite(b) and libm.isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # the sign of zero
    try:
        return float(exact)  # correctly rounded
    except OverflowError:
        return libm.copysign(libm.inf, exact)


_fma_f64: Any = np.vectorize(_exact_fma, otypes=[np.float64])


def _round(x: Any) -> Any:
    """Half away from zero, as roundf."""
    return np.sign(x) * np.floor(np.abs(x) + x.dtype.type(0.5))


MATH: dict[str, Callable[..., Any]] = {
    "exp2f": np.exp2,
    "exp2": np.exp2,
    "exp": np.exp,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "fabs": np.abs,
    "fmaf": fma,
    "frcp_rn": lambda x: x.dtype.type(1) / x,
    "tanh": np.tanh,
    "sigmoid": lambda x: (1 / (1 + np.exp(-x))).astype(x.dtype),
    "gelu": _gelu,
    "pow": np.power,
    "acos": np.arccos,
    "asin": np.arcsin,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "ceil": np.ceil,
    "floor": np.floor,
    "round": _round,
    "cos": np.cos,
    "cosh": np.cosh,
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "sign": np.sign,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "isfinite": np.isfinite,
}


def math(fn: str, arg_type: str, result_type: str) -> Callable[..., Scalar] | None:
    """The function, computed in f32 (f64 for f64) and rounded to the result's type; None if there is none."""
    function = MATH.get(fn)
    if function is None:
        return None
    wide = "f64" if arg_type == "f64" else "f32"
    widen = converter(arg_type, wide)
    narrow = converter(wide, result_type)

    def apply(*args: Scalar) -> Scalar:
        result = function(*[widen(a) for a in args])
        return _to_bool(result) if result_type == "bool" else narrow(result)

    return apply


def _to_bool(value: Any) -> Scalar:
    return value if is_vector(value) else bool(value)
