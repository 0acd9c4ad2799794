"""Conversions between element types: what survives, and what an implicit one may lose."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite, isnan

import croq.numbers as numbers
from croq.sema.state import State
from croq.sema.types import FLOATS, INTEGERS, NARROW_FLOATS, Scalar, closed, integer, opened, width
from croq.source import Span


def convert(found: Scalar, element: str) -> Scalar:
    """`found` after a conversion to `element`; knowledge of the value survives between integers that hold it."""
    if element == found.element:
        return replace(found, literal=False)
    if element in INTEGERS and found.is_integer and found.known is None:
        interval = closed(found.interval, found.element)
        if not numbers.fits(interval, element):
            return replace(found.without_value(), element=element)
        return replace(found, element=element, interval=opened(interval, element), literal=False)
    constant = None if found.constant is None else numbers.convert(found.constant, element)
    if element in INTEGERS and isinstance(constant, int):
        return integer(constant, element)
    return replace(found.without_value(), element=element, constant=constant)


def has_no_integer(state: State, span: Span, found: Scalar, element: str) -> bool:
    """Report an infinity or NaN where an integer is wanted."""
    endless = isinstance(found.constant, float) and not isfinite(found.constant) and element in INTEGERS
    if endless:
        what = "NaN" if isinstance(found.constant, float) and isnan(found.constant) else "infinity"
        low, high = numbers.limits(element)
        state.sink.error(
            "E-413",
            span,
            f"{what} is not a value of `{element}`",
            notes=[f"its values are {low} to {high}"],
            hint="write the number that is meant",
        )
    return endless


def convertible(state: State, span: Span, found: Scalar, element: str, code: str, what: str) -> bool:
    """Check an implicit conversion at an assignment; warns where it may lose something."""
    if found.is_error or found.element == element:
        return True
    if has_no_integer(state, span, found, element):
        return False
    if "bool" in (found.element, element):
        code = "E-302" if element == "bool" else code
        state.sink.error(
            code,
            span,
            f"{what} is a `{element}`, and a `{found.element}` does not convert to it",
            hint="write a comparison" if element == "bool" else "write `condition ? 1 : 0`",
        )
        return False
    _warn_loss(state, span, found, element)
    return True


def _warn_loss(state: State, span: Span, found: Scalar, element: str) -> None:
    if found.literal or (found.known is not None and element not in FLOATS and _fits(found.known, element)):
        return
    hint = f"write `__to<{element}>(...)` if that is meant"
    if found.element in FLOATS and element in FLOATS:
        loses = width(element) < width(found.element) or (element in NARROW_FLOATS and found.element in NARROW_FLOATS)
    elif found.element in FLOATS:
        loses = True
    elif element in FLOATS:
        loses = width(element) < width(found.element)
    else:
        loses = width(element) < width(found.element)
        if not loses and element.startswith("u") and not found.element.startswith("u"):
            if found.interval.lo is None or found.interval.lo < 0:
                state.sink.warning(
                    "W-302", span, f"a negative `{found.element}` becomes a large `{element}`", hint=hint
                )
            return
    if loses:
        state.sink.warning("W-301", span, f"`{found.element}` to `{element}` may lose precision", hint=hint)


def _fits(value: int, element: str) -> bool:
    return numbers.wrap(value, element) == value
