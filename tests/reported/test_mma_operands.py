"""MMAs that were proved and are wrong on the chip: tiles along K that cross swizzle slabs; an MMA of two warpgroups."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import croq

FOLDER = Path(__file__).resolve().parent


def arrays(k: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-4, 5, (64, n)).astype(ml_dtypes.bfloat16) for n in (192, k))
    return {"a": a, "b": b, "c": np.zeros((64, 64), np.float32)}


@pytest.mark.parametrize(
    ("name", "k", "part"), [("k_subtile", 192, slice(0, 192)), ("static_offset", 48, slice(48, 96))]
)
def test_tiles_that_cross_slabs(name: str, k: int, part: slice) -> None:
    path = FOLDER / f"{name}.co"
    given = arrays(k)
    croq.simulate(croq.compile(path), given["a"], given["b"], given["c"])
    want = given["a"][:, part].astype(np.float64) @ given["b"].astype(np.float64).T
    np.testing.assert_array_equal(given["c"], want)
    assert not [d for d in croq.check(path) if d.severity == "error"]


def test_one_mma_for_two_warpgroups_is_refused() -> None:
    (found,) = croq.check(FOLDER / "cta_mma.co")
    assert found.code == "E-1113" and found.span is not None and found.span.line == 7
    assert found.hint is not None and "group-4" in found.hint
