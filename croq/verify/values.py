"""Scalars while a kernel is followed: Python integers, one value a lane where lanes differ, and the unknown.

Only what decides control, slots, parities and places is computed. Integers are exact; a value that comes from
floating-point data is `UNKNOWN`, and a decision that depends on it stops the run with `Undecided`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import croq.numbers as numbers
from croq.ir.core import Op
from croq.ir.lanes import lane_flags
from croq.ir.types import FLOATS
from croq.target.cuda import WARP

FULL = (1 << WARP) - 1
Scalar = Any  # int | bool | NDArray[np.int64] | Unknown

_MASKS = {"u32": 0xFFFFFFFF, "u16": 0xFFFF, "u8": 0xFF}
_SIGNED = {"s32": 32, "s16": 16, "s8": 8}


class Undecided(Exception):
    """The run cannot go on: what it would depend on is not known. `op`: where."""

    def __init__(self, reason: str, op: Op | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.op = op


class TooLong(Undecided):
    """The run would take more steps than are followed."""


class Unknown:
    """A value that is not followed. Every operation on it gives it again; deciding by it is impossible."""

    __array_ufunc__ = None  # so that arrays leave the operation to this class

    def _same(self, *_: Any) -> Unknown:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _same
    __mod__ = __rmod__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __and__ = __rand__ = _same
    __or__ = __ror__ = __xor__ = __rxor__ = __neg__ = __invert__ = __lt__ = __gt__ = __le__ = __ge__ = _same
    __eq__ = __ne__ = _same  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise Undecided("it depends on data that is not followed")

    def __index__(self) -> int:
        raise Undecided("it depends on data that is not followed")

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()


def split(mask: int, condition: Scalar) -> tuple[int, int]:
    """The lanes of `mask` for which the condition holds, and the others."""
    if isinstance(condition, np.ndarray):
        bits = int.from_bytes(np.packbits(condition != 0, bitorder="little").tobytes(), "little")
        return mask & bits, mask & ~bits
    return (mask, 0) if condition else (0, mask)


def merge(mask: int, new: Scalar, old: Scalar) -> Scalar:
    """`new` in the lanes of `mask`, `old` elsewhere."""
    if new is UNKNOWN or old is UNKNOWN:
        return UNKNOWN
    return np.where(lane_flags(mask), new, old)


def lanes(value: Scalar) -> NDArray[np.int64]:
    return np.broadcast_to(np.asarray(value, dtype=np.int64), (WARP,))


def most(mask: int, count: Scalar) -> int:
    """The largest of a loop's counts over the lanes of `mask`."""
    if isinstance(count, np.ndarray):
        return int(count[lane_flags(mask)].max())
    return int(count)


# -------------------------------------------------------------------------------------------- integer arithmetic
def quotient(a: Scalar, b: Scalar) -> Scalar:
    """C's: rounded towards zero."""
    if a is UNKNOWN or b is UNKNOWN:
        return UNKNOWN
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a, dtype=np.int64), np.asarray(b, dtype=np.int64)
        safe = np.where(b == 0, 1, b)  # lanes that are not active may divide by zero
        return collapse(np.sign(a) * np.sign(safe) * (np.abs(a) // np.abs(safe)))
    if a >= 0 and b > 0:
        return a // b
    found = abs(a) // abs(b)
    return found if (a < 0) == (b < 0) else -found


def remainder(a: Scalar, b: Scalar) -> Scalar:
    if type(a) is int and type(b) is int and a >= 0 and b > 0:
        return a % b
    return collapse(a - quotient(a, b) * b)


def ceiling(a: Scalar, b: Scalar) -> Scalar:
    if isinstance(b, np.ndarray):
        b = np.where(b == 0, 1, b)
    return collapse(-(-a // b))


def least(a: Scalar, b: Scalar) -> Scalar:
    return _pick(a, b, np.minimum, min)


def greatest(a: Scalar, b: Scalar) -> Scalar:
    return _pick(a, b, np.maximum, max)


def _pick(a: Scalar, b: Scalar, arrays: Callable[..., Any], plain: Callable[..., Any]) -> Scalar:
    if a is UNKNOWN or b is UNKNOWN:
        return UNKNOWN
    return arrays(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else plain(a, b)


def land(a: Scalar, b: Scalar) -> Scalar:
    if a is UNKNOWN or b is UNKNOWN:
        return False if a is False or b is False else UNKNOWN
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return collapse(np.logical_and(a, b))
    return bool(a) and bool(b)


def lor(a: Scalar, b: Scalar) -> Scalar:
    if a is UNKNOWN or b is UNKNOWN:
        return True if a is True or b is True else UNKNOWN
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return collapse(np.logical_or(a, b))
    return bool(a) or bool(b)


def lnot(a: Scalar) -> Scalar:
    if a is UNKNOWN:
        return UNKNOWN
    return np.logical_not(a) if isinstance(a, np.ndarray) else not a


def select(condition: Scalar, then: Scalar, otherwise: Scalar) -> Scalar:
    if condition is UNKNOWN:
        return UNKNOWN
    if isinstance(condition, np.ndarray):
        return UNKNOWN if then is UNKNOWN or otherwise is UNKNOWN else np.where(condition, then, otherwise)
    return then if condition else otherwise


def collapse(value: Scalar) -> Scalar:
    """One value instead of 32 equal ones."""
    if isinstance(value, np.ndarray) and (value == value[0]).all():
        return value[0].item()
    return value


def convert(value: Scalar, source: str, target: str) -> Scalar:
    if target in FLOATS or source in FLOATS:
        return UNKNOWN
    if target == "bool":
        return value != 0
    return wrap(value + 0 if isinstance(value, bool) else value, target)


def wrap(value: Scalar, target: str) -> Scalar:
    """Reduce to the width of the type; the lanes of 64-bit values are taken to fit in an int64."""
    if target in _MASKS:
        return value & _MASKS[target]
    if target in _SIGNED:
        half = 1 << (_SIGNED[target] - 1)
        return ((value + half) & (2 * half - 1)) - half
    return numbers.wrap(value, target) if type(value) is int and target in numbers.WIDTHS else value


def guarded(op: str, a: Scalar, b: Scalar, type_: str) -> Scalar:
    """An operation whose operands may be any: as croq.numbers has it."""
    if a is UNKNOWN or b is UNKNOWN:
        return UNKNOWN
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        pairs = zip(lanes(a).tolist(), lanes(b).tolist(), strict=True)
        found = [numbers.wrap(_guarded(op, x, y, type_), "s64") for x, y in pairs]
        return collapse(np.array(found, dtype=np.int64))
    return _guarded(op, a, b, type_)


def _guarded(op: str, a: int, b: int, type_: str) -> int:
    if op in numbers.DIVISIONS and b == 0:  # lanes that are not active may divide by zero
        return a if op == "mod" else numbers.wrap(-1, type_)
    return int(numbers.integer(op, a, b, type_))


def unsigned_mask(target: str) -> int | None:
    return _MASKS.get(target)


BINARY: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    **{name: numbers.ARITHMETIC[name].exact for name in ("add", "sub", "mul", "and", "or", "xor")},
    "div": quotient,
    "mod": remainder,
    "cdiv": ceiling,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "min": least,
    "max": greatest,
    **numbers.COMPARISONS,
    "land": land,
    "lor": lor,
}
