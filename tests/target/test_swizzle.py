"""The XOR patterns and the slab layout."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from croq.target.swizzle import (
    alignment,
    swizzle_mask,
    swizzle_offset,
    tile_bytes,
    tile_index,
    tile_offset,
)

WIDTHS = st.sampled_from([0, 16, 32, 64, 128])


@given(st.integers(0, 2**20), WIDTHS)
def test_the_pattern_is_its_own_inverse_and_keeps_chunks(offset: int, width: int) -> None:
    moved = swizzle_offset(offset, width)
    assert swizzle_offset(moved, width) == offset
    assert moved % 16 == offset % 16
    assert moved // max(width, 16) == offset // max(width, 16)  # stays in its row


@given(st.integers(0, 127), st.integers(0, 7))
def test_the_128_byte_pattern_is_chunk_xor_row(row: int, chunk: int) -> None:
    assert swizzle_offset(row * 128 + chunk * 16, 128) == row * 128 + ((chunk ^ (row & 7)) << 4)


@given(st.integers(0, 127), st.integers(0, 3))
def test_the_64_byte_pattern_changes_every_second_row(row: int, chunk: int) -> None:
    assert swizzle_offset(row * 64 + chunk * 16, 64) == row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4)


@given(st.integers(0, 127), st.integers(0, 1))
def test_the_32_byte_pattern_changes_every_fourth_row(row: int, chunk: int) -> None:
    assert swizzle_offset(row * 32 + chunk * 16, 32) == row * 32 + ((chunk ^ ((row >> 2) & 1)) << 4)


@given(WIDTHS, st.sampled_from([8, 16, 64, 128]), st.sampled_from([1, 2, 4]), st.integers(1, 4))
def test_a_tile_is_a_permutation_of_its_bytes(width: int, rows: int, elem_bytes: int, slabs: int) -> None:
    cols = slabs * (width or 48) // elem_bytes
    offsets = np.sort(tile_index(rows, cols, elem_bytes, width), axis=None)
    assert np.array_equal(offsets, np.arange(rows * cols) * elem_bytes)
    assert tile_bytes(rows, cols, elem_bytes, width) == rows * cols * elem_bytes


@given(WIDTHS, st.integers(0, 63), st.integers(0, 63))
def test_scalars_and_arrays_agree(width: int, row: int, col: int) -> None:
    assert tile_index(64, 64, 2, width)[row, col] == tile_offset(row, col, 64, 2, width, 64)


def test_slabs_follow_one_another() -> None:
    assert tile_offset(0, 64, 128, 2, 128) == 128 * 128
    assert tile_offset(1, 64, 128, 2, 128) == 128 * 128 + 128 + 16
    assert tile_bytes(128, 72, 2, 128) == 2 * 128 * 128  # the last slab counts whole


def test_alignment_is_the_length_of_the_pattern() -> None:
    assert {w: alignment(w) for w in (0, 16, 32, 64, 128)} == {0: 128, 16: 128, 32: 256, 64: 512, 128: 1024}
    assert {w: swizzle_mask(w) for w in (0, 16, 32, 64, 128)} == {0: 0, 16: 0, 32: 0x10, 64: 0x30, 128: 0x70}


def test_bad_tiles_are_refused() -> None:
    with pytest.raises(ValueError, match="swizzle width"):
        swizzle_offset(0, 48)
    with pytest.raises(ValueError, match="multiple of 8"):
        tile_offset(0, 64, 12, 2, 128)
    with pytest.raises(ValueError, match="number of columns"):
        tile_offset(0, 0, 8, 2, 0)
