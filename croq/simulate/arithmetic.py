"""Scalar operators on uniform values and vectors of lanes, with the wrap-around and division of C.

`binary`, `unary` and `math` give the function of an operator for one type. Integer division is not here: it needs to
know the active lanes (see `ops_scalar`), and gets `quotient` and `remainder`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

import croq.numbers as numbers
from croq.functions import FUNCTIONS
from croq.ir.types import FLOATS
from croq.operators import OPERATORS
from croq.simulate.dtypes import DTYPES, WIDTH, Scalar, converter, is_vector, wrapper

Function = Callable[[Scalar, Scalar], Scalar]

LOGIC: dict[str, Function] = {"land": operator.and_, "lor": operator.or_}
_FLOAT: dict[str, Function] = {
    **{name: numbers.ARITHMETIC[name].exact for name in ("add", "sub", "mul")},
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
    if op in numbers.COMPARISONS:
        compare = numbers.COMPARISONS[op]
        return lambda a, b: r if type(r := compare(a, b)) is np.ndarray else bool(r)
    if op in LOGIC:
        return LOGIC[op]
    if type_ in FLOATS:
        return _float(op, type_)
    if OPERATORS[op].kind == "bits":
        return numbers.ARITHMETIC[op].exact
    if op in numbers.SHIFTS:
        return _shift(op, type_)
    if op in ("min", "max"):
        return _extreme(op)
    return _wrapped(numbers.ARITHMETIC[op].exact, type_)


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
    plain, vector = numbers.ARITHMETIC[op].exact, OPERATORS[op].vector
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


def math(fn: str, arg_type: str, result_type: str) -> Callable[..., Scalar] | None:
    """The function, computed in f32 (f64 for f64) and rounded to the result's type; None if there is none."""
    function = FUNCTIONS.get(fn)
    if function is None:
        return None
    vector, wide = function.vector, "f64" if arg_type == "f64" else "f32"
    widen = converter(arg_type, wide)
    narrow = converter(wide, result_type)

    def apply(*args: Scalar) -> Scalar:
        return narrow(vector(*[widen(a) for a in args]))

    return apply
