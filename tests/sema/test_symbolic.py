"""Symbolic integers: equal forms are equal, unequal ones are not claimed to be, and values are right."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from croq.sema.symbolic import Dim, DimLike

M, N = Dim.symbol("M"), Dim.symbol("N")
SIZES = st.integers(1, 60)


@st.composite
def dims(draw: st.DrawFn, depth: int = 3) -> Dim:
    if depth == 0:
        return draw(st.sampled_from([M, N, Dim.of(draw(st.integers(1, 9)))]))
    left, right = draw(dims(depth - 1)), draw(dims(depth - 1))
    op = draw(st.sampled_from(["add", "mul", "div", "cdiv", "mod", "min", "max"]))
    if op == "add":
        return left + right
    if op == "mul":
        return left * right
    positive: DimLike = draw(st.integers(1, 9)) if op in ("div", "cdiv", "mod") else right
    made: Dim = getattr(left, op)(positive)
    return made


@given(dims(), dims(), SIZES, SIZES)
def test_a_proof_of_equality_holds(a: Dim, b: Dim, m: int, n: int) -> None:
    x, y = a.evaluate({"M": m, "N": n}), b.evaluate({"M": m, "N": n})
    verdict = a.equals(b)
    assert verdict is None or verdict == (x == y)


@given(dims(), dims(), SIZES, SIZES)
def test_arithmetic_commutes_with_evaluation(a: Dim, b: Dim, m: int, n: int) -> None:
    bound = {"M": m, "N": n}
    x, y = a.evaluate(bound), b.evaluate(bound)
    assert (a + b).evaluate(bound) == x + y
    assert (a - b).evaluate(bound) == x - y
    assert (a * b).evaluate(bound) == x * y
    assert a.min(b).evaluate(bound) == min(x, y)
    assert a.cdiv(7).evaluate(bound) == -(-x // 7)


def test_normal_form() -> None:
    assert (M + N) * 2 == 2 * N + 2 * M
    assert (M * N * 4).div(N * 2) == M * 2
    assert M.cdiv(64).equals(M.cdiv(64)) is True
    assert (M + 1).equals(M) is False
    assert M.equals(N) is None
    assert str((M * 2 + 1).cdiv(64) - 1) == "cdiv(2*M + 1, 64) - 1"
    assert Dim.of(7).cdiv(2).known == 4 and (M - M).known == 0
