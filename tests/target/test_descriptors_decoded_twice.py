"""Two readings of a matrix descriptor, written apart from one another: the IR simulator's and the PTX execution's."""

from __future__ import annotations

import numpy as np
import pytest

from croq.ptx.units import wgmma_operands
from croq.target.sm90.descriptors import Major, chunks_read, describe

STARTS = [0, 1024, 1056, 1088, 1120, 9 * 1024 + 64, 200 * 1024]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("width", [16, 32, 64, 128])
@pytest.mark.parametrize("elem_bytes", [1, 2, 4])
@pytest.mark.parametrize("major", ["k", "mn"])
@pytest.mark.parametrize("mn", [8, 64, 136, 256])
def test_both_read_the_same_bytes(major: Major, mn: int, elem_bytes: int, width: int, start: int) -> None:
    if major == "mn" and elem_bytes != 2:
        elem_bytes = 2
    word = describe(256, 512 // elem_bytes, elem_bytes, major, width).encode(start)
    other = wgmma_operands.chunks(wgmma_operands.Descriptor.decode(word), mn, 32 // elem_bytes, major == "mn")
    np.testing.assert_array_equal(chunks_read(word, major, mn, elem_bytes), other)
