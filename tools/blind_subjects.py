"""Programs whose emission is mutated, each with inputs and with what the simulation of its lowered IR makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import croq
from croq import agreement
from croq.binding import bind
from croq.execution import launch_of
from croq.ptx.parse import parse
from croq.ptx.run import execute
from croq.simulate.binding import spread_blocks
from tests.programs import harness
from tests.random_tiles.tile_trials import FAMILIES as TILES

ROOT = Path(__file__).resolve().parent.parent

BLOCKS = 4  # of one grid


@dataclass(frozen=True)
class Given:
    """Arguments by name, in order, and as the lowered program leaves them. `integers`: small, sums are exact."""

    arguments: Mapping[str, Any]
    want: Mapping[str, Any]
    integers: bool

    def fresh(self) -> dict[str, Any]:
        return _copied(self.arguments)


def _copied(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in arguments.items()}


def _given(kernel: Any, arguments: Mapping[str, Any], integers: bool) -> Given | None:
    """None where the program does not take these sizes."""
    want = _copied(arguments)
    try:
        croq.simulate(kernel, *want.values(), races=False, blocks=BLOCKS)
    except croq.CroqError:
        return None
    return Given(arguments, want, integers)


@dataclass
class Subject:
    """`given`: inputs. `steps`: blocks of instructions of the program as it is, by schedule and number of the input."""

    name: str
    kernel: Any
    given: list[Given]

    def __post_init__(self) -> None:
        self.rules = agreement.Rules(self.kernel)
        self.steps: dict[tuple[str, int], int] = {}

    @cached_property
    def cuda(self) -> str:
        return str(self.kernel.cuda)

    def execute(self, ptx: str, schedule: str, number: int, limit: int) -> str:
        """What an execution of the PTX on the input of a number finds wrong, or ""."""
        given = self.given[number]
        got = given.fresh()
        try:
            steps = self._launch(ptx, got, schedule, limit)
        except croq.CroqError as error:
            first = error.diagnostics[0]
            return f"{first.code} {first.message}"
        except Exception as error:  # a hole: whatever PTX does, its execution has a code for it
            return f"CRASH {type(error).__name__}: {error}"
        self.steps.setdefault((schedule, number), steps)
        for name, want in given.want.items():
            if isinstance(want, np.ndarray):
                allowed = self.rules.allowed(want, given.integers)
                count = int((~agreement.alike(want, got[name], allowed)).sum())
                if count:
                    return f"`{name}` differs in {count} of {want.size} elements"
        return ""

    def _launch(self, ptx: str, arguments: dict[str, Any], schedule: str, limit: int) -> int:
        values = list(arguments.values())
        bound = bind(self.kernel.devices, self.kernel.views(values))
        arrays = {n: a for n, a in arguments.items() if isinstance(a, np.ndarray)}
        module, steps = parse(ptx), 0
        for device, grid in zip(self.kernel.devices, bound.grids, strict=True):
            blocks = spread_blocks(grid, BLOCKS)
            launch = launch_of(device, bound, grid, arrays)
            steps += execute(module, launch, schedule=schedule, blocks=blocks, limit=limit).steps
        return steps


def names() -> list[str]:
    """All subjects: `programs/ID`, `cases/FILE`, `kernels/NAME`, `tiles/FAMILY-SEED`."""
    found = [f"programs/{case.id}" for case in harness.cases()]
    found += [f"cases/{path.name}" for path in sorted((ROOT / "tests" / "cases").glob("*.co"))]
    found += [f"kernels/{path.name}" for path in sorted((ROOT / "kernels").glob("*.co"))]
    return [*found, *(f"tiles/{family}-{seed}" for family in TILES for seed in range(20))]


def subjects(name: str) -> Iterator[Subject]:
    """Those of a name: one a function of a file. A program that a rule refuses has none."""
    folder, _, rest = name.partition("/")
    if folder == "programs":
        case = next(c for c in harness.cases() if c.id == rest)
        kernel = croq.compile(case.path, defines=case.defines, kernel=case.program.name)
        yield _subject(name, kernel, _of_case(kernel, case))
    elif folder == "tiles":
        family, _, seed = rest.rpartition("-")
        sample = TILES[family](int(seed))
        try:
            kernel = croq.compile(sample.text)
        except croq.CompileError:
            return
        yield _subject(name, kernel, [(sample.arrays, True)])
    else:
        path = ROOT / ("kernels" if folder == "kernels" else "tests/cases") / rest
        for function, kernel in croq.compile(path).kernels.items():
            yield _subject(f"{name}:{function}", kernel, [])


def _subject(name: str, kernel: Any, own: Iterable[tuple[Mapping[str, Any], bool]]) -> Subject:
    """With its own inputs, and with those of `croq check --ptx`: integers at all sizes, random numbers at the first."""
    given = [made for arguments, integers in own if (made := _given(kernel, arguments, integers)) is not None]
    found, sizes = agreement.Agreement(kernel.name), 0
    for symbols, memory in agreement.usable(kernel, found):
        kinds = (True, False) if sizes == 0 else (True,)
        drawn = [(agreement.arguments(kernel, symbols, memory, integers), integers) for integers in kinds]
        named = [({p.name: v for p, v in zip(kernel.params, vs, strict=True)}, integers) for vs, integers in drawn]
        drawn_here = [_given(kernel, arguments, integers) for arguments, integers in named]
        given += [one for one in drawn_here if one is not None]
        sizes += drawn_here[0] is not None
        if sizes == agreement.SIZES:
            break
    return Subject(name, kernel, given)


def _of_case(kernel: Any, case: Any) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Small integers where floats are drawn at the last sizes; what the catalogue draws at the first."""
    rng = np.random.default_rng(3)
    for sizes, integers in ((case.variant.sizes[-1], True), (case.variant.sizes[0], False)):
        run = harness.make_run(case, sizes)
        made = {a.name: a for a in case.program.args}
        for name, array in run.arrays.items():
            plain = made[name].make is None and made[name].role != "out" and array.dtype.kind not in "iub"
            if integers and plain:
                array[...] = rng.integers(-agreement.SMALL, agreement.SMALL + 1, array.shape)
        yield (
            {p.name: run.arrays[p.name] if p.shape is not None else run.scalars[p.name] for p in kernel.params},
            integers,
        )
