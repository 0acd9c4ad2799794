"""Sets of lanes, as masks and as booleans."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from croq.target.cuda import WARP


@lru_cache(maxsize=4096)
def lane_flags(mask: int) -> NDArray[np.bool_]:
    """A lane mask as 32 booleans."""
    flags = np.array([mask >> lane & 1 for lane in range(WARP)], dtype=np.bool_)
    flags.setflags(write=False)
    return flags


def packed(flags: NDArray[np.bool_]) -> int:
    """Booleans as the bits of a number: a lane mask, where there are 32."""
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")
