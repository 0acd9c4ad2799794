"""One wgmma.mma_async: its types, register fragments and arithmetic."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from croq.ptx.units.fault import UnitFault
from croq.ptx.units.mma_arithmetic import BITS, decode
from croq.ptx.units.wgmma import Wgmma, a_bytes, accumulator_matrix, accumulator_registers

RNG = np.random.default_rng(11)


def test_the_accumulator_map_is_the_measured_one() -> None:
    """d[4j + 2h + e] of thread t is row 16 (t / 32) + (t % 32) / 4 + 8h, column 8j + 2 (t % 4) + e."""
    matrix = np.arange(64 * 40, dtype=np.float32).reshape(64, 40)
    registers = accumulator_registers(matrix).view(np.float32)
    assert registers.shape == (128, 20)
    for t in range(128):
        for j in range(5):
            for h in range(2):
                for e in range(2):
                    row, column = 16 * (t // 32) + t % 32 // 4 + 8 * h, 8 * j + 2 * (t % 4) + e
                    assert registers[t, 4 * j + 2 * h + e] == matrix[row, column]


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.float16])
def test_accumulator_registers_round_trip(kind: Any) -> None:
    matrix = RNG.integers(-99, 99, (64, 24)).astype(kind)
    name = {np.float32: "f32", np.int32: "s32", np.float16: "f16"}[kind]
    registers = accumulator_registers(matrix)
    assert registers.shape == (
        128,
        Wgmma(24, name, "s8" if name == "s32" else "f16", "s8" if name == "s32" else "f16").accumulator_registers,
    )
    np.testing.assert_array_equal(accumulator_matrix(registers, name), matrix)


def literal_a(registers: np.ndarray, size: int) -> np.ndarray:
    """Element i of a lane by the ISA's formulas for 16-, 8- and 32-bit A fragments, as raw elements."""
    kind = {1: np.uint8, 2: np.uint16, 4: np.uint32}[size]
    elements, matrix = np.ascontiguousarray(registers).view(kind), np.zeros((64, 32 // size), kind)
    per_register = 4 // size
    for t in range(128):
        group, lane = t % 32 // 4, t % 4
        for i in range(16 // size):
            register = i // per_register
            row = group if register in (0, 2) else group + 8
            column = lane * per_register + i % per_register + (register >= 2) * 4 * per_register
            matrix[16 * (t // 32) + row, column] = elements[t, i]
    return matrix


@pytest.mark.parametrize("size", [1, 2, 4])
def test_register_fragments_of_a(size: int) -> None:
    registers = RNG.integers(0, 2**32, (128, 4), dtype=np.uint32)
    want = literal_a(registers, size)
    np.testing.assert_array_equal(a_bytes(registers).view(want.dtype), want)


def test_an_accumulator_packed_in_pairs_is_the_next_a() -> None:
    """The C to A identity: a0..a3 of K-step k are pack(d[8k], d[8k+1]) .. pack(d[8k+6], d[8k+7])."""
    matrix = RNG.integers(-128, 128, (64, 64)).astype(np.float32)
    d = accumulator_registers(matrix).view(np.float32)
    for k in range(4):
        halves = d[:, 8 * k : 8 * k + 8].astype(ml_dtypes.bfloat16)
        registers = np.ascontiguousarray(halves).view(np.uint32)
        values = Wgmma(8, "f32", "bf16", "bf16").a_from_registers(registers)
        np.testing.assert_array_equal(values, matrix[:, 16 * k : 16 * k + 16])


def operands(dtype: str, m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Small whole values, so that every sum is exact whatever its order."""
    k = 256 // BITS[dtype]
    low = 0 if dtype in ("u8", "b1") else -4
    high = 2 if dtype == "b1" else 5
    return RNG.integers(low, high, (m, k)).astype(np.float64), RNG.integers(low, high, (k, n)).astype(np.float64)


@pytest.mark.parametrize(
    ("a", "b", "d"),
    [
        ("bf16", "bf16", "f32"), ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("tf32", "tf32", "f32"),
        ("e4m3", "e5m2", "f32"), ("e5m2", "e4m3", "f16"), ("s8", "u8", "s32"), ("u8", "s8", "s32"), ("b1", "b1", "s32"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("scale_d", [False, True])
def test_products_and_sums(a: str, b: str, d: str, scale_d: bool) -> None:
    mma = Wgmma(24, d, a, b)
    x, y = operands(a, 64, 24)[0], operands(b, 64, 24)[1]
    old = RNG.integers(-9, 9, (64, 24)).astype({"f32": np.float32, "f16": np.float16, "s32": np.int32}[d])
    got = accumulator_matrix(mma.compute(x, y, accumulator_registers(old), scale_d), d)
    want = [
        [sum(x[i, k] * y[k, j] for k in range(mma.k)) + scale_d * int(old[i, j]) for j in range(24)] for i in range(64)
    ]
    np.testing.assert_array_equal(got.astype(np.float64), want)


def test_nan_in_an_unread_accumulator_does_not_matter() -> None:
    mma = Wgmma(8, "f32", "bf16", "bf16")
    x, y = operands("bf16", 64, 8)
    nan = np.full((128, 4), 0x7FC00000, np.uint32)
    assert np.isfinite(accumulator_matrix(mma.compute(x, y, nan, False), "f32")).all()
    assert (mma.compute(x, y, nan, True) == 0x7FFFFFFF).all()


def test_a_sum_is_rounded_once() -> None:
    """2^24 + 1 + 1: an f32 sum of one product at a time would lose both ones."""
    mma = Wgmma(8, "f32", "bf16", "bf16")
    x, y = np.zeros((64, 16)), np.zeros((16, 8))
    x[:, :3] = 2.0**12, 1, 1
    y[:3] = np.array([[2.0**12], [1], [1]])
    assert accumulator_matrix(mma.compute(x, y, np.zeros((128, 4), np.uint32), True), "f32")[0, 0] == 2**24 + 2


def test_negated_operands() -> None:
    x, y = operands("f16", 64, 8)
    zero = np.zeros((128, 4), np.uint32)
    plain = accumulator_matrix(Wgmma(8, "f32", "f16", "f16").compute(x, y, zero, False), "f32")
    for scales, sign in (((-1, 1), -1), ((1, -1), -1), ((-1, -1), 1)):
        mma = Wgmma(8, "f32", "f16", "f16", scale_a=scales[0], scale_b=scales[1])
        np.testing.assert_array_equal(accumulator_matrix(mma.compute(x, y, zero, False), "f32"), sign * plain)


def test_integers_wrap_or_saturate() -> None:
    x, y = np.full((64, 32), 127.0), np.full((32, 8), 127.0)
    old = accumulator_registers(np.full((64, 8), 2**31 - 5, np.int32))
    exact = 2**31 - 5 + 32 * 127 * 127
    wrapped = accumulator_matrix(Wgmma(8, "s32", "s8", "s8").compute(x, y, old, True), "s32")
    limited = accumulator_matrix(Wgmma(8, "s32", "s8", "s8", satfinite=True).compute(x, y, old, True), "s32")
    assert (wrapped == exact - 2**32).all() and (limited == 2**31 - 1).all()


def test_elements_of_each_type() -> None:
    assert decode("tf32", np.array([0x3F801FFF], np.uint32).view(np.uint8)).tolist() == [1.0]
    assert decode("tf32", np.array([0x3F802000], np.uint32).view(np.uint8)).tolist() == [1 + 2**-10]
    assert decode("e4m3", np.array([0x7E, 0x01, 0xB8], np.uint8)).tolist() == [448.0, 2.0**-9, -1.0]
    assert np.isnan(decode("e4m3", np.array([0x7F, 0xFF], np.uint8))).all()
    assert decode("e5m2", np.array([0x7B, 0x7C, 0x01], np.uint8)).tolist() == [57344.0, np.inf, 2.0**-16]
    assert decode("s8", np.array([0x80], np.uint8)).tolist() == [-128.0]
    assert decode("b1", np.array([0b101], np.uint8)).tolist() == [1, 0, 1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "arguments",
    [
        dict(n=12, d="f32", a="f16", b="f16"),
        dict(n=264, d="f32", a="f16", b="f16"),
        dict(n=40, d="s32", a="s8", b="s8"),
        dict(n=8, d="f16", a="bf16", b="bf16"),
        dict(n=8, d="f32", a="f16", b="bf16"),
        dict(n=8, d="f32", a="e4m3", b="s8"),
        dict(n=8, d="f32", a="tf32", b="tf32", trans_b=True),
        dict(n=8, d="f32", a="e4m3", b="e4m3", trans_a=True),
        dict(n=8, d="f32", a="f16", b="f16", scale_a=2),
        dict(n=8, d="s32", a="s8", b="s8", scale_b=-1),
        dict(n=8, d="f32", a="f16", b="f16", satfinite=True),
    ],
)
def test_what_no_instruction_is(arguments: dict[str, Any]) -> None:
    with pytest.raises(UnitFault):
        Wgmma(**arguments)


def test_a_transposed_a_cannot_come_from_registers() -> None:
    with pytest.raises(UnitFault, match="shared memory"):
        Wgmma(8, "f32", "f16", "f16", trans_a=True).a_from_registers(np.zeros((128, 4), np.uint32))
