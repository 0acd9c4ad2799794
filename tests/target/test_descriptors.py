"""Descriptors: the cases verified on the chip, and that the ISA's canonical layout finds every element."""

from __future__ import annotations

import pytest

from croq.target.sm90.descriptors import Descriptor, describe
from croq.target.sm90.swizzle import swizzle_offset, tile_offset


def canonical(d: Descriptor, mn: int, k: int) -> int:
    """Byte offset of element (mn, k) of one operand: the table "Canonical Layouts" of the PTX ISA, literally.

    Strides in the table count elements of 16 bytes as T; `within` is the byte inside such an element.
    """
    t = 16 // d.elem_bytes
    w = {0: 1, 1: 8, 2: 4, 3: 2}[d.layout_type]  # 16-byte units in a row of the pattern
    if d.major == "k":
        row, group = mn % 8, mn // 8
        within, unit = k % t * d.elem_bytes, k // t
        if d.layout_type == 0:
            return row * 16 + group * d.sbo + within + unit * d.lbo
        return row * w * 16 + group * d.sbo + within + unit * 16
    within, unit, far = mn % t * d.elem_bytes, mn // t % w, mn // (t * w)
    row, group = k % 8, k // 8
    if d.layout_type == 0:
        return within + far * d.sbo + row * 16 + group * d.lbo
    return within + unit * 16 + far * d.lbo + row * w * 16 + group * d.sbo


@pytest.mark.parametrize("width", [16, 32, 64, 128])
@pytest.mark.parametrize(
    ("rows", "k", "elem_bytes"), [(64, 64, 2), (128, 128, 2), (64, 128, 1), (8, 64, 4), (256, 64, 2)]
)
def test_k_major_finds_every_element(width: int, rows: int, k: int, elem_bytes: int) -> None:
    d = describe(rows, k, elem_bytes, "k", width)
    per_step = 32 // elem_bytes
    assert d.k_steps == k // per_step
    for step in range(d.k_steps):
        start = d.k_step_offset_bytes(step)
        for mn in range(0, rows, 3):
            for kk in range(per_step):
                found = swizzle_offset(start + canonical(d, mn, kk), width)
                assert found == tile_offset(mn, step * per_step + kk, rows, elem_bytes, width)


@pytest.mark.parametrize("width", [16, 32, 64, 128])
@pytest.mark.parametrize(("k", "cols"), [(16, 64), (64, 128), (128, 256)])
def test_mn_major_finds_every_element(width: int, k: int, cols: int) -> None:
    d = describe(k, cols, 2, "mn", width)
    assert d.k_steps == k // 16
    for step in range(d.k_steps):
        start = d.k_step_offset_bytes(step)
        for mn in range(0, cols, 5):
            for kk in range(16):
                found = swizzle_offset(start + canonical(d, mn, kk), width)
                assert found == tile_offset(step * 16 + kk, mn, k, 2, width)


def test_the_verified_k_major_case() -> None:
    d = describe(128, 128, 2, "k", 128)
    assert (d.sbo, d.high_word, d.low_word) == (1024, 0x40000040, 1 << 16)
    assert [d.k_step_offset_bytes(i) >> 4 for i in range(8)] == [0, 2, 4, 6, 1024, 1026, 1028, 1030]
    assert describe(64, 128, 2, "k", 128).k_step_offset_bytes(4) >> 4 == 512


def test_the_verified_mn_major_case() -> None:
    d = describe(128, 128, 2, "mn", 128)
    assert (d.lbo, d.sbo, d.high_word) == (16384, 1024, 0x40000040)
    assert [d.k_step_offset_bytes(i) >> 4 for i in range(8)] == [128 * i for i in range(8)]


def test_the_tf32_and_bf16_examples_of_the_isa() -> None:
    tf32_none = describe(16, 16, 4, "k", 16)
    assert (tf32_none.lbo, tf32_none.sbo) == (16 * 16, 128)
    tf32_32b = describe(16, 16, 4, "k", 32)
    assert (tf32_32b.lbo >> 4, tf32_32b.sbo >> 4) == (1, 16)


def test_encoding_puts_the_address_into_fourteen_bits() -> None:
    d = describe(128, 128, 2, "mn", 64)
    word = d.encode(0x8000)
    assert word & 0x3FFF == 0x800
    assert (word >> 16) & 0x3FFF == 128 * 64 >> 4
    assert (word >> 32) & 0x3FFF == 512 >> 4
    assert word >> 62 == 2


def test_operands_begin_at_whole_patterns() -> None:
    k_major = describe(128, 64, 2, "k", 128)
    assert k_major.mn_offset_bytes(64) == 64 * 128
    with pytest.raises(ValueError, match="multiple of 8"):
        k_major.mn_offset_bytes(4)
    mn_major = describe(32, 256, 2, "mn", 128)
    assert mn_major.mn_offset_bytes(128) == 2 * 32 * 128
    with pytest.raises(ValueError, match="multiple of 64"):
        mn_major.mn_offset_bytes(32)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((64, 64, 2, "k", 0), "plain row-major"),
        ((60, 64, 2, "k", 128), "multiple of 8"),
        ((64, 40, 2, "k", 128), "128-byte slab"),
        ((64, 24, 2, "k", 16), "multiple of 32"),
        ((64, 64, 1, "mn", 32), "16-bit"),
        ((24, 64, 2, "mn", 128), "multiple of 16"),
        ((4096, 128, 2, "mn", 128), "cannot hold"),
    ],
)
def test_what_no_descriptor_describes_is_refused(arguments: tuple[int, int, int, str, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        describe(*arguments)  # type: ignore[arg-type]


def test_steps_outside_the_tile_are_refused() -> None:
    with pytest.raises(ValueError, match="K step 4 of 4"):
        describe(64, 64, 2, "k", 128).k_step_offset_bytes(4)
