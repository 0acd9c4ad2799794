"""What is known of values must hold for every value."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import croq.numbers as numbers
from croq.sema import arithmetic
from croq.sema.symbolic import Dim
from croq.sema.types import Interval, Scalar, bounded, from_dim, integer


@st.composite
def ranged(draw: st.DrawFn, low: int, high: int) -> tuple[tuple[int, int], int]:
    """An interval, small, at the edge of the type or anywhere in it, and a value inside."""
    near = st.integers(max(low, -300), min(high, 300))
    ends = st.one_of(near, st.sampled_from([low, low + 1, high - 1, high]), st.integers(low, high))
    lo, hi = sorted((draw(ends), draw(ends)))
    return (lo, hi), draw(st.one_of(st.sampled_from([lo, hi]), st.integers(lo, hi)))


@settings(deadline=None)
@given(st.data(), st.sampled_from(list(numbers.ARITHMETIC)), st.sampled_from(list(numbers.WIDTHS)))
def test_intervals_hold_every_result(data: st.DataObject, op: str, element: str) -> None:
    low, high = numbers.limits(element)
    a, x = data.draw(ranged(low, high))
    b, y = data.draw(ranged(*((-3, 70) if op in numbers.SHIFTS else (low, high))))
    if op in numbers.DIVISIONS and y == 0:
        return
    found = numbers.interval(op, a, b, element)
    assert found[0] <= numbers.integer(op, x, y, element) <= found[1]


@settings(deadline=None)
@given(st.integers(-1000, 1000), st.integers(-1000, 1000).filter(bool))
def test_division_is_that_of_c(a: int, b: int) -> None:
    quotient = numbers.integer("div", a, b, "s32")
    assert quotient == int(a / b)
    assert arithmetic.combine("%", integer(a), integer(b), "s32").known == a - quotient * b


@pytest.mark.parametrize(
    ("op", "a", "b", "element", "expected"),
    [
        ("+", 2**31 - 1, 1, "s32", -(2**31)),
        ("-", 0, 1, "u32", 2**32 - 1),
        ("*", 100, 100, "s8", 16),
        ("/", -(2**31), -1, "s32", -(2**31)),
        ("/", -7, 2, "s32", -3),
        ("%", -7, 2, "s32", -1),
        ("cdiv", -7, 2, "s32", -3),
        ("cdiv", -1, 64, "s32", 0),
        ("cdiv", -65, 64, "s32", -1),
        ("<<", 1, 31, "s32", -(2**31)),
        (">>", -8, 1, "s32", -4),
    ],
)
def test_integers_wrap_and_divide_as_the_language_says(op: str, a: int, b: int, element: str, expected: int) -> None:
    assert arithmetic.combine(op, integer(a, element), integer(b, element), element).known == expected


def test_comparisons_of_constants_are_those_of_the_common_type() -> None:
    assert arithmetic.compare("<", integer(-1), integer(1, "u32")) is False


def test_what_may_leave_32_bits_is_a_place_of_64() -> None:
    extent = from_dim(Dim.symbol("N"))
    block = bounded("b", Dim.symbol("N"))
    assert arithmetic.combine("*", block, integer(64), "s32").element == "s64"
    assert arithmetic.combine("*", extent, extent, "s32").element == "s64"
    assert arithmetic.combine("*", bounded("b", Dim.symbol("N").cdiv(64)), integer(64), "s32").element == "s32"
    assert arithmetic.combine("*", Scalar("s32"), integer(64), "s32").element == "s32"


@settings(deadline=None)
@given(st.sampled_from(["+", "-", "*", "/", "%", "cdiv"]), st.integers(1, 40), st.integers(1, 40), st.integers(1, 9))
def test_symbolic_values_evaluate_to_the_value(op: str, m: int, n: int, factor: int) -> None:
    left = from_dim(Dim.symbol("M") * factor + 3)
    right = from_dim(Dim.symbol("N"))
    value = arithmetic.combine(op, left, right, "s64").value
    expected = arithmetic.combine(op, integer(m * factor + 3), integer(n), "s64").known
    assert value is not None and value.evaluate({"M": m, "N": n}) == expected


def test_a_scalar_parameter_may_be_negative() -> None:
    parameter = Scalar("s32", value=Dim.symbol("n"))
    following = arithmetic.combine("+", parameter, integer(1), "s32")
    assert following.interval.lo is None
    assert arithmetic.combine("%", following, integer(4), "s32").interval == Interval(-3, 3)


def test_bounds_follow_the_language() -> None:
    p = Scalar("s32", interval=Interval(0, 5), bound=Dim.of(6))
    assert arithmetic.combine("%", p, integer(2), "s32").bound == Dim.of(2)
    assert arithmetic.combine("/", p, integer(4), "s32").bound == Dim.of(2)
    assert arithmetic.combine("-", p, integer(1), "s32").bound == Dim.of(6)
    assert arithmetic.combine("*", p, integer(2), "s32").bound is None
