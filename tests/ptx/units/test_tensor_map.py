"""Boxes of tensor maps, against a literal loop over elements."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croq.ptx.units.fault import UnitFault
from croq.ptx.units.tensor_map import ELEMENT_BYTES, TensorMap

MEMORY_BYTES = 1 << 16


def memory() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, MEMORY_BYTES, dtype=np.uint8)


def gather_from(data: np.ndarray) -> Callable[[np.ndarray, int], np.ndarray]:
    def gather(addresses: np.ndarray, size: int) -> np.ndarray:
        assert (addresses >= 0).all() and (addresses + size <= len(data)).all()
        result: np.ndarray = data[addresses[:, None] + np.arange(size)]
        return result

    return gather


def literal_place(linear: int, swizzle: int) -> int:
    """Chunk c of line r is exchanged with chunk c XOR r, in groups of swizzle / 16 chunks: the figures of the ISA."""
    line, chunk, byte = linear // 128, linear % 128 // 16, linear % 16
    wide = swizzle // 16
    if wide:
        chunk = chunk // wide * wide + (chunk % wide ^ line % wide)
    return line * 128 + chunk * 16 + byte


def literal_load(map_: TensorMap, corner: tuple[int, ...], data: np.ndarray, start: int) -> dict[int, int]:
    """Shared address -> byte, one element at a time."""
    size, result, linear = map_.element_bytes, {}, start
    extents = [-(-b // s) if i else b for i, (b, s) in enumerate(zip(map_.box, map_.element_strides, strict=True))]
    for index in itertools.product(*(range(e) for e in extents[::-1])):
        steps = [1, *map_.element_strides[1:]]
        where = [c + i * s for c, i, s in zip(corner, index[::-1], steps, strict=True)]
        inside = all(0 <= w < d for w, d in zip(where, map_.dims, strict=True))
        source = map_.base + where[0] * size + sum(w * s for w, s in zip(where[1:], map_.strides, strict=True))
        for byte in range(size):
            result[literal_place(linear + byte, map_.swizzle)] = int(data[source + byte]) if inside else 0
        linear += size
    return result


def loaded(map_: TensorMap, corner: tuple[int, ...], data: np.ndarray, start: int) -> dict[int, int]:
    values = map_.load(corner, gather_from(data))
    addresses = map_.shared_addresses(start)[:, None] + np.arange(map_.element_bytes)
    return dict(zip(addresses.reshape(-1).tolist(), values.reshape(-1).tolist(), strict=True))


@st.composite
def cases(draw: st.DrawFn) -> tuple[TensorMap, tuple[int, ...], int]:
    rank = draw(st.integers(1, 5))
    dtype = draw(st.sampled_from(sorted(ELEMENT_BYTES)))
    size = ELEMENT_BYTES[dtype]
    swizzle = draw(st.sampled_from([0, 32, 64, 128]))
    inner = draw(st.integers(1, max(1, min(swizzle or 64, 256 * size) // 16))) * 16 // size
    dims = (draw(st.integers(1, 40)), *(draw(st.integers(1, 5)) for _ in range(rank - 1)))
    strides = tuple(draw(st.integers(0, 60)) * 16 for _ in range(rank - 1))
    box = (inner, *(draw(st.integers(1, 6)) for _ in range(rank - 1)))
    steps = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    map_ = TensorMap(dtype, draw(st.integers(0, 9)) * 16, dims, strides, box, steps, swizzle)
    corner = tuple(draw(st.integers(-7, d + 3)) for d in dims)
    return map_, corner, draw(st.integers(0, 20)) * 128


@settings(max_examples=150, deadline=None)
@given(cases())
def test_loads_are_the_literal_loop(case: tuple[TensorMap, tuple[int, ...], int]) -> None:
    map_, corner, start = case
    data = memory()
    assert loaded(map_, corner, data, start) == literal_load(map_, corner, data, start)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_a_store_writes_what_a_load_would_read(case: tuple[TensorMap, tuple[int, ...], int]) -> None:
    map_, corner, _ = case
    addresses, inside = map_.elements(corner)
    kept = addresses if inside is None else addresses[inside]
    if len(np.unique(kept)) != len(kept) or (map_.strides and min(map_.strides) < map_.element_bytes * map_.dims[0]):
        return  # overlapping rows: which element wins is not defined
    data = np.zeros(MEMORY_BYTES, np.uint8)
    values = np.arange(1, map_.bytes + 1, dtype=np.uint64).astype(np.uint8).reshape(-1, map_.element_bytes)

    def scatter(where: np.ndarray, what: np.ndarray) -> None:
        data[where[:, None] + np.arange(map_.element_bytes)] = what

    map_.store(corner, values, scatter)
    back = map_.load(corner, gather_from(data))
    inside = np.ones(len(values), bool) if inside is None else inside
    np.testing.assert_array_equal(back, np.where(inside[:, None], values, 0))
    assert np.count_nonzero(data) <= np.count_nonzero(values[inside])


def test_the_128_byte_swizzle_by_hand() -> None:
    """Row 1, chunk 0 lies in chunk 1; row 7, chunk 5 in chunk 2; the pattern begins anew every 1024 bytes."""
    map_ = TensorMap("bf16", 0, (64, 64), (128,), (64, 16), swizzle=128)
    places = map_.shared_addresses(1024).reshape(16, 8, 8)[:, :, 0] - 1024  # [row, chunk]
    assert places[0].tolist() == [0, 16, 32, 48, 64, 80, 96, 112]
    assert places[1].tolist() == [144, 128, 176, 160, 208, 192, 240, 224]
    assert places[7, 5] == 7 * 128 + 2 * 16
    np.testing.assert_array_equal(places[8:], places[:8] + 1024)


def test_the_pattern_belongs_to_addresses_and_not_to_the_box() -> None:
    map_ = TensorMap("bf16", 0, (64, 64), (128,), (64, 8), swizzle=128)
    assert map_.shared_addresses(128)[0] == 128 + 16  # the first row of the box is line 1 of the pattern
    np.testing.assert_array_equal(map_.shared_addresses(5 * 1024), map_.shared_addresses(0) + 5 * 1024)


def test_narrow_swizzles_by_hand() -> None:
    rows32 = TensorMap("bf16", 0, (16, 64), (32,), (16, 8), swizzle=32).shared_addresses(0).reshape(8, 16)[:, 0]
    assert rows32.tolist() == [0, 32, 64, 96, 144, 176, 208, 240]  # rows 4 to 7 are line 1: chunks 0 and 1 change
    rows64 = TensorMap("bf16", 0, (32, 64), (64,), (32, 8), swizzle=64).shared_addresses(0).reshape(8, 32)[:, 0]
    assert rows64.tolist() == [0, 64, 144, 208, 288, 352, 432, 496]


def test_a_box_counts_in_full_where_it_overhangs() -> None:
    map_ = TensorMap("bf16", 0, (64, 100, 2), (128, 12800), (64, 128, 1))
    assert map_.bytes == 64 * 128 * 2
    box = map_.elements((0, 64, 1))
    assert box.in_range is not None and int(box.in_range.sum()) == 36 * 64


@pytest.mark.parametrize(("dtype", "pattern"), [("bf16", b"\xff\x7f"), ("f32", b"\xff\xff\xff\x7f")])
def test_nan_fill(dtype: str, pattern: bytes) -> None:
    map_ = TensorMap(dtype, 0, (16, 4), (64,), (16, 4), fill_nan=True)
    data = map_.load((-1, 0), gather_from(memory()))
    assert data[0].tobytes() == pattern and data[16].tobytes() == pattern


@pytest.mark.parametrize(
    "make",
    [
        lambda: TensorMap("bf16", 8, (64, 64), (128,), (64, 8)),
        lambda: TensorMap("bf16", 0, (64, 64), (130,), (64, 8)),
        lambda: TensorMap("bf16", 0, (64, 64), (2**40,), (64, 8)),
        lambda: TensorMap("bf16", 0, (0, 64), (128,), (64, 8)),
        lambda: TensorMap("bf16", 0, (64, 64), (128,), (257, 8)),
        lambda: TensorMap("bf16", 0, (64, 64), (128,), (4, 8)),
        lambda: TensorMap("bf16", 0, (64, 64), (128,), (64, 8), swizzle=64),
        lambda: TensorMap("bf16", 0, (64, 64), (128,), (32, 8), swizzle=48),
        lambda: TensorMap("bf16", 0, (64, 64), (128,), (64, 8), (1, 9)),
        lambda: TensorMap("bf16", 0, (64,) * 6, (128,) * 5, (8,) * 6),
        lambda: TensorMap("bf16", 0, (64, 64), (), (64, 8)),
        lambda: TensorMap("u8", 0, (64, 64), (64,), (16, 8), fill_nan=True),
        lambda: TensorMap("tf32", 0, (64, 64), (256,), (16, 8)),
    ],
)
def test_what_the_driver_refuses(make: Callable[[], TensorMap]) -> None:
    with pytest.raises(UnitFault):
        make()


def test_alignment_and_rank_of_a_transfer() -> None:
    map_ = TensorMap("bf16", 0, (64, 64), (128,), (64, 8), swizzle=128)
    with pytest.raises(UnitFault, match="128-byte aligned"):
        map_.shared_addresses(64)
    with pytest.raises(UnitFault, match="1 coordinates"):
        map_.elements((0,))
