"""The kernels as they are: their code, their mutants, what they compute."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property

from croq.compiler import compile_file
from croq.diagnostics import CroqError
from croq.ir.objects import Kernel
from croq.ir.printer import print_kernel
from croq.settings import Settings
from croq.simulate import STEP_LIMIT, SimulationFault, run
from croq.simulate.dtypes import Array
from croq.stages import Stages
from croq.texts import load
from croq.verify import Verdict, verify_protocol
from tools.mutants.limits import Expired, limit
from tools.mutants.lowered import LoweredMutant, lowered_mutants
from tools.mutants.model import Found, Kind, Mutant, first_error
from tools.mutants.source import SourceMutant, source_mutants
from tools.mutants.subjects import Run, Subject, subjects

SCHEDULES = ("eager", "lazy", "hostile:0", "hostile:1", "random:1", "random:2", "hostile:1000", "hostile:1001")
SECONDS = 30.0  # for a tool's answer; a schedule of a run of a kernel as it is needs well under one


@dataclass(eq=False)
class Baseline:
    """One kernel without a mutation. What it costs to know is worked out when it is first asked for."""

    subject: Subject
    compilation: Stages

    @property
    def name(self) -> str:
        return self.subject.name

    @cached_property
    def kernel(self) -> Kernel:
        return of(self.compilation, self.subject)

    @cached_property
    def code(self) -> str:
        return code(self.kernel)

    @cached_property
    def source(self) -> list[SourceMutant]:
        return source_mutants(self.compilation.program, self.subject.kernel, self.name)

    @cached_property
    def lowered(self) -> list[LoweredMutant]:
        return lowered_mutants(self.kernel, self.name)

    def mutants(self, kind: Kind) -> list[Mutant]:
        """All mutants of a kind, in order."""
        return [m.mutant for m in (self.source if kind == "source" else self.lowered)]

    @cached_property
    def verdict(self) -> Verdict:
        return verify_protocol(self.kernel)

    @cached_property
    def results(self) -> dict[str, tuple[dict[str, Array], int]]:
        """By name of each run that ends: what is in the arrays behind it, and the loop iterations that it took."""
        found = {}
        for one in self.subject.runs:
            try:
                found[one.name] = simulate(self.kernel, one, "eager", STEP_LIMIT)
            except CroqError:
                continue
        return found

    @cached_property
    def refusals(self) -> list[str]:
        """What objects to the kernel as it is, in words: its mutants cannot be judged by that."""
        found = [] if self.verdict.proved else [f"the protocol verifier: {self.verdict}"]
        for one in self.subject.runs:
            if one.name not in self.results:
                found.append(f"the simulator, which cannot run it on {one.name}")
            elif (fault := self.differs(self.kernel, one)) is not None:
                found.append(f"the simulator: {fault[1]} {fault[2]}")
        return found

    def differs(self, kernel: Kernel, one: Run) -> Found | None:
        """The first schedule under which the run of `kernel` faults, does not end, or computes something else."""
        want, steps = self.results[one.name]
        for schedule in SCHEDULES:
            try:
                with limit(SECONDS):
                    arrays, _ = simulate(kernel, one, schedule, 4 * steps + 1000)
            except Expired:
                return "simulator", "time", f"does not end in {SECONDS:g} s ({schedule}, {one.name})"
            except SimulationFault as fault:
                label, message = first_error(fault)
                return "crash" if label == "E-5099" else "simulator", label, f"{message} ({schedule}, {one.name})"
            wrong = [name for name in want if arrays[name].tobytes() != want[name].tobytes()]
            if wrong:
                return "simulator", "numbers", f"{', '.join(wrong)} differs ({schedule}, {one.name})"
        return None


@cache
def baseline_of(name: str) -> Baseline:
    """The baseline of the kernel of that name, once a process. Raises KeyError."""
    subject = {s.name: s for s in subjects(programs=True)}[name]
    return Baseline(subject, compile_file(load(subject.path), Settings.of(subject.defines)))


def of(compilation: Stages, subject: Subject) -> Kernel:
    """The kernel of the subject's function."""
    return compilation.functions[subject.kernel][0]


def code(kernel: Kernel) -> str:
    """The kernel's IR without its places in the source: equal texts are equal programs."""
    text = re.sub(r"  // line \d+$", "", print_kernel(kernel), flags=re.MULTILINE)
    return re.sub(r"(, )?why=\"[^\"\n]*\"", "", text)


def simulate(kernel: Kernel, one: Run, schedule: str, steps: int) -> tuple[dict[str, Array], int]:
    """What is in the arrays behind the run, and the loop iterations that it took. Accesses that race are faults."""
    arrays, scalars = one.make()
    report = run(kernel, arrays, scalars, schedule=schedule, limit=steps, races=True)
    return arrays, report.steps
