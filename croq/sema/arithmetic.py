"""Integer arithmetic on what is known of values: constants, symbolic values, intervals, bounds."""

from __future__ import annotations

from collections.abc import Callable

from croq.sema.symbolic import Dim
from croq.sema.types import ANYTHING, SIGNED, Interval, Scalar, width, wrap

COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")


def c_div(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


_FOLD: dict[str, Callable[[int, int], int | bool]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": c_div,
    "%": lambda a, b: a - b * c_div(a, b),
    "cdiv": lambda a, b: -(-a // b),
    "<<": lambda a, b: a << (b & 63),
    ">>": lambda a, b: a >> (b & 63),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "min": min,
    "max": max,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
_ON_DIMS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a.div(b),
    "%": lambda a, b: a.mod(b),
    "cdiv": lambda a, b: a.cdiv(b),
    "min": lambda a, b: a.min(b),
    "max": lambda a, b: a.max(b),
}


def divides_by_zero(op: str, right: Scalar) -> bool:
    return op in ("/", "%", "cdiv") and right.known == 0


def combine(op: str, a: Scalar, b: Scalar, element: str) -> Scalar:
    """The result of an integer operation of type `element`; the operands are integers and b is not a constant 0."""
    varies, mutable = a.varies | b.varies, a.mutable or b.mutable
    literal = a.literal and b.literal
    if a.known is not None and b.known is not None:
        folded = wrap(int(_FOLD[op](wrap(a.known, element), wrap(b.known, element))), element)
        return Scalar(element, folded, Dim.of(folded), Interval(folded, folded), literal=literal)
    interval = interval_of(op, a.interval, b.interval, element)
    value = _value(op, a, b)
    constant = value.known if value is not None else None
    if constant is not None:
        interval = Interval(constant, constant)
    return Scalar(element, constant, value, interval, _bound(op, a, b), varies, mutable=mutable)


def compare(op: str, a: Scalar, b: Scalar) -> bool | None:
    """The outcome, when both sides are constants."""
    if a.known is None or b.known is None:
        return None
    return bool(_FOLD[op](a.known, b.known))


def _value(op: str, a: Scalar, b: Scalar) -> Dim | None:
    if a.value is None or b.value is None or op not in _ON_DIMS:
        return None
    return _ON_DIMS[op](a.value, b.value)


def _bound(op: str, a: Scalar, b: Scalar) -> Dim | None:
    """`#(a op b)` in the sense of section 4."""
    if op == "%":
        return b.value if a.interval.lo is not None and a.interval.lo >= 0 else None
    if a.bound is not None and b.value is not None:
        if op == "/":
            return a.bound.cdiv(b.value)
        if op in ("+", "-"):
            return a.bound
    if op == "+" and b.bound is not None and a.value is not None:
        return b.bound
    return None


def interval_of(op: str, a: Interval, b: Interval, element: str) -> Interval:
    """Bounds of `a op b`; unknown where the result might leave the range of `element` and wrap."""
    compute = _INTERVALS.get(op)
    found = compute(a, b) if compute is not None else ANYTHING
    bits = 8 * width(element)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if element in SIGNED else (0, (1 << bits) - 1)
    too_low = (found.lo is not None and found.lo < low) or (found.lo is None and element not in SIGNED)
    if too_low or (found.hi is not None and found.hi > high):
        return ANYTHING if element in SIGNED else Interval(0, None)
    return found


def _add(a: Interval, b: Interval) -> Interval:
    lo = a.lo + b.lo if a.lo is not None and b.lo is not None else None
    hi = a.hi + b.hi if a.hi is not None and b.hi is not None else None
    return Interval(lo, hi)


def _sub(a: Interval, b: Interval) -> Interval:
    lo = a.lo - b.hi if a.lo is not None and b.hi is not None else None
    hi = a.hi - b.lo if a.hi is not None and b.lo is not None else None
    return Interval(lo, hi)


def _mul(a: Interval, b: Interval) -> Interval:
    if a.lo is None or b.lo is None:
        return ANYTHING
    if a.hi is None or b.hi is None:
        return Interval(a.lo * b.lo) if a.lo >= 0 and b.lo >= 0 else ANYTHING
    products = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return Interval(min(products), max(products))


def _div(a: Interval, b: Interval) -> Interval:
    if a.lo is None or a.lo < 0 or b.lo is None or b.lo <= 0:
        return ANYTHING
    lo = a.lo // b.hi if b.hi is not None else 0
    return Interval(lo, a.hi // b.lo if a.hi is not None else None)


def _cdiv(a: Interval, b: Interval) -> Interval:
    if a.lo is None or a.lo < 0 or b.lo is None or b.lo <= 0:
        return ANYTHING
    lo = -(-a.lo // b.hi) if b.hi is not None else min(a.lo, 1)
    return Interval(lo, -(-a.hi // b.lo) if a.hi is not None else None)


def _mod(a: Interval, b: Interval) -> Interval:
    if a.lo is None or a.lo < 0 or b.lo is None or b.lo <= 0:
        return ANYTHING
    hi = b.hi - 1 if b.hi is not None else None
    if a.hi is not None and a.hi < b.lo:
        return a
    if a.hi is not None:
        hi = a.hi if hi is None else min(hi, a.hi)
    return Interval(0, hi)


def _and(a: Interval, b: Interval) -> Interval:
    masks = [i.hi for i in (a, b) if i.lo is not None and i.lo >= 0 and i.hi is not None]
    non_negative = any(i.lo is not None and i.lo >= 0 for i in (a, b))
    return Interval(0, min(masks) if masks else None) if non_negative else ANYTHING


def _shr(a: Interval, b: Interval) -> Interval:
    if a.lo is None or a.lo < 0 or b.lo is None or b.lo < 0:
        return ANYTHING
    return Interval(a.lo >> min(b.hi, 63) if b.hi is not None else 0, a.hi >> b.lo if a.hi is not None else None)


def _shl(a: Interval, b: Interval) -> Interval:
    if a.lo is None or a.lo < 0 or a.hi is None or b.lo is None or b.lo < 0 or b.hi is None or b.hi > 31:
        return ANYTHING
    found = Interval(a.lo << b.lo, a.hi << b.hi)
    return found if a.hi << b.hi < 2**31 else ANYTHING


def _min(a: Interval, b: Interval) -> Interval:
    his = [i.hi for i in (a, b) if i.hi is not None]
    return Interval(min(a.lo, b.lo) if a.lo is not None and b.lo is not None else None, min(his) if his else None)


def _max(a: Interval, b: Interval) -> Interval:
    los = [i.lo for i in (a, b) if i.lo is not None]
    return Interval(max(los) if los else None, max(a.hi, b.hi) if a.hi is not None and b.hi is not None else None)


_INTERVALS: dict[str, Callable[[Interval, Interval], Interval]] = {
    "+": _add,
    "-": _sub,
    "*": _mul,
    "/": _div,
    "cdiv": _cdiv,
    "%": _mod,
    "&": _and,
    ">>": _shr,
    "<<": _shl,
    "min": _min,
    "max": _max,
}
