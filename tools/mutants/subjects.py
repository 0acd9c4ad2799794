"""The kernels that are mutated: where they are, with which macros, and on which small inputs they are run.

Sizes are chosen so that every ring is used 1 to more than twice its depth times within the runs of one kernel.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from croq.simulate.dtypes import DTYPES, Array
from tests.cases.cases import CASES
from tests.programs import harness

ROOT = Path(__file__).resolve().parent.parent.parent
Arrays = dict[str, Array]
Scalars = dict[str, int | float]


@dataclass(frozen=True)
class Run:
    """One set of arguments. `make` gives the same ones at every call; outputs are poisoned."""

    name: str
    make: Callable[[], tuple[Arrays, Scalars]]


@dataclass(frozen=True)
class Subject:
    """One kernel of one file under one set of macros."""

    name: str
    path: Path
    kernel: str
    runs: tuple[Run, ...]
    defines: Mapping[str, str] = field(default_factory=dict)


# Of tests/programs, those that hand over in a way that the shipped kernels do not: by ordinary stores, through named
# barriers, by slots, in turns.
BESIDES = frozenset({"handoff", "slot_events-s3", "ping_pong", "turns-c2_s3", "gemm_dma_ring"})


def subjects(programs: bool = False) -> list[Subject]:
    """Shipped kernels, those of tests/cases, and a few of tests/programs (BESIDES); with `programs`, all of these."""
    return [*_shipped(), *_cases(), *(s for s in _programs() if programs or s.name in BESIDES)]


# ---------------------------------------------------------------------------------------------------------- shipped
def _shipped() -> Iterator[Subject]:
    for path in sorted((ROOT / "kernels").glob("*.co")):
        persistent = "PERSISTENT_CTAS" in path.read_text(encoding="utf-8")
        runs = _persistent() if persistent else (Run("5 tiles", lambda: _attention(5, 1)),)
        yield Subject(path.stem, path, "flash_atten", runs, {"PERSISTENT_CTAS": "3"} if persistent else {})


def _attention(tiles: int, heads: int) -> tuple[Arrays, Scalars]:
    """Q, K, V, O of [1, 128 * tiles, heads, 128]; each row of work is a block, with 1 to `tiles` steps."""
    generator = np.random.default_rng(tiles)
    shape = (1, 128 * tiles, heads, 128)
    arrays = {n: generator.standard_normal(shape).astype(np.float32).astype(DTYPES["bf16"]) for n in "QKV"}
    arrays["O"] = np.full(shape, np.nan, DTYPES["bf16"])
    return arrays, {}


def _persistent() -> tuple[Run, ...]:
    """Three CTAs: one with several tasks of different length, one with one, one with none."""

    def make(tiles: int, lists: tuple[tuple[int, ...], ...]) -> tuple[Arrays, Scalars]:
        arrays, scalars = _attention(tiles, 2)
        tasks = [(bm & 255) | (bm >> 8) << 8 for tasks in lists for bm in tasks]
        arrays["tasks"] = np.array(tasks, np.int32)
        arrays["offsets"] = np.cumsum([0, *map(len, lists)]).astype(np.int32)
        return arrays, scalars

    return (
        Run("3 tiles, tasks of 1, 3, 2, 1, 3 steps", lambda: make(3, ((0, 2, 1, 256, 258), (257,), ()))),
        Run("1 tile, 1 task", lambda: make(1, ((0,), (), (256,)))),
    )


# -------------------------------------------------------------------------------------------------- tests/cases
_SIZES: dict[str, tuple[dict[str, int], ...]] = {
    "gemm": ({"M": 64, "N": 128, "K": 64}, {"M": 64, "N": 128, "K": 128}, {"M": 100, "N": 136, "K": 456}),
    "gemm_two_halves": ({"M": 64, "N": 256, "K": 64}, {"M": 64, "N": 512, "K": 320}),
    "attention": ({"B": 1, "H": 2, "Q_SEQ": 128, "KV_SEQ": 192}, {"B": 1, "H": 1, "Q_SEQ": 64, "KV_SEQ": 64}),
    "saxpy": ({"N": 1000},),
}


def _cases() -> Iterator[Subject]:
    folder = ROOT / "tests" / "cases"
    for case in CASES:
        if case["file"] == "handoffs.co":  # hands over nothing: there is nothing that a mutant could spoil
            continue
        sizes = _SIZES[case["kernel"]]
        runs = tuple(Run(str(s), _drawn(case["args"], s)) for s in sizes)
        stem = Path(case["file"]).stem
        yield Subject(stem, folder / case["file"], case["kernel"], runs)


def _drawn(args: list[Any], sizes: dict[str, int]) -> Callable[[], tuple[Arrays, Scalars]]:
    def make() -> tuple[Arrays, Scalars]:
        generator = np.random.default_rng(zlib.crc32(str(sizes).encode()))
        arrays: Arrays = {}
        scalars: Scalars = {}
        for name, type_, shape, role in args:
            if shape is None:
                scalars[name] = role
                continue
            extents = tuple(sizes.get(extent, extent) for extent in shape)
            arrays[name] = generator.uniform(-1, 1, extents).astype(np.float32).astype(DTYPES[type_])
            if role == "out":
                arrays[name][...] = np.nan
        return arrays, scalars

    return make


# ----------------------------------------------------------------------------------------------- tests/programs
def _programs() -> Iterator[Subject]:
    for case in harness.cases():
        runs = tuple(Run(str(dict(sizes)), _harnessed(case, sizes)) for sizes in case.variant.sizes)
        yield Subject(case.id, case.path, case.program.name, runs, case.defines)


def _harnessed(case: Any, sizes: Any) -> Callable[[], tuple[Arrays, Scalars]]:
    @cache
    def drawn() -> Any:
        return harness.make_run(case, sizes)

    def make() -> tuple[Arrays, Scalars]:
        return drawn().fresh(), dict(drawn().scalars)

    return make
