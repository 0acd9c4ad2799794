"""The chain that a mutant goes through: static rules, protocol verifier, simulator. The first that objects has it."""

from __future__ import annotations

import inspect
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from croq import simulate
from croq.compiler import Compilation, Settings, compile_file, load
from croq.diagnostics import CompileError, CroqError, InternalError
from croq.ir.objects import Kernel
from croq.ir.printer import print_kernel
from croq.ir.verify import verify
from croq.simulate import SimulationFault
from croq.simulate.dtypes import Array
from croq.source import SourceFile
from croq.verify import Verdict, verify_protocol
from tools.mutants.lowered import LoweredMutant, lowered_mutants, make
from tools.mutants.model import Kind, Mutant, Outcome, Stage, apply_edits
from tools.mutants.source import SourceMutant, source_mutants
from tools.mutants.subjects import Run, Subject, subjects

SCHEDULES = ("eager", "lazy", "random:1", "random:2", "random:3")
VERIFIER_SECONDS = 30.0
SIMULATOR_SECONDS = 30.0  # a schedule of a run; the unmutated kernels need well under one
RACES = {"races": True} if "races" in inspect.signature(simulate.run).parameters else {}
Found = tuple[Stage, str, str]  # stage, code, message


class Expired(BaseException):
    """A time limit is over. Not an Exception: tools turn those into faults of their own."""


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise Expired in the block when it takes longer. Main thread of a POSIX process only."""

    def stop(signum: int, frame: object) -> None:
        raise Expired

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class Baseline:
    """The unmutated kernel: its code, what it computes, its mutants."""

    subject: Subject
    compilation: Compilation
    kernel: Kernel
    verdict: Verdict
    results: dict[str, dict[str, Array]] = field(default_factory=dict)  # by name of the run
    steps: dict[str, int] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.compilation.file.text

    @cached_property
    def code(self) -> str:
        return code(self.kernel)

    @cached_property
    def source(self) -> list[SourceMutant]:
        return source_mutants(self.compilation.program, self.subject.kernel, self.subject.name)

    @cached_property
    def lowered(self) -> list[LoweredMutant]:
        return lowered_mutants(self.kernel, self.subject.name)


def baseline(subject: Subject) -> Baseline:
    """Compile, verify and run the kernel as it is; what refuses it is listed in `refusals`."""
    compilation = compile_file(load(subject.path), Settings.of(subject.defines))
    kernel = _kernel(compilation, subject)
    found = Baseline(subject, compilation, kernel, verify_protocol(kernel))
    if not found.verdict.proved:
        found.refusals.append(f"the protocol verifier: {found.verdict}")
    for run in subject.runs:
        try:
            found.results[run.name], found.steps[run.name] = _simulate(kernel, run, "eager", simulate.STEP_LIMIT)
        except CroqError as error:
            found.refusals.append(f"the simulator, {run.name}, eager: {_first(error)}")
            continue
        refused = _run_all(kernel, run, found, SCHEDULES)
        if refused is not None:
            found.refusals.append(f"the simulator, {run.name}: {refused[1]} {refused[2]}")
    return found


def _kernel(compilation: Compilation, subject: Subject) -> Kernel:
    return next(k for k in compilation.functions[subject.kernel])


def code(kernel: Kernel) -> str:
    """The kernel's IR without its places in the source: equal texts are equal programs."""
    text = re.sub(r"  // line \d+$", "", print_kernel(kernel), flags=re.MULTILINE)
    return re.sub(r"(, )?why=\"[^\"\n]*\"", "", text)


# ------------------------------------------------------------------------------------------------------------ mutants
def mutants(base: Baseline, kind: Kind) -> list[Mutant]:
    return [m.mutant for m in (base.source if kind == "source" else base.lowered)]


def examine(base: Baseline, kind: Kind, number: int, every: bool = False) -> Outcome:
    """Make the mutant and find what catches it. With `every`, the tools behind the first that does are asked too."""
    started = time.perf_counter()
    wanted = base.source[number] if kind == "source" else base.lowered[number]
    found: list[Found] = []
    try:
        made = _mutated(base, wanted)
        if isinstance(made, tuple):
            found.append(made)
        else:
            for tool in (_static, _verifier, _simulator):
                answer = tool(base, made)
                if answer is not None:
                    found.append(answer)
                    if not every:
                        break
    except Exception as error:  # a tool that dies of a mutant is a fault of the tool, and must not end the sweep
        found.append(("crash", type(error).__name__, str(error).splitlines()[0] if str(error) else ""))
    stage, label, message = found[0] if found else ("survived", "", _undecided(base, made))
    others = tuple((s, c) for s, c, _ in found[1:])
    return Outcome(wanted.mutant, stage, label, message, time.perf_counter() - started, others)


def _mutated(base: Baseline, wanted: SourceMutant | LoweredMutant) -> Kernel | Found:
    """The kernel with the mutation, or why there is none."""
    if isinstance(wanted, LoweredMutant):
        return make(base.kernel, wanted)
    file = SourceFile(base.compilation.file.name, apply_edits(base.text, wanted.edits))
    try:
        kernel = _kernel(compile_file(file, Settings.of(base.subject.defines)), base.subject)
    except InternalError as error:
        return "crash", *_first(error)
    except CompileError as error:
        return "static", *_first(error)
    if code(kernel) == base.code:
        return "same code", "", "the compiler makes the same code of it"
    return kernel


def _first(error: CroqError) -> tuple[str, str]:
    found = next((d for d in error.diagnostics if d.severity == "error"), error.diagnostics[0])
    return found.code, found.message


# -------------------------------------------------------------------------------------------------------------- tools
def _static(base: Baseline, kernel: Kernel) -> Found | None:
    try:
        verify(kernel, "hw")
    except InternalError as error:
        return "static", *_first(error)
    return None


def _verifier(base: Baseline, kernel: Kernel) -> Found | None:
    if not base.verdict.proved:
        return None
    try:
        with limit(VERIFIER_SECONDS):
            verdict = verify_protocol(kernel)
    except Expired:
        return None
    if verdict.outcome != "fault":
        return None
    return "verifier", verdict.found[0].code, verdict.found[0].message


def _undecided(base: Baseline, kernel: Any) -> str:
    """What the verifier says of a survivor."""
    if not isinstance(kernel, Kernel):
        return ""
    try:
        with limit(VERIFIER_SECONDS):
            return str(verify_protocol(kernel))
    except Expired:
        return "the verifier does not end"
    except Exception as error:
        return f"the verifier died: {type(error).__name__}"


def _simulator(base: Baseline, kernel: Kernel) -> Found | None:
    for run in base.subject.runs:
        if run.name in base.results:
            found = _run_all(kernel, run, base, SCHEDULES)
            if found is not None:
                return found
    return None


def _run_all(kernel: Kernel, run: Run, base: Baseline, schedules: tuple[str, ...]) -> Found | None:
    """The first schedule under which the run faults, does not end, or computes something else."""
    for schedule in schedules:
        try:
            with limit(SIMULATOR_SECONDS):
                arrays, _ = _simulate(kernel, run, schedule, 4 * base.steps[run.name] + 1000)
        except Expired:
            return "simulator", "time", f"does not end in {SIMULATOR_SECONDS:g} s under {schedule} ({run.name})"
        except SimulationFault as fault:
            label, message = _first(fault)
            stage: Stage = "crash" if label == "E-5099" else "simulator"
            return stage, label, f"{message} ({schedule}, {run.name})"
        wrong = [name for name, want in base.results[run.name].items() if not _equal(arrays[name], want)]
        if wrong:
            return "simulator", "numbers", f"{', '.join(wrong)} differs under {schedule} ({run.name})"
    return None


def _simulate(kernel: Kernel, run: Run, schedule: str, steps: int) -> tuple[dict[str, Array], int]:
    arrays, scalars = run.make()
    call: Callable[..., simulate.Report] = simulate.run
    report = call(kernel, arrays, scalars, schedule=schedule, limit=steps, **RACES)
    return arrays, report.steps


def _equal(got: Array, want: Array) -> bool:
    return got.tobytes() == want.tobytes()


@cache
def baseline_of(name: str) -> Baseline:
    """The baseline of the subject of that name, made once a process. Raises KeyError."""
    return baseline({s.name: s for s in subjects(programs=True)}[name])
