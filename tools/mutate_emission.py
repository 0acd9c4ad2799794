"""Does the execution of the emitted PTX notice a fault of emission?

    python -m tools.mutate_emission                every mutant; needs NVRTC, no GPU
    python -m tools.mutate_emission --only NAME    those whose name contains this
    python -m tools.mutate_emission --list         what there is
    python -m tools.mutate_emission --blind 300 --seed 7 --record FILE    so many changes that nobody chose
    python -m tools.mutate_emission --again FILE                          those of a record that were not caught

Each mutant changes one place of what emission makes: in the text of a kernel of tests/programs, as a wrong template or
handler would make it, or in the runtime that every kernel includes. Its PTX is executed and held against the simulation
of the lowered IR, which is right. A mutant is caught when the execution finds a fault or other numbers, under one of
the schedules; the kernel as it is must agree under all of them. Exit status 4 when one is not caught.

Blind mutants are small random changes of the programs of kernels/, tests/cases, tests/programs and tests/random_tiles
(`--only` chooses; tools/blind_mutants.py has the kinds). Of those that survive each is to be judged: most are
equivalent, some need other inputs to show, and some are holes in the execution or in the comparison.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import croq
from croq.binding import bind
from croq.driver.nvrtc import compile_ptx, prelude
from croq.execution import launch_of
from croq.ptx.parse import parse
from croq.ptx.run import execute
from tests.programs import harness
from tools.emission_mutants import RUNTIME, Mutant, mutants

SCHEDULES = ("eager", "lazy", "random:1", "random:2")
STEPS = 300_000  # blocks of instructions of one CTA, after which a mutant counts as endless


# ----------------------------------------------------------------------------------------------------------- execution
class Subject:
    """A program of tests/programs at its last sizes, and what the simulation of its lowered IR computes.

    Narrow floats are drawn as multiples of 1/8: sums of products are then exact in any order, so that results that no
    approximate instruction touched must be equal in every bit. `exact`: the arrays that are, for the kernel as it is.
    """

    def __init__(self, name: str) -> None:
        self.kernel, case = compiled(name)
        self.run = harness.make_run(case, case.variant.sizes[-1])
        for array in self.run.arrays.values():
            if array.dtype.itemsize <= 2 and array.dtype.kind not in "iub":  # operands of MMAs
                array[...] = np.round(array.astype(np.float64) * 8) / 8
        self.want = self.run.fresh()
        croq.simulate(self.kernel, *self._arguments(self.want), races=False)
        got = self.run.fresh()
        self.fault = self._execute(self.kernel.ptx, got, SCHEDULES[0])
        self.exact = {name for name in got if got[name].tobytes() == self.want[name].tobytes()}

    def _arguments(self, arrays: dict[str, Any]) -> list[Any]:
        return [arrays[p.name] if p.shape is not None else self.run.scalars[p.name] for p in self.kernel.params]

    def _execute(self, ptx: str, arrays: dict[str, Any], schedule: str) -> str:
        try:
            execute_ptx(self.kernel, ptx, self._arguments(arrays), schedule)
        except croq.CroqError as error:
            first = error.diagnostics[0]
            return f"{first.code} {first.message}"
        return ""

    def difference(self, ptx: str, schedule: str) -> str:
        """What an execution of the PTX finds wrong, or "" where it computes what the simulation computes."""
        arrays = self.run.fresh()
        found = self._execute(ptx, arrays, schedule)
        return found or next((d for d in (self._differs(name, got) for name, got in arrays.items()) if d), "")

    def _differs(self, name: str, got: Any) -> str:
        want = self.want[name]
        if got.tobytes() == want.tobytes():
            return ""
        if name in self.exact or got.dtype.kind in "iub":
            return f"`{name}` differs in {int((got.view(np.uint8) != want.view(np.uint8)).sum())} bytes"
        a, b = got.astype(np.float64), want.astype(np.float64)
        absolute, relative = self.run.tolerance
        with np.errstate(invalid="ignore"):
            good = (np.abs(a - b) <= absolute + relative * np.abs(b)) | (a == b) | (np.isnan(a) & np.isnan(b))
        return "" if good.all() else f"`{name}` differs in {int((~good).sum())} of {good.size} elements"


@cache
def subject(name: str) -> Subject:
    return Subject(name)


def compiled(name: str) -> Any:
    """The kernel of a program of tests/programs, and its case."""
    case = next(c for c in harness.cases() if c.id == name)
    return croq.compile(case.path, defines=case.defines, kernel=case.program.name), case


def is_there(mutant: Mutant, cuda: str) -> bool:
    """Whether what a mutant changes is in the runtime, or in the CUDA of its program."""
    return mutant.old in (next(iter(prelude().values())) if mutant.place == RUNTIME else cuda)


def changed(mutant: Mutant) -> str:
    """The PTX of a mutant. Raises LookupError where the place is not there any more."""
    cuda, headers = subject(mutant.subject).kernel.cuda, dict(prelude())
    (header,) = headers
    text = headers[header] if mutant.place == RUNTIME else cuda
    if not is_there(mutant, cuda):
        raise LookupError(f"`{mutant.old}` is not in the {mutant.place} of {mutant.subject}")
    text = text.replace(mutant.old, mutant.new)
    if mutant.place == RUNTIME:
        headers[header] = text
    return compile_ptx(text if mutant.place != RUNTIME else cuda, headers=headers)


def execute_ptx(kernel: Any, ptx: str, arguments: list[Any], schedule: str) -> None:
    """Every launch of a kernel by the text of its PTX. Raises PtxFault."""
    bound = bind(kernel.devices, kernel.views(arguments))
    arrays = {p.name: a for p, a in zip(kernel.params, arguments, strict=True) if p.shape is not None}
    module = parse(ptx)
    for device, grid in zip(kernel.devices, bound.grids, strict=True):
        execute(module, launch_of(device, bound, grid, arrays), schedule=schedule, limit=STEPS)


def judge(mutant: Mutant) -> tuple[str, str]:
    """The schedule that catches a mutant and what it finds; no schedule when none does, or the place is gone."""
    try:
        ptx = changed(mutant)
    except LookupError as gone:
        return "", f"GONE: {gone}"
    for schedule in SCHEDULES:
        found = subject(mutant.subject).difference(ptx, schedule)
        if found:
            return schedule, found
    return "", ""


def _blind(options: argparse.Namespace) -> int:
    from tools.blind_mutation import again, blind

    if options.again is not None:
        return 4 if again(options.again) else 0
    return 4 if blind(options.blind, options.seed, options.only, options.record) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--blind", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, default=Path("blind.jsonl"), metavar="FILE")
    parser.add_argument("--again", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.blind is not None or options.again is not None:
        return _blind(options)
    chosen = [m for m in mutants() if options.only in m.name]
    if options.list:
        print("\n".join(f"{m.name:55s} {m.subject}" for m in chosen))
        return 0
    wrong = 0
    for name in dict.fromkeys(m.subject for m in chosen):
        for schedule in SCHEDULES:
            found = subject(name).difference(subject(name).kernel.ptx, schedule)
            wrong += bool(found)
            print(f"{'DISAGREES' if found else 'agrees':10s} {name} as it is, {schedule}  {found}", flush=True)
    survivors = 0
    for mutant in chosen:
        started = time.perf_counter()
        schedule, found = judge(mutant)
        survivors += not schedule
        first, seconds = re.sub(r"\s+", " ", found)[:110], time.perf_counter() - started
        what = "caught" if schedule else "GONE" if found else "SURVIVED"
        print(f"{what:10s} {mutant.name:52s} {schedule:9s} {seconds:5.1f} s  {first}", flush=True)
    print(f"{len(chosen)} mutants, {len(chosen) - survivors} caught, {wrong} disagreements of kernels as they are")
    return 4 if survivors or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
