"""Which sums are fused with a product, and that a fused one rounds once where the program is executed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from croq.functions import fma
from croq.ir.scalar import Binary, Math
from croq.simulate import run
from tests.passes.helpers import every, lower

PARAMS = "global f32 [N] x, global f32 [N] y, global f32 [N] z, global bf16 [N] h"


def scalar(body: str) -> str:
    return (
        f"__co__ void k({PARAMS}) {{ parallel b by 1 : block, t by 32 : thread {{ if (t < N) {{\n"
        f"a = x.at(t); c = y.at(t);\n{body}\n}} }} }}"
    )


@pytest.mark.parametrize(
    ("body", "fused", "left"),
    [
        ("z.at(t) = a * c + 1.0f;", 1, []),
        ("z.at(t) = 1.0f + a * c;", 1, []),
        ("z.at(t) = a * c - 1.0f;", 1, []),
        ("z.at(t) = 1.0f - a * c;", 1, []),
        ("z.at(t) += a * c;", 1, []),
        ("z.at(t) = (a * c + 1.0f) * a + 2.0f;", 2, []),
        ("p = a * c; z.at(t) = p + 1.0f;", 0, ["mul", "add"]),
        ("z.at(t) = a * c - a * 3.0f;", 0, ["mul", "mul", "sub"]),
        ("z.at(t) = a * c + -(a * 3.0f);", 0, ["mul", "mul", "add"]),
        ("z.at(t) = a + c;", 0, ["add"]),
        ("h.at(t) = __to<bf16>(a) * __to<bf16>(c) + __to<bf16>(1.0f);", 0, ["mul", "add"]),
    ],
)
def test_a_sum_of_one_product_is_fused(body: str, fused: int, left: list[str]) -> None:
    kernel = lower(scalar(body))
    assert [op.fn for op in every(kernel, Math)] == ["fmaf"] * fused
    assert [op.op for op in every(kernel, Binary) if op.left.type in ("f32", "bf16") and op.op != "lt"] == left


def test_a_product_that_is_used_twice_is_computed_once() -> None:
    kernel = lower(scalar("z.at(t) = a * c + 1.0f; x.at(t) = a * c;"))
    assert not every(kernel, Math)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("z.at(t) = a * c - 1.0f;", lambda a, c: Fraction(float(a)) * Fraction(float(c)) - 1),
        ("z.at(t) = 1.0f - a * c;", lambda a, c: 1 - Fraction(float(a)) * Fraction(float(c))),
        ("p = a * c; z.at(t) = p - 1.0f;", lambda a, c: Fraction(float(a * c)) - 1),
    ],
)
def test_the_simulator_rounds_once_where_the_program_is_fused(body, expected) -> None:
    x = np.float32(1) + np.arange(1, 33, dtype=np.float32) * np.float32(2.0**-20)
    y = np.float32(1) - np.arange(1, 33, dtype=np.float32) * np.float32(2.0**-21)
    arrays = {"x": x, "y": y, "z": np.zeros(32, np.float32), "h": np.zeros(32, np.uint16)}
    run(lower(scalar(body).replace("global bf16", "global u16")), arrays)
    want = [np.float32(float(expected(a, c))) for a, c in zip(x, y, strict=True)]
    np.testing.assert_array_equal(arrays["z"], want)


def test_fma_rounds_once_next_to_the_middle_of_two_floats() -> None:
    """Where the sum in f64 falls on the middle of two f32, rounding it again would go the wrong way."""
    a, b, c = np.float32(2**23 + 1), np.float32(1 + 2.0**-23), np.array([2.0**-60, -(2.0**-60), 0.0], np.float32)
    exact = [Fraction(float(a)) * Fraction(float(b)) + Fraction(float(x)) for x in c]
    low = np.float32(2**23 + 2)
    want = [low if abs(e - int(low)) < abs(e - int(low) - 1) else low + 1 for e in exact]
    np.testing.assert_array_equal(fma(a, b, c)[:2], want[:2])


def test_fma_of_f64_rounds_once() -> None:
    a = np.float64(1 + 2.0**-52)
    assert fma(a, a, np.float64(-1 - 2.0**-51)) == 2.0**-104
    assert a * a - np.float64(1 + 2.0**-51) == 0
