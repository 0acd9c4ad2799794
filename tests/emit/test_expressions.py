"""Parentheses, literals and the folding of address arithmetic."""

from __future__ import annotations

import math

import pytest

from croq.emit import expressions as e
from croq.emit.dims import dim_expr
from croq.sema.symbolic import Dim

A, B, C = (e.name(text) for text in "abc")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (e.binary("add", e.binary("mul", A, B), C), "a * b + c"),
        (e.binary("mul", e.binary("add", A, B), C), "(a + b) * c"),
        (e.binary("sub", A, e.binary("sub", B, C)), "a - (b - c)"),
        (e.binary("sub", e.binary("sub", A, B), C), "a - b - c"),
        (e.binary("div", A, e.binary("mul", B, C)), "a / (b * c)"),
        (e.binary("and", e.binary("shr", A, e.integer(8)), e.integer(63)), "(a >> 8) & 0x3f"),
        (e.binary("add", e.binary("and", A, B), C), "(a & b) + c"),
        (e.binary("eq", e.binary("and", A, e.integer(1)), e.integer(0)), "(a & 1) == 0"),
        (e.binary("lor", e.binary("land", A, B), C), "(a && b) || c"),
        (e.binary("land", e.binary("lt", A, B), e.binary("lt", B, C)), "a < b && b < c"),
        (e.unary("-", e.unary("-", A)), "-(-a)"),
        (e.unary("!", e.binary("lt", A, B)), "!(a < b)"),
        (e.ternary(e.binary("lt", A, B), A, e.ternary(B, B, C)), "a < b ? a : b ? b : c"),
        (e.binary("add", e.ternary(A, B, C), A), "(a ? b : c) + a"),
        (e.binary("shl", e.integer(1, "u32"), A), "1u << a"),
        (e.binary("mul", e.integer(3, "u64"), e.integer(4, "u64")), "3ull * 4"),
        (e.call("f", e.integer(3, "u32"), A), "f(3u, a)"),
    ],
)
def test_parentheses_are_those_that_a_person_writes(expr: e.Expr, text: str) -> None:
    assert expr.text == text


@pytest.mark.parametrize(
    ("value", "element", "text"),
    [
        (0.1, "f32", "0.1f"),
        (0.12751743, "f32", "0.12751743f"),
        (1e-5, "f32", "1e-05f"),
        (2.0, "f32", "2.0f"),
        (0.1, "f64", "0.1"),
        (-0.0, "f32", "-0.0f"),
        (math.inf, "f32", "croq::infinity()"),
        (-math.inf, "f32", "-croq::infinity()"),
        (math.nan, "f32", "croq::bits_float(0x7fc00000u)"),
        (1.5, "bf16", "bf16(1.5f)"),
        (True, "bool", "true"),
        (-(2**31), "s32", "-2147483647 - 1"),
        (2**31, "u32", "2147483648u"),
        (2**40, "s64", "1099511627776ll"),
    ],
)
def test_literals_have_the_value_and_the_type(value: float, element: str, text: str) -> None:
    assert e.literal(value, element).text == text


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (e.plus(A, 0, B, 3, -3), "a + b"),
        (e.plus(3, A, -5), "a - 2"),
        (e.plus(A, e.plus(B, 2), 6), "a + b + 8"),
        (e.plus(0, 0), "0"),
        (e.times(e.times(A, 64), 128), "a * 8192"),
        (e.times(e.plus(A, 2), 4), "a * 4 + 8"),
        (e.times(A, 1), "a"),
        (e.times(A, 0), "0"),
        (e.divided(e.times(A, 64), 16), "a * 4"),
        (e.divided(e.plus(A, B), 4), "(a + b) / 4"),
        (e.modulo(e.times(A, 64), 16), "0"),
        (e.modulo(A, 8), "a % 8"),
        (e.plus(A, e.times(e.plus(A, B), 4)), "a + (a + b) * 4"),
        (e.plus(A, e.binary("sub", B, C)), "a + b - c"),
    ],
)
def test_address_arithmetic_is_folded(expr: e.Expr, text: str) -> None:
    assert expr.text == text


def test_dimensions_are_expressions_over_arguments() -> None:
    n, m = Dim.symbol("N"), Dim.symbol("M")

    def text(dim: Dim) -> str:
        return dim_expr(dim, e.name).text

    assert text(n.cdiv(128) - 1) == "croq::cdiv(N, 128) - 1"
    assert text(n * m * 2 + 1) == "M * N * 2 + 1"
    assert text((n + 1).div(4).mod(m)) == "(N + 1) / 4 % M"
    assert text(n.min(m)) == "croq::min(N, M)"
    assert text(Dim.of(0)) == "0"
    assert text(Dim.of(5) - n) == "5 - N"
