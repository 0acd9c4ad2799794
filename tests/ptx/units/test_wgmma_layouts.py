"""Operands of WGMMA in shared memory, against the canonical layouts evaluated literally, and against what was measured.

The literal model evaluates each CuTe layout of the PTX ISA's table ("Canonical Layouts") element by element.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croq.ptx.units.fault import UnitFault
from croq.ptx.units.mma_arithmetic import BITS
from croq.ptx.units.tensor_map import TensorMap
from croq.ptx.units.wgmma import Wgmma
from croq.ptx.units.wgmma_operands import Descriptor, chunks

MODE = {0: 0, 128: 1, 64: 2, 32: 3}


def descriptor(start: int, lbo: int, sbo: int, swizzle: int, base_offset: int = 0) -> int:
    return start >> 4 | lbo >> 4 << 16 | sbo >> 4 << 32 | base_offset << 49 | MODE[swizzle] << 62


# ------------------------------------------------------------------------------------------------- the literal model
def cute_offset(coordinate: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """One mode of a CuTe layout: the coordinate counts through the shape, first entry fastest; the last is open."""
    total = 0
    for extent, step in zip(shape[:-1], stride[:-1], strict=True):
        total += coordinate % extent * step
        coordinate //= extent
    return total + coordinate * stride[-1]


def swizzle_bits(address: int, bits: int, line_offset: int = 0) -> int:
    """Swizzle<bits, 4, 3> on a byte address: bit 4 + i is flipped where bit 7 + i is set."""
    lines = (address // 128 - line_offset) % 8
    for i in range(bits):
        if lines >> i & 1:
            address ^= 1 << (4 + i)
    return address


def literal(
    start: int, lbo: int, sbo: int, swizzle: int, base: int, size: int, row: int, k: int, mn_major: bool
) -> int:
    """Byte address of element (row, k); every stride of the table in bytes (its unit of an element times `size`)."""
    t, wide = 16 // size, max(swizzle // 16, 1)
    if mn_major and not swizzle:
        offset = cute_offset(row, (t, 1, 10**6), (size, 16, sbo)) + cute_offset(k, (8, 10**6), (16, lbo))
    elif mn_major:
        offset = cute_offset(row, (t, wide, 10**6), (size, 16, lbo)) + cute_offset(k, (8, 10**6), (wide * 16, sbo))
    elif not swizzle:
        offset = cute_offset(row, (8, 10**6), (16, sbo)) + cute_offset(k, (t, 10**6), (size, lbo))
    else:
        offset = cute_offset(row, (8, 10**6), (wide * 16, sbo)) + cute_offset(k, (t, 10**6), (size, 16))
    return swizzle_bits(start + offset, {0: 0, 32: 1, 64: 2, 128: 3}[swizzle], base)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["f16", "bf16", "tf32", "e4m3", "s8"]),
    st.sampled_from([0, 32, 64, 128]),
    st.integers(0, 127),
    st.integers(0, 300),
    st.integers(0, 300),
    st.integers(0, 7),
    st.integers(1, 32),
    st.booleans(),
)
def test_addresses_are_those_of_the_canonical_layouts(
    dtype: str, swizzle: int, start: int, lbo: int, sbo: int, base: int, n8: int, mn_major: bool
) -> None:
    size = BITS[dtype] // 8
    mn_major, base = mn_major and size == 2, base if swizzle else 0
    rows, k = 8 * n8, 32 // size
    start, lbo, sbo = 16 * start, 16 * lbo, 16 * sbo
    fields = Descriptor.decode(descriptor(start, lbo, sbo, swizzle, base))
    assert fields == (start, lbo, sbo, base, swizzle)
    table = chunks(fields, rows, k, mn_major)
    for row in range(rows):
        for column in range(0, k, 1 if mn_major else 16 // size):
            want = literal(start, lbo, sbo, swizzle, base, size, row, column, mn_major)
            got = table[column, row // 8] + row % 8 * 2 if mn_major else table[row, column * size // 16]
            assert got == want, (row, column)


# ---------------------------------------------------------------------------------------- the examples of the ISA
@pytest.mark.parametrize(
    ("size", "swizzle", "lbo", "sbo", "mn_major", "shape", "stride"),
    [
        # "Exact layout" lines of the section's examples, strides in elements
        (4, 0, 64 * 4, 32 * 4, False, ((8, 2), (4, 4)), ((4, 32), (1, 64))),
        (4, 32, 0, 64 * 4, False, ((8, 2), (4, 4)), ((8, 64), (1, 4))),
        (2, 0, 128 * 2, 64 * 2, True, ((8, 1, 2), (8, 2)), ((1, 8, 64), (8, 128))),
        (2, 32, 128 * 2, 256 * 2, True, ((8, 2, 2), (8, 2)), ((1, 8, 128), (16, 256))),
        (2, 64, 256 * 2, 512 * 2, True, ((8, 4, 2), (8, 2)), ((1, 8, 256), (32, 512))),
    ],
)
def test_the_examples_of_the_isa(
    size: int, swizzle: int, lbo: int, sbo: int, mn_major: bool, shape: tuple, stride: tuple
) -> None:
    rows, columns = int(np.prod(shape[0])), 32 // size
    table = chunks(Descriptor(4096, lbo, sbo, 0, swizzle), rows, columns, mn_major)
    bits = {0: 0, 32: 1, 64: 2}[swizzle]
    for row in range(rows):
        for column in range(columns):
            offset = cute_offset(row, shape[0], stride[0]) + cute_offset(column, shape[1], stride[1])
            want = swizzle_bits(4096 + offset * size, bits)
            if mn_major:
                assert table[column, row // 8] + row % 8 * size == want
            else:
                assert table[row, column * size // 16] + column * size % 16 == want


# --------------------------------------------------------------------------- measured on an H200, through TMA boxes
def tile_in_shared(matrix: np.ndarray, start: int, swizzle: int, memory: np.ndarray) -> int:
    """Loads a [rows, columns] bf16 tile by one box a swizzle span, as a kernel would; the bytes of one slab."""
    rows, columns = matrix.shape
    span = swizzle // 2
    map_ = TensorMap("bf16", 0, (columns, rows), (columns * 2,), (span, rows), swizzle=swizzle)
    data = matrix.view(np.uint8).reshape(-1)
    for slab in range(columns // span):
        values = map_.load((slab * span, 0), lambda where, size: data[where[:, None] + np.arange(size)])
        places = map_.shared_addresses(start + slab * map_.bytes)
        memory[places[:, None] + np.arange(2)] = values
    return map_.bytes


def bf16_matrix(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Bits, and values; every element of a 128 x 128 tile is different enough to tell a wrong place."""
    bits = (np.arange(rows * columns, dtype=np.uint32) * 7 + 1).astype(np.uint16).reshape(rows, columns) & 0x7F7F
    return bits, (bits.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize("rows", [64, 128])
def test_k_steps_of_a_swizzled_tile(rows: int) -> None:
    """K-major, 128-byte swizzle: SBO 1024, + 32 bytes a K-step of 16, after four steps + rows * 128 bytes."""
    bits, values = bf16_matrix(rows, 128)
    memory = np.zeros(1 << 17, np.uint8)
    start = 2048
    slab = tile_in_shared(bits, start, 128, memory)
    assert slab == rows * 128
    mma = Wgmma(rows, "f32", "bf16", "bf16")
    for step in range(8):
        bits64 = descriptor(start + step % 4 * 32 + step // 4 * rows * 128, 16, 1024, 128)
        assert bits64 >> 32 == 0x40000040
        np.testing.assert_array_equal(mma.b_from_shared(memory, bits64), values[:, step * 16 : step * 16 + 16].T)
        if rows == 64:
            np.testing.assert_array_equal(mma.a_from_shared(memory, bits64), values[:, step * 16 : step * 16 + 16])


def test_k_steps_of_a_transposed_tile() -> None:
    """MN-major V [kv, columns]: LBO between the 64-column halves, SBO 1024, + 2048 bytes a K-step of 16 rows."""
    bits, values = bf16_matrix(128, 128)
    memory = np.zeros(1 << 17, np.uint8)
    half = tile_in_shared(bits, 1024, 128, memory)
    assert half == 16384
    mma = Wgmma(128, "f32", "bf16", "bf16", trans_b=True)
    for step in range(8):
        bits64 = descriptor(1024 + step * 2048, half, 1024, 128)
        np.testing.assert_array_equal(mma.b_from_shared(memory, bits64), values[step * 16 : step * 16 + 16])


@pytest.mark.parametrize("swizzle", [32, 64])
def test_narrow_swizzles_agree_with_the_boxes_that_fill_them(swizzle: int) -> None:
    bits, values = bf16_matrix(64, 64)
    memory = np.zeros(1 << 15, np.uint8)
    slab = tile_in_shared(bits, 1024, swizzle, memory)
    steps = swizzle // 32  # of 16 columns in a slab
    plain, across = Wgmma(64, "f32", "bf16", "bf16"), Wgmma(64, "f32", "bf16", "bf16", trans_a=True, trans_b=True)
    for step in range(4):
        bits64 = descriptor(1024 + step % steps * 32 + step // steps * slab, 16, swizzle * 8, swizzle)
        np.testing.assert_array_equal(plain.a_from_shared(memory, bits64), values[:, step * 16 : step * 16 + 16])
        bits64 = descriptor(1024 + step * 16 * swizzle, slab, swizzle * 8, swizzle)
        np.testing.assert_array_equal(across.b_from_shared(memory, bits64), values[step * 16 : step * 16 + 16])
        np.testing.assert_array_equal(across.a_from_shared(memory, bits64), values[step * 16 : step * 16 + 16].T)


def test_a_pattern_that_begins_off_its_boundary_needs_the_base_offset() -> None:
    """base offset = (pattern start >> 7) & 7 undoes the shift of the pattern against the addresses."""
    aligned = chunks(Descriptor(1024, 16, 1024, 0, 128), 64, 16, mn_major=False)
    shifted = chunks(Descriptor(1024 + 384, 16, 1024, 3, 128), 64, 16, mn_major=False)
    np.testing.assert_array_equal(shifted - 384, aligned)


# ------------------------------------------------------------------------------------------------------------ faults
@pytest.mark.parametrize("bit", [14, 31, 46, 48, 52, 61])
def test_reserved_bits_are_faults(bit: int) -> None:
    with pytest.raises(UnitFault, match="reserved"):
        Descriptor.decode(descriptor(1024, 16, 1024, 128) | 1 << bit)


def test_a_base_offset_without_swizzle_is_a_fault() -> None:
    with pytest.raises(UnitFault, match="base offset"):
        Descriptor.decode(descriptor(1024, 16, 1024, 0, base_offset=1))


def test_an_operand_beyond_shared_memory_is_a_fault() -> None:
    mma = Wgmma(128, "f32", "bf16", "bf16")
    memory = np.zeros(16 * 1024, np.uint8)
    mma.b_from_shared(memory, descriptor(0, 16, 1024, 128))
    with pytest.raises(UnitFault, match="reaches shared address"):
        mma.b_from_shared(memory, descriptor(1024, 16, 1024, 128))
