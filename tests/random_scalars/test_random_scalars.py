"""A few hundred random scalar programs; tools/fuzz_scalars.py makes as many as one likes, on a GPU too."""

from __future__ import annotations

from pathlib import Path

import pytest

from croq.passes import ranges
from tools import fuzz_scalars

pytestmark = pytest.mark.nvrtc


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_simulator_ptx_and_folding_agree(seed: int) -> None:
    assert list(fuzz_scalars.compare(seed, 40)) == []


def test_operations_without_their_guards_are_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ranges, "_needs_guard", lambda *_: False)
    monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path))
    assert any(list(fuzz_scalars.compare(seed, 40)) for seed in range(1000, 1006))
