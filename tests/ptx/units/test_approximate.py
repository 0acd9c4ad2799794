"""Approximate instructions: the ISA's tables of special values, and the errors it states."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from croq.ptx.units.approximate import APPROXIMATIONS, approximate, tolerance
from croq.ptx.units.fault import UnitFault
from tests.ptx.units.oracle import same

INF, NAN = np.inf, np.nan
# Operand -> result, as the tables of the ISA have it.
TABLES = {
    "rcp": [(-INF, -0.0), (-0.0, -INF), (0.0, INF), (INF, 0.0), (NAN, NAN)],
    "sqrt": [(-INF, NAN), (-2.0, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, INF), (NAN, NAN)],
    "rsqrt": [(-INF, NAN), (-2.0, NAN), (-0.0, -INF), (0.0, INF), (INF, 0.0), (NAN, NAN)],
    "sin": [(-INF, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, NAN), (NAN, NAN)],
    "cos": [(-INF, NAN), (-0.0, 1.0), (0.0, 1.0), (INF, NAN), (NAN, NAN)],
    "lg2": [(-INF, NAN), (-2.0, NAN), (-0.0, -INF), (0.0, -INF), (INF, INF), (NAN, NAN)],
    "ex2": [(-INF, 0.0), (-0.0, 1.0), (0.0, 1.0), (INF, INF), (NAN, NAN)],
    "tanh": [(-INF, -1.0), (-0.0, -0.0), (0.0, 0.0), (INF, 1.0), (NAN, NAN)],
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("ftz", [False, True])
def test_special_values(name: str, ftz: bool) -> None:
    operands, wanted = zip(*TABLES[name], strict=True)
    got = approximate(f"{name}.approx.f32", np.array(operands, np.float32), ftz=ftz)
    assert got.dtype == np.float32
    for value, want in zip(got, wanted, strict=True):
        assert same(value, want)


def test_ftz_flushes_on_both_sides() -> None:
    tiny = np.array([2.0**-130, -(2.0**-130)], np.float32)
    assert approximate("ex2.approx.f32", tiny, ftz=True).tolist() == [1.0, 1.0]
    assert approximate("rcp.approx.f32", tiny, ftz=True).tolist() == [INF, -INF]
    assert approximate("lg2.approx.f32", tiny, ftz=True).tolist() == [-INF, -INF]
    low = np.array([-126.0, -127.0, -149.0, -151.0], np.float32)
    assert approximate("ex2.approx.f32", low, ftz=True).tolist() == [2.0**-126, 0, 0, 0]
    assert approximate("ex2.approx.f32", low).tolist() == [2.0**-126, 2.0**-127, 2.0**-149, 0]


def test_whole_powers_are_exact() -> None:
    x = np.arange(-120, 121, dtype=np.float32)
    np.testing.assert_array_equal(approximate("ex2.approx.f32", x), np.ldexp(np.float32(1), x.astype(int)))
    np.testing.assert_array_equal(approximate("lg2.approx.f32", np.ldexp(np.float32(1), x.astype(int))), x)


def test_division_by_huge_numbers() -> None:
    a, b = np.array([1, -1, INF, 1, 1], np.float32), np.array([2.0**127, 2.0**127, 2.0**127, 2.0**126, INF], np.float32)
    got = approximate("div.approx.f32", a, b)
    for value, want in zip(got, [0.0, -0.0, NAN, 2.0**-126, 0.0], strict=True):
        assert same(value, want)
    assert approximate("div.full.f32", a, b).tolist()[0] == 2.0**-127


def test_half_precision_forms() -> None:
    half = np.array([-INF, -0.0, 1, INF, 3], np.float16)
    assert approximate("ex2.approx.f16", half).tolist() == [0, 1, 2, INF, 8]
    brain = np.array([2.0**-130, -INF], ml_dtypes.bfloat16)
    assert approximate("ex2.approx.bf16", brain, ftz=True).astype(float).tolist() == [1, 0]
    assert approximate("tanh.approx.bf16", np.array([INF, 0.0], ml_dtypes.bfloat16)).astype(float).tolist() == [1, 0]


def test_seeds_of_f64_have_an_upper_word_only() -> None:
    x = np.array([3.0, -INF, -0.0, 0.0, INF, 2.0**-1074, -(2.0**-1074), 2.0**1023.5])
    got = approximate("rcp.approx.f64", x)
    assert (got.view(np.uint64) & np.uint64(0xFFFFFFFF) == 0).all()
    assert abs(got[0] * 3 - 1) < 2.0**-20
    for value, want in zip(got[1:], [-0.0, -INF, INF, 0.0, INF, -INF, 0.0], strict=True):
        assert same(value, want)
    for name in ("rcp", "rsqrt"):
        bits = approximate(f"{name}.approx.f64", np.array([NAN])).view(np.uint64)
        assert bits.tolist() == [0x7FFFFFFF00000000]
    assert approximate("rsqrt.approx.f64", np.array([4.0, -(2.0**-1074)])).tolist() == [0.5, -INF]


@pytest.mark.parametrize(
    ("name", "operand", "want"),
    [
        ("ex2.approx.f32", 0.5, 2 * 2.0**-23),
        ("rcp.approx.f32", 3.0, 2.0**-25),
        ("sqrt.approx.f32", 4.0, 2.0**-22 + 2.0**-23),
        ("sin.approx.f32", 1.0, 2.0**-20.4 + 2.0**-25),  # measured; the ISA says 2^-20.5
        ("sin.approx.f32", 100.0, 2.0**-14.7 + 2.0**-25),
        ("sin.approx.f32", 1000.0, INF),
        ("lg2.approx.f32", 1.5, 2.0**-22 + 2.0**-25),
        ("lg2.approx.f32", 16.0, 4 * 2.0**-22 + 2.0**-22),
        ("lg2.approx.f32", 0.0, 0.0),
        ("ex2.approx.bf16", 1.0, 2 * 2.0**-7 + 2.0**-7),
        ("ex2.approx.f16", -17.0, 2.0**-17 * 2.0**-9.9 + 2.0**-24),  # a subnormal result, which the chip may cut off
    ],
)
def test_tolerances_are_those_of_the_isa_or_measured(name: str, operand: float, want: float) -> None:
    dtype = ml_dtypes.bfloat16 if name.endswith("bf16") else np.float32
    got = float(tolerance(name, np.array([operand], dtype))[0])
    assert got == pytest.approx(want, rel=1e-6)


def test_every_entry_has_a_source_and_a_last_bound() -> None:
    for name, entry in APPROXIMATIONS.items():
        assert entry.source.startswith("PTX ISA")
        last = entry.bounds[-1]
        assert (last.low, last.high) == (0.0, INF), name


def test_unknown_instructions_are_refused() -> None:
    with pytest.raises(UnitFault, match=r"exp\.approx"):
        approximate("exp.approx.f32", np.ones(1, np.float32))
