"""What is known of values must hold for every value."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from croq.sema import arithmetic
from croq.sema.symbolic import Dim
from croq.sema.types import Interval, Scalar, from_dim, integer, wrap

OPS = ["+", "-", "*", "/", "%", "cdiv", "<<", ">>", "&", "|", "^", "min", "max"]
ELEMENTS = ["s32", "u32", "s64", "u8"]


@st.composite
def ranged(draw: st.DrawFn) -> tuple[Interval, int]:
    """An interval, perhaps open, and a value in it."""
    lo, hi = sorted((draw(st.integers(-300, 300)), draw(st.integers(-300, 300))))
    inside = draw(st.integers(lo, hi))
    return Interval(draw(st.sampled_from([lo, None])), draw(st.sampled_from([hi, None]))), inside


@given(st.sampled_from(OPS), ranged(), ranged(), st.sampled_from(ELEMENTS))
def test_intervals_hold_every_result(
    op: str, left: tuple[Interval, int], right: tuple[Interval, int], element: str
) -> None:
    (a, x), (b, y) = left, right
    unsigned = element.startswith("u")
    if (op in ("/", "%", "cdiv") and (y <= 0 or x < 0)) or (op in ("<<", ">>") and not 0 <= y < 31):
        return
    if wrap(x, element) != x or wrap(y, element) != y:
        return
    if unsigned:
        a, b = a.meet(Interval(0)), b.meet(Interval(0))
    result = arithmetic.combine(op, integer(x), integer(y), element).known
    assert result is not None
    found = arithmetic.interval_of(op, a, b, element)
    assert found.lo is None or found.lo <= result
    assert found.hi is None or result <= found.hi


@given(st.integers(-1000, 1000), st.integers(-1000, 1000).filter(bool))
def test_division_is_that_of_c(a: int, b: int) -> None:
    quotient = arithmetic.c_div(a, b)
    assert quotient == int(a / b)
    assert arithmetic.combine("%", integer(a), integer(b), "s32").known == a - quotient * b


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
    assert arithmetic.combine("%", following, integer(4), "s32").interval.lo is None


def test_bounds_follow_the_language() -> None:
    p = Scalar("s32", interval=Interval(0, 5), bound=Dim.of(6))
    assert arithmetic.combine("%", p, integer(2), "s32").bound == Dim.of(2)
    assert arithmetic.combine("/", p, integer(4), "s32").bound == Dim.of(2)
    assert arithmetic.combine("-", p, integer(1), "s32").bound == Dim.of(6)
    assert arithmetic.combine("*", p, integer(2), "s32").bound is None
