"""Bulk copies and reductions without a tensor map."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from croq.ptx.units.bulk_copy import check_bulk, reduced
from croq.ptx.units.fault import UnitFault


def apply(operation: str, dtype: str, old: object, new: object, kind: object) -> list[object]:
    bytes_ = [np.array(x, kind).view(np.uint8).reshape(-1, np.dtype(kind).itemsize) for x in (old, new)]  # type: ignore[call-overload]
    result: list[object] = np.ascontiguousarray(reduced(operation, dtype, *bytes_)).view(kind).reshape(-1).tolist()  # type: ignore[call-overload]
    return result


def test_integers_wrap() -> None:
    assert apply("add", "u32", [2**32 - 1, 5], [1, 6], np.uint32) == [0, 11]
    assert apply("min", "s32", [-3, 4], [2, -9], np.int32) == [-3, -9]
    assert apply("max", "u64", [3], [2**63], np.uint64) == [2**63]


def test_inc_and_dec_wrap_at_their_bound() -> None:
    assert apply("inc", "u32", [3, 4, 9], [4, 4, 4], np.uint32) == [4, 0, 0]
    assert apply("dec", "u32", [3, 0, 9], [4, 4, 4], np.uint32) == [2, 4, 4]


def test_bits() -> None:
    assert apply("xor", "b32", [0b1100], [0b1010], np.uint32) == [0b0110]
    assert apply("and", "s32", [-1], [5], np.int32) == [5]


def test_narrow_floats_round_once() -> None:
    assert apply("add", "bf16", [256.0, 1.0], [1.0, 2.0], ml_dtypes.bfloat16) == [256.0, 3.0]
    assert apply("add", "f16", [2048.0], [3.0], np.float16) == [2052.0]
    assert apply("max", "bf16", [np.nan, 1.0], [2.0, np.nan], ml_dtypes.bfloat16) == [2.0, 1.0]


def test_additions_of_f32_flush_subnormals() -> None:
    assert apply("add", "f32", [2.0**-130, 1.0], [2.0**-130, 2.0**-24], np.float32) == [0.0, 1.0]
    assert apply("add", "f16", [2.0**-24], [2.0**-24], np.float16) == [2.0**-23]


@pytest.mark.parametrize(("operation", "dtype"), [("min", "f32"), ("inc", "s32"), ("and", "f16"), ("mul", "f32")])
def test_types_that_no_reduction_has(operation: str, dtype: str) -> None:
    with pytest.raises(UnitFault, match="no bulk reduction"):
        reduced(operation, dtype, np.zeros((1, 4), np.uint8), np.zeros((1, 4), np.uint8))


@pytest.mark.parametrize("arguments", [(8, 0, 16), (0, 8, 16), (0, 0, 24), (0, 0, -16)])
def test_everything_is_a_multiple_of_16(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(UnitFault):
        check_bulk(*arguments)
    check_bulk(16, 32, 48)
