"""One random program from text to verdict: compiled, verified as written and as lowered, simulated, compared; and the
same for a damaged one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from croq.diagnostics import CompileError, Sink
from croq.ir.build import build
from croq.ir.objects import Kernel
from croq.passes import pipeline
from croq.sema import analyse
from croq.simulate import SimulationFault, run
from croq.source import SourceFile
from croq.syntax import parse_program
from croq.verify import THOROUGH, Options, verify_protocol
from croq.verify.check import LevelName
from tests.random_pipelines.pipeline_breaks import Breakage, breakages
from tests.random_pipelines.pipeline_data import inputs
from tests.random_pipelines.pipeline_plans import Plan, draw
from tests.random_pipelines.pipeline_text import render, write

QUICK = Options(trips=4, steps=25_000, runs=25)  # every loop still runs past two rounds of its rings


def compiled(text: str, *, until: str | None = None) -> Kernel:
    """Lowered, or up to a pass. Raises CompileError."""
    sink = Sink()
    program = parse_program(SourceFile("pipeline.co", text), {}, sink)
    sink.check()
    model = analyse(program, sink)
    sink.check()
    module = build(model, sink)
    pipeline.run(module, sink, after=until)
    sink.check()
    (kernel,) = module.kernels
    return kernel


@dataclass
class Trial:
    """What happened to a correct program. `wrong` must stay empty; `undecided` is counted."""

    plan: Plan
    text: str
    wrong: list[str] = field(default_factory=list)
    undecided: str = ""
    sims: int = 0


def try_program(
    seed: int,
    sizes: Iterable[int] = (1, 2),
    schedules: Iterable[str] = ("lazy",),
    options: Options = QUICK,
) -> Trial:
    plan = draw(seed)
    trial = Trial(plan, render(write(plan), plan))
    try:
        kernel = compiled(trial.text)
    except CompileError as error:
        trial.wrong.append(f"rejected: {error}")
        return trial
    levels: dict[LevelName, Kernel] = {"hw": kernel, "tile": compiled(trial.text, until="participants")}
    for level, subject in levels.items():
        verdict = verify_protocol(subject, level=level, options=options)
        if verdict.outcome == "fault":
            trial.wrong.append(f"called wrong ({level}): {verdict.found[0].render()}")
        elif verdict.outcome == "undecided":
            trial.undecided = f"{verdict.reason} ({level})"
    for size in sizes:
        for schedule in schedules:
            found = simulate(plan, kernel, size, schedule)
            trial.sims += 1
            if found:
                trial.wrong.append(f"size {size}, {schedule}: {found}")
    return trial


def simulate(plan: Plan, kernel: Kernel, size: int, schedule: str) -> str:
    """What is wrong with a run, or an empty text."""
    made = inputs(plan, size)
    arrays = made.fresh()
    try:
        run(kernel, arrays, made.scalars, schedule=schedule, races=schedule != "eager")
    except SimulationFault as fault:
        return fault.diagnostics[0].render()
    got = arrays["c"].astype(np.float64)
    want = made.want.astype(np.float64)
    if np.array_equal(got, want):
        return ""
    bad = np.argwhere(got != want)
    return f"{len(bad)} of {want.size} elements differ, first at {bad[0].tolist()}"


def broken_ways(seed: int) -> list[Breakage]:
    return breakages(plan := draw(seed), write(plan))


def caught_by(seed: int, breakage: Breakage, schedules: Sequence[str] = ("eager", "lazy", "random:1")) -> str:
    """Who finds the fault: a code of the compiler or the verifier, `simulator`, or "" where nobody does.

    A fault that takes a long list of tasks to show may lie outside the verifier's usual bounds.
    """
    plan = draw(seed)
    text = render(breakage.lines, plan)
    try:
        kernel = compiled(text)
    except CompileError as error:
        return error.diagnostics[0].code
    for options in (QUICK, Options()):
        verdict = verify_protocol(kernel, options=options)
        if verdict.outcome == "fault":
            return verdict.found[0].code
    if any(simulate(plan, kernel, size, schedule) for size in (2, 3, 1, 0) for schedule in schedules):
        return "simulator"
    verdict = verify_protocol(kernel, options=THOROUGH)
    return f"{verdict.found[0].code}, with a larger budget" if verdict.outcome == "fault" else ""
