"""Integer arithmetic on what is known of values: constants, symbolic values, intervals, bounds."""

from __future__ import annotations

from collections.abc import Callable

import croq.numbers as numbers
from croq.operators import SPELLED, spellings
from croq.sema.symbolic import Dim
from croq.sema.types import Interval, Scalar, closed, integer, opened, promote

COMPARISONS = spellings("comparison")
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
    return SPELLED[op].name in numbers.DIVISIONS and right.known == 0


def shifts_too_far(op: str, right: Scalar, element: str) -> bool:
    return SPELLED[op].kind == "shift" and right.known is not None and not 0 <= right.known < numbers.WIDTHS[element]


def combine(op: str, a: Scalar, b: Scalar, element: str) -> Scalar:
    """The result of an integer operation of type `element`; the operands are integers and b is not a constant 0.

    Places that may leave 32 bits are computed in 64: see "Numbers" in docs/language.md.
    """
    name = SPELLED[op].name
    shift = name in numbers.SHIFTS
    if a.known is not None and b.known is not None:
        amount = b.known if shift else numbers.wrap(b.known, element)
        folded = int(numbers.integer(name, numbers.wrap(a.known, element), amount, element))
        return integer(folded, element, literal=a.literal and b.literal)
    form = _form(op, a, b)
    left, right = _interval(a, element), _interval(b, b.element if shift else element)
    exact = numbers.exact_interval(name, left, right, element)
    if form is not None:
        exact = _meet(exact, form.interval())
        if element == "s32" and not numbers.fits(exact, "s32"):
            element = "s64"
    fits = numbers.fits(exact, element)
    interval = opened(exact if fits else numbers.limits(element), element)
    value = _value(op, a, b, element)
    constant = value.known if value is not None else None
    if constant is not None:
        interval = Interval(constant, constant)
    varies, mutable = a.varies | b.varies, a.mutable or b.mutable
    form = form if fits else None
    return Scalar(element, constant, value, interval, _bound(op, a, b), varies, mutable=mutable, form=form)


def _meet(a: numbers.Interval, b: numbers.Interval) -> numbers.Interval:
    return max(a[0], b[0]), min(a[1], b[1])


def _form(op: str, a: Scalar, b: Scalar) -> Dim | None:
    """The exact result, where both operands are indices, extents or constants."""
    if a.form is None or b.form is None or op not in _ON_DIMS:
        return None
    return _ON_DIMS[op](a.form, b.form)


def _interval(found: Scalar, element: str) -> numbers.Interval:
    """Of an operand as a value of `element`."""
    interval = closed(found.interval, found.element)
    return interval if numbers.fits(interval, element) else numbers.limits(element)


def compare(op: str, a: Scalar, b: Scalar) -> bool | None:
    """The outcome, when both sides are constants."""
    element = promote(a, b)
    if a.known is None or b.known is None or element not in numbers.WIDTHS:
        return None
    return bool(numbers.COMPARISONS[SPELLED[op].name](numbers.wrap(a.known, element), numbers.wrap(b.known, element)))


def _value(op: str, a: Scalar, b: Scalar, element: str) -> Dim | None:
    """As the host computes it, which never wraps: nothing is concluded from operands that may have."""
    if a.value is None or b.value is None or op not in _ON_DIMS:
        return None
    exact = op in ("+", "-", "*") or all(numbers.fits(v.interval(), element) for v in (a.value, b.value))
    return _ON_DIMS[op](a.value, b.value) if exact else None


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
