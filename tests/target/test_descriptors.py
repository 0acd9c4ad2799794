"""Descriptors: the cases verified on the chip, and that the ISA's canonical layout finds every element."""

from __future__ import annotations

import numpy as np
import pytest

from croq.target.sm90.descriptors import Descriptor, chunks_read, decode, describe
from croq.target.swizzle import swizzle_offset, tile_offset


def canonical(d: Descriptor, major: str, elem_bytes: int, mn: int, k: int) -> int:
    """Byte offset of element (mn, k) of one operand: the table "Canonical Layouts" of the PTX ISA, literally.

    Strides in the table count elements of 16 bytes as T; `within` is the byte inside such an element.
    """
    t = 16 // elem_bytes
    w = {0: 1, 1: 8, 2: 4, 3: 2}[d.layout]  # 16-byte units in a row of the pattern
    if major == "k":
        row, group = mn % 8, mn // 8
        within, unit = k % t * elem_bytes, k // t
        if d.layout == 0:
            return row * 16 + group * d.sbo + within + unit * d.lbo
        return row * w * 16 + group * d.sbo + within + unit * 16
    within, unit, far = mn % t * elem_bytes, mn // t % w, mn // (t * w)
    row, group = k % 8, k // 8
    if d.layout == 0:
        return within + far * d.sbo + row * 16 + group * d.lbo
    return within + unit * 16 + far * d.lbo + row * w * 16 + group * d.sbo


@pytest.mark.parametrize("width", [16, 32, 64, 128])
@pytest.mark.parametrize(("rows", "elem_bytes"), [(64, 2), (128, 2), (64, 1), (8, 4), (256, 2)])
def test_k_major_finds_every_element(width: int, rows: int, elem_bytes: int) -> None:
    d = describe(rows, 256 // elem_bytes, elem_bytes, "k", width)
    per_step, per = 32 // elem_bytes, 16 // elem_bytes
    read = chunks_read(d.encode(0), "k", rows, elem_bytes)
    for mn in range(rows):
        for k in range(per_step):
            found = swizzle_offset(canonical(d, "k", elem_bytes, mn, k), width)
            assert found == tile_offset(mn, k, rows, elem_bytes, width)
            assert found == read[mn, k // per] + k % per * elem_bytes


@pytest.mark.parametrize("width", [16, 32, 64, 128])
@pytest.mark.parametrize(("rows", "cols"), [(16, 64), (64, 128), (128, 256)])
def test_mn_major_finds_every_element(width: int, rows: int, cols: int) -> None:
    d = describe(rows, cols, 2, "mn", width)
    read = chunks_read(d.encode(0), "mn", cols, 2)
    for mn in range(cols):
        for k in range(16):
            found = swizzle_offset(canonical(d, "mn", 2, mn, k), width)
            assert found == tile_offset(k, mn, rows, 2, width)
            assert found == read[k, mn // 8] + mn % 8 * 2


@pytest.mark.parametrize("width", [32, 64, 128])
def test_the_pattern_is_one_of_addresses(width: int) -> None:
    """Eight rows on, and 32 bytes inside a row: the same elements as counted from the start of the tile."""
    rows, start = 64, 8 * width
    d = describe(rows, 128, 2, "k", width)
    for inside in range(0, width, 32):
        read = chunks_read(d.encode(start + inside), "k", 16, 2)
        column = inside // 2
        assert [list(r) for r in read] == [
            [tile_offset(8 + mn, column + 8 * chunk, rows, 2, width) for chunk in range(2)] for mn in range(16)
        ]


def test_the_verified_k_major_case() -> None:
    d = describe(128, 128, 2, "k", 128)
    assert (d.sbo, d.high_word, d.low_word) == (1024, 0x40000040, 1 << 16)


def test_the_verified_mn_major_case() -> None:
    d = describe(128, 128, 2, "mn", 128)
    assert (d.lbo, d.sbo, d.high_word) == (16384, 1024, 0x40000040)


def test_the_tf32_and_bf16_examples_of_the_isa() -> None:
    tf32_none = describe(16, 16, 4, "k", 16)
    assert (tf32_none.lbo, tf32_none.sbo) == (16 * 16, 128)
    tf32_32b = describe(16, 16, 4, "k", 32)
    assert (tf32_32b.lbo >> 4, tf32_32b.sbo >> 4) == (1, 16)


def test_encoding_puts_the_fields_into_their_bits() -> None:
    d = Descriptor(128 * 64, 512, 2, 5)
    word = d.encode(0x8000)
    assert word & 0x3FFF == 0x800
    assert (word >> 16) & 0x3FFF == 128 * 64 >> 4
    assert (word >> 32) & 0x3FFF == 512 >> 4
    assert (word >> 49) & 7 == 5
    assert word >> 62 == 2
    assert decode(word) == (0x8000, d)


def test_a_base_offset_is_not_followed() -> None:
    with pytest.raises(ValueError, match="base offset of 3"):
        chunks_read(Descriptor(16, 1024, 1, 3).encode(0), "k", 64, 2)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((64, 64, 2, "k", 0), "plain row-major"),
        ((60, 128, 2, "k", 128), "multiple of 8"),
        ((64, 40, 2, "k", 128), "128-byte slab"),
        ((64, 64, 1, "mn", 32), "16-bit"),
        ((4096, 128, 2, "mn", 128), "cannot hold"),
    ],
)
def test_what_no_descriptor_describes_is_refused(arguments: tuple[int, int, int, str, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        describe(*arguments)  # type: ignore[arg-type]


def test_one_slab_needs_no_whole_groups_of_rows() -> None:
    d = describe(20, 64, 2, "k", 128)
    assert np.array_equal(
        chunks_read(d.encode(0), "k", 16, 2)[:, 0], [tile_offset(r, 0, 20, 2, 128) for r in range(16)]
    )
