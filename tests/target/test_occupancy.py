"""How many CTAs an SM holds."""

from __future__ import annotations

import pytest

from croq.target import TARGETS
from croq.target.occupancy import Occupancy, occupancy


@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        ((384, 168, 200_000), Occupancy(1, 12, ("registers", "shared memory"))),
        ((128, 32, 0), Occupancy(16, 64, ("registers", "warps"))),
        ((32, 16, 0), Occupancy(32, 32, ("CTAs",))),
        ((64, 168, 0), Occupancy(6, 12, ("registers",))),
        (
            (64, 40, 0),
            Occupancy(24, 48, ("registers",)),
        ),  # 12 warps of 1,280 in a quarter's 16,384; 51 in an undivided file
        ((128, 40, 56 * 1024), Occupancy(4, 16, ("shared memory",))),
    ],
)
def test_ctas_of_an_sm(kernel: tuple[int, int, int], found: Occupancy) -> None:
    assert occupancy(TARGETS["sm_90a"], *kernel) == found
