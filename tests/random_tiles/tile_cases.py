"""Random tile programs as cases for a GPU (tools/device_programs.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tests.programs.entries import EXACT
from tests.programs.harness import Run
from tests.random_tiles.tile_sample import Sample
from tests.random_tiles.tile_trials import FAMILIES


@dataclass(frozen=True)
class TileCase:
    sample: Sample

    @property
    def id(self) -> str:
        return f"{self.sample.family}-{self.sample.seed}"

    @property
    def source(self) -> str:
        return self.sample.text

    kernel: ClassVar[str] = "f"
    defines: ClassVar[Mapping[str, str]] = {}
    sizes: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    large: ClassVar[tuple[Mapping[str, Any], ...]] = ()

    def run(self, sizes: Mapping[str, Any]) -> Run:
        want = {name: _as_reference(value, self.sample.arrays[name]) for name, value in self.sample.want.items()}
        return Run(self.sample.fresh(), {}, want, EXACT)


def _as_reference(value: Any, array: Any) -> Any:
    return np.asarray(value).astype(np.int64 if array.dtype.kind in "iu" else np.float64)


def tile_cases(first: int, count: int) -> Iterator[TileCase]:
    """So many programs of each family; some of them a rule refuses."""
    for draw in FAMILIES.values():
        for seed in range(first, first + count):
            yield TileCase(draw(seed))
