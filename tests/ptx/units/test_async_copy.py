"""cp.async: the sizes and addresses that it takes."""

from __future__ import annotations

import numpy as np
import pytest

from croq.ptx.units.async_copy import check
from croq.ptx.units.fault import UnitFault


@pytest.mark.parametrize(
    ("cache", "destination", "source", "size", "source_size"),
    [
        ("cg", 0, 0, 8, 8),
        ("ca", 0, 0, 2, 2),
        ("ca", 4, 0, 8, 8),
        ("ca", 0, 4, 16, 16),
        ("ca", 0, 0, 4, 5),
        ("ca", 0, 0, 4, -1),
    ],
)
def test_what_no_copy_is(cache: str, destination: int, source: int, size: int, source_size: int) -> None:
    def copies(value: int) -> np.ndarray:
        return np.array([0, value], np.int64)

    with pytest.raises(UnitFault):
        check(cache, copies(destination), copies(source), size, copies(source_size))


@pytest.mark.parametrize("size", [4, 8, 16])
def test_any_part_of_a_copy_may_be_read(size: int) -> None:
    reads = np.arange(size + 1)
    check("ca", reads * size, reads * size, size, reads)
