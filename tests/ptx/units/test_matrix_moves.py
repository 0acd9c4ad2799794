"""ldmatrix, stmatrix, movmatrix and mma.sync of one warp, against the ISA's formulas lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from croq.ptx.units.fault import UnitFault
from croq.ptx.units.matrix_moves import from_registers, row_addresses, to_registers, transposed
from croq.ptx.units.mma_arithmetic import BITS, decode
from croq.ptx.units.mma_sync import MmaSync, matrix_to_registers
from croq.ptx.units.wgmma import a_bytes

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_lane_by_lane(count: int, trans: bool) -> None:
    rows = RNG.integers(0, 256, (count, 8, 16), dtype=np.uint8)
    elements = rows.view(np.uint16)
    registers = to_registers(rows, trans)
    assert registers.shape == (32, count)
    for lane in range(32):
        for i in range(count):
            at = [(lane // 4, 2 * (lane % 4) + e) for e in (0, 1)]
            low, high = (elements[i][c, r] if trans else elements[i][r, c] for r, c in at)
            assert registers[lane, i] == int(high) << 16 | int(low)
    np.testing.assert_array_equal(from_registers(registers, trans), rows)


def test_movmatrix_transposes() -> None:
    registers = RNG.integers(0, 2**32, 32, dtype=np.uint32)
    matrix = registers.view(np.uint16).reshape(8, 8)
    np.testing.assert_array_equal(transposed(registers).view(np.uint16).reshape(8, 8), matrix.T)
    np.testing.assert_array_equal(transposed(transposed(registers)), registers)


def test_only_the_lanes_of_the_rows_give_addresses() -> None:
    addresses = np.full(32, 3, np.int64)
    addresses[:16] = np.arange(16) * 16
    assert row_addresses(addresses, 2).tolist() == np.arange(16).reshape(2, 8).__mul__(16).tolist()
    with pytest.raises(UnitFault, match="16-byte aligned"):
        row_addresses(addresses, 4)
    with pytest.raises(UnitFault, match="no instruction moves 3"):
        row_addresses(addresses, 3)


def test_ldmatrix_x4_gives_the_a_fragment_of_wgmma() -> None:
    """Measured: lane l points at row l % 16, chunk 2k + l / 16 of a 64-row tile; the four registers are a0..a3."""
    tile = RNG.integers(0, 256, (64, 2, 16), dtype=np.uint8)  # [row, chunk, byte]
    registers = np.empty((128, 4), np.uint32)
    for warp in range(4):
        lane = np.arange(32)
        rows = tile[16 * warp + lane % 16, lane // 16].reshape(4, 8, 16)
        registers[32 * warp : 32 * warp + 32] = to_registers(rows, trans=False)
    np.testing.assert_array_equal(a_bytes(registers), tile.reshape(64, 32))


SHAPES = [
    ("f16", "f16", "f32", 8), ("f16", "f16", "f16", 16), ("bf16", "bf16", "f32", 8), ("bf16", "bf16", "f32", 16),
    ("tf32", "tf32", "f32", 4), ("tf32", "tf32", "f32", 8), ("s8", "u8", "s32", 16), ("u8", "s8", "s32", 32),
    ("e4m3", "e5m2", "f32", 32), ("e5m2", "e5m2", "f16", 32), ("b1", "b1", "s32", 128), ("b1", "b1", "s32", 256),
]  # fmt: skip


def literal_matrices(mma: MmaSync, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A [16, k] and B [k, 8] element by element: "Matrix Fragments for mma.m16n8k*"."""
    bits = BITS[mma.a]
    per = 32 // bits  # elements of a register
    ea, eb = (decode(t, np.ascontiguousarray(r).view(np.uint8)) for t, r in ((mma.a, a), (mma.b, b)))
    left, right = np.full((16, mma.k), np.nan), np.full((mma.k, 8), np.nan)
    for lane in range(32):
        group, t = lane // 4, lane % 4
        for i in range(ea.shape[1]):
            register = i // per
            row = group + 8 * (register % 2)
            left[row, t * per + i % per + register // 2 * 4 * per] = ea[lane, i]
        for i in range(eb.shape[1]):
            right[t * per + i % per + i // per * 4 * per, group] = eb[lane, i]
    return left, right


def bits_of(dtype: str, count: int) -> np.ndarray:
    """[32, count] registers full of small whole values."""
    per = 32 // BITS[dtype]
    values = RNG.integers(0, 4, (32, count * per))
    whole = {
        "f16": np.array([0, 0x3C00, 0xC000, 0x4200]), "bf16": np.array([0, 0x3F80, 0xC000, 0x4040]),
        "tf32": np.array([0, 0x3F800000, 0xC0000000, 0x40400000]), "e4m3": np.array([0, 0x38, 0xC0, 0x44]),
        "e5m2": np.array([0, 0x3C, 0xC0, 0x42]), "s8": np.array([0, 1, 254, 3]), "u8": np.array([0, 1, 254, 3]),
    }  # fmt: skip
    if dtype == "b1":
        return RNG.integers(0, 2**32, (32, count), dtype=np.uint32)
    kind = {8: np.uint8, 16: np.uint16, 32: np.uint32}[BITS[dtype]]
    return np.ascontiguousarray(whole[dtype][values].astype(kind)).view(np.uint32)


@pytest.mark.parametrize(("a", "b", "d", "k"), SHAPES)
def test_mma_sync_lane_by_lane(a: str, b: str, d: str, k: int) -> None:
    for operation in ("and", "xor") if a == "b1" else ("",):
        mma = MmaSync(k, d, a, b, bit_operation=operation)
        na, nb, nc = mma.registers
        ra, rb = bits_of(a, na), bits_of(b, nb)
        kind: Any = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[d]
        old = RNG.integers(-9, 9, (16, 8)).astype(kind)
        rc = matrix_to_registers(old)
        assert rc.shape == (32, nc)
        left, right = literal_matrices(mma, ra, rb)
        product = np.array(
            [
                [sum(abs(left[i] - right[:, j]) if operation == "xor" else left[i] * right[:, j]) for j in range(8)]
                for i in range(16)
            ]
        )
        got = mma.compute(ra, rb, rc).view(kind).reshape(32, 4)
        for lane in range(32):
            for i in range(4):
                row, column = lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2
                assert got[lane, i] == product[row, column] + old[row, column]


@pytest.mark.parametrize(
    "arguments",
    [
        dict(k=4, d="f32", a="f16", b="f16"),
        dict(k=16, d="f16", a="bf16", b="bf16"),
        dict(k=128, d="s32", a="b1", b="b1"),
        dict(k=16, d="f32", a="f16", b="f16", satfinite=True),
        dict(k=16, d="f32", a="f16", b="f16", bit_operation="and"),
    ],
)
def test_what_no_mma_sync_is(arguments: dict[str, Any]) -> None:
    with pytest.raises(UnitFault):
        MmaSync(**arguments)
