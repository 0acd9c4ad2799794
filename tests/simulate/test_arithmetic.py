"""Scalar operators: C's wrap-around, division and shifts; conversions with the chip's rounding."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from croq.functions import FUNCTIONS
from croq.numbers import limits
from croq.simulate import arithmetic
from croq.simulate.dtypes import DTYPES, converter, uniform

S32 = st.integers(*limits("s32"))
U32 = st.integers(*limits("u32"))


def _both(function, a, b, dtype):
    """The uniform result, after a check that vectors give the same."""
    plain = function(a, b)
    vector = function(np.full(32, a, dtype), np.full(32, b, dtype))
    assert (vector == plain).all()
    mixed = function(np.full(32, a, dtype), b)
    assert (mixed == plain).all()
    return plain


@given(S32, S32)
def test_signed_arithmetic_wraps(a, b):
    for op, exact in (("add", a + b), ("sub", a - b), ("mul", a * b)):
        found = _both(arithmetic.binary(op, "s32"), a, b, np.int32)
        assert found == ((exact + 2**31) % 2**32) - 2**31


@given(U32, U32)
def test_unsigned_arithmetic_wraps(a, b):
    assert _both(arithmetic.binary("sub", "u32"), a, b, np.uint32) == (a - b) % 2**32


@given(st.integers(-1000, 1000), st.integers(-50, 50).filter(bool))
def test_division_truncates_as_in_c(a, b):
    q = _both(arithmetic.quotient, a, b, np.int32)
    r = _both(arithmetic.remainder, a, b, np.int32)
    assert q == int(a / b)
    assert q * b + r == a


@pytest.mark.parametrize("type_", ["s32", "u32"])
@pytest.mark.parametrize("amount", [0, 1, 31, 32, 40])
def test_shift_amounts_are_clamped(type_, amount):
    value = -5 if type_ == "s32" else 0x90000001
    left = _both(arithmetic.binary("shl", type_), value, amount, DTYPES[type_])
    right = _both(arithmetic.binary("shr", type_), value, amount, DTYPES[type_])
    assert left == uniform(type_, (value << amount) if amount < 32 else 0)
    assert right == ((value >> min(amount, 31)) if type_ == "s32" or amount < 32 else 0)


def test_maximum_of_a_number_and_nan_is_the_number():
    largest = arithmetic.binary("max", "f32")
    assert largest(np.float32(1), np.float32("nan")) == 1
    assert (largest(np.full(32, np.nan, np.float32), np.float32(2)) == 2).all()


def test_narrow_floats_round_to_nearest_even():
    half_way = np.float32(1 + 2**-8)  # between 1 and 1 + 2^-7 of bf16
    assert converter("f32", "bf16")(half_way) == ml_dtypes.bfloat16(1)
    assert (converter("f32", "bf16")(np.full(32, 1 + 3 * 2**-8, np.float32)) == ml_dtypes.bfloat16(1 + 2**-6)).all()


def test_8_bit_floats_saturate():
    assert float(converter("f32", "f8_e4m3")(np.float32(1e6))) == 448
    assert float(converter("f32", "f8_e5m2")(np.full(2, -1e9, np.float32))[0]) == -57344


@pytest.mark.parametrize(
    ("value", "want"), [(2.9, 2), (-2.9, -2), (1e20, 2**31 - 1), (float("nan"), 0), (-1e20, -(2**31))]
)
def test_float_to_integer_truncates_and_saturates(value, want):
    convert = converter("f32", "s32")
    assert convert(np.float32(value)) == want
    assert (convert(np.full(32, value, np.float32)) == want).all()


def test_tf32_rounds_ties_away():
    convert = converter("f32", "tf32")
    assert convert(np.float32(1 + 2**-11)) == np.float32(1 + 2**-10)
    assert np.isnan(convert(np.float32("nan")))


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_math_keeps_the_type_and_the_shape(fn):
    function, arity = arithmetic.math(fn, "f32", "f32"), FUNCTIONS[fn].arity
    assert function is not None
    vector = function(*[np.full(32, 0.7, np.float32)] * arity)
    assert vector.dtype == np.float32
    assert vector.shape == (32,)
    plain = function(*[np.float32(0.7)] * arity)
    assert type(plain) is np.float32
    assert vector[3] == plain


def test_unknown_function():
    assert arithmetic.math("bessel", "f32", "f32") is None
