"""All programs that must be right: the shipped kernels, tests/cases, tests/programs.

As a program: `python -m tests.simulate.programs [SCHEDULES] [NAME ...]` runs each under many schedules (200 unless
said otherwise) with the race detector on, and tells what goes wrong.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from croq.compiler import compile_file
from croq.ir.objects import Kernel
from croq.settings import Settings
from croq.simulate import run
from croq.simulate.dtypes import DTYPES
from croq.simulate.explore import Exploration, choose_schedules, explore
from croq.simulate.races.guards import Guards
from croq.source import SourceFile
from tests.cases.cases import CASES
from tests.programs import harness

ROOT = Path(__file__).resolve().parent.parent.parent
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Subject:
    name: str
    compile: Callable[[], list[Kernel]]
    arrays: Callable[[], Arrays]
    scalars: dict[str, Any]

    def explore(self, count: int, jobs: int | None = None) -> Exploration:
        """Run it under `count` schedules with the race detector on."""
        kernels = self.compile()

        def simulate(schedule: str, arrays: Mapping[str, np.ndarray]) -> None:
            for kernel in kernels:
                own = {p.name: arrays[p.name] for p in kernel.params if p.shape is not None}
                scalars = {p.name: self.scalars[p.name] for p in kernel.params if p.shape is None}
                run(kernel, own, scalars, schedule=schedule, races=True)

        written = frozenset(p.name for kernel in kernels for p in Guards(kernel).written)
        return explore(simulate, self.arrays(), written, choose_schedules(kernels, count), jobs=jobs)


def _kernels(path: Path, defines: dict[str, Any], function: str | None) -> list[Kernel]:
    text = path.read_text(encoding="utf-8")
    compilation = compile_file(SourceFile(path.name, text), Settings.of({k: str(v) for k, v in defines.items()}))
    return [k for k in compilation.module.kernels if function is None or k.function == function]


def programs() -> Iterator[Subject]:
    """tests/programs at their first sizes."""
    for case in harness.cases():
        for sizes in case.variant.sizes[:1]:
            made = harness.make_run(case, sizes)
            compiled = partial(_kernels, case.path, case.defines, case.program.name)
            yield Subject(case.id, compiled, made.fresh, made.scalars)


def cases() -> Iterator[Subject]:
    for case in CASES:
        for defines in case.get("defines", [{}]):
            for size in ("small", "tail"):
                if size in case:
                    name = "-".join([case["file"][:-3], size, *(f"{k}{v}" for k, v in defines.items())])
                    compiled = partial(_kernels, ROOT / "tests/cases" / case["file"], defines, case["kernel"])
                    scalars = {name: role for name, _, shape, role in case["args"] if shape is None}
                    yield Subject(name, compiled, partial(_case_arrays, case, size), scalars)


def _case_arrays(case: dict[str, Any], size: str) -> Arrays:
    generator, arrays = np.random.default_rng(1), {}
    for name, type_, shape, role in case["args"]:
        if shape is not None:
            extents = tuple(case[size].get(extent, extent) for extent in shape)
            drawn = generator.uniform(-1, 1, extents).astype(np.float32)
            arrays[name] = (np.full_like(drawn, np.nan) if role == "out" else drawn).astype(DTYPES[type_])
    return arrays


def shipped() -> Iterator[Subject]:
    for name in ("v1", "v2", "v3", "v4", "v5"):
        persistent = name in ("v3", "v5")
        defines = {"PERSISTENT_CTAS": 2} if persistent else {}
        compiled = partial(_kernels, ROOT / "kernels" / f"{name}.co", defines, None)
        yield Subject(name, compiled, partial(_attention, 2 if persistent else 3, persistent), {})


def _attention(tiles: int, persistent: bool) -> Arrays:
    generator, heads = np.random.default_rng(3), 2 if persistent else 1
    shape = (1, 128 * tiles, heads, 128)
    arrays = {n: generator.standard_normal(shape).astype("bfloat16") for n in "QKV"}
    arrays["O"] = np.full(shape, np.nan, "bfloat16")
    if persistent:
        tasks = [bm | head << 8 for head in range(heads) for bm in range(tiles)]
        arrays["tasks"] = np.array([tasks[0], tasks[3], tasks[1], tasks[2]], np.int32)
        arrays["offsets"] = np.array([0, 3, 4], np.int32)
    return arrays


def everything() -> Iterator[Subject]:
    yield from shipped()
    yield from cases()
    yield from programs()


def main(arguments: list[str]) -> int:
    count = int(arguments[0]) if arguments and arguments[0].isdecimal() else 200
    wanted = [a for a in arguments if not a.isdecimal()]
    wrong = 0
    for subject in everything():
        if wanted and not any(name in subject.name for name in wanted):
            continue
        started = time.perf_counter()
        found = subject.explore(count)
        seconds = time.perf_counter() - started
        print(f"{subject.name:32} {len(found.schedules):4} schedules, {seconds:6.1f} s{'' if found.ok else '  WRONG'}")
        for diagnostic in found.diagnostics:
            print(diagnostic.render())
        wrong += not found.ok
        sys.stdout.flush()
    print(f"{wrong} wrong" if wrong else "no report")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
