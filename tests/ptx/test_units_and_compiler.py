"""The compiler's facts of the chip and the units of the PTX executor, written apart from one another, say the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croq.ptx.units.swizzle import swizzled
from croq.ptx.units.tensor_map import TensorMap
from croq.ptx.units.wgmma import accumulator_registers
from croq.ptx.units.wgmma_operands import Descriptor, chunks
from croq.target import fragments, swizzle
from croq.target.sm90 import descriptors


@pytest.mark.parametrize("width", [0, 32, 64, 128])
def test_one_swizzle(width: int) -> None:
    addresses = np.arange(4096, dtype=np.int64)
    np.testing.assert_array_equal(swizzled(addresses, width), swizzle.swizzle_offset(addresses, width))


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([16, 32, 64, 128]),
    st.integers(1, 32),
    st.integers(1, 6),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
    st.integers(0, 63),
    st.integers(8, 256),
)
def test_one_meaning_of_descriptors(
    width: int, rows8: int, slabs: int, size: int, mn_major: bool, start: int, mn: int
) -> None:
    mn_major = mn_major and size == 2
    fields = descriptors.describe(8 * rows8, slabs * width // size, size, "mn" if mn_major else "k", width)
    word = fields.encode(1024 + 16 * start)
    mn = mn // 8 * 8
    want = descriptors.chunks_read(word, "mn" if mn_major else "k", mn, size)
    np.testing.assert_array_equal(chunks(Descriptor.decode(word), mn, 32 // size, mn_major), want)


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_one_place_of_a_loaded_element(width: int, size: int) -> None:
    dtype, rows, columns = {1: "u8", 2: "bf16", 4: "f32"}[size], 24, width // size
    map_ = TensorMap(dtype, 0, (columns, rows), (width,), (columns, rows), swizzle=width)
    places = map_.shared_addresses(2048).reshape(rows, columns) - 2048
    np.testing.assert_array_equal(places, swizzle.tile_index(rows, columns, size, width))


@pytest.mark.parametrize("n", [8, 24, 128, 256])
def test_one_accumulator_map(n: int) -> None:
    layout = fragments.AccumulatorLayout(64, n)
    row, column = layout.coordinates(np.arange(128))
    matrix = np.arange(64 * n, dtype=np.float32).reshape(64, n)
    np.testing.assert_array_equal(accumulator_registers(matrix).view(np.float32), matrix[row, column])
