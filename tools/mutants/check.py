"""The chain that a mutant goes through: static rules, protocol verifier, simulator. The first that objects has it."""

from __future__ import annotations

import time

from croq.compiler import compile_file
from croq.diagnostics import CompileError, InternalError
from croq.ir.objects import Kernel
from croq.ir.verify import verify
from croq.settings import Settings
from croq.source import SourceFile
from croq.verify import Verdict, verify_protocol
from tools.mutants.baseline import SECONDS, Baseline, code, of
from tools.mutants.limits import Expired, limit
from tools.mutants.lowered import LoweredMutant, make
from tools.mutants.model import Found, Kind, Outcome, apply_edits, first_error
from tools.mutants.source import SourceMutant


def examine(base: Baseline, kind: Kind, number: int, every: bool = False) -> Outcome:
    """Make the mutant and find what catches it. With `every`, the tools behind the first that does are asked too."""
    started = time.perf_counter()
    wanted = base.source[number] if kind == "source" else base.lowered[number]
    try:
        found = _ask(base, wanted, every)
    except Expired:
        found = [("crash", "time", "the compiler does not end")]
    except Exception as error:  # a tool that dies of a mutant is a fault of the tool, and must not end the sweep
        found = [("crash", type(error).__name__, str(error).split("\n")[0])]
    stage, label, message = found[0]
    others = tuple((s, c) for s, c, _ in found[1:] if s != "survived")
    return Outcome(wanted.mutant, stage, label, message, time.perf_counter() - started, others)


def mutated(base: Baseline, wanted: SourceMutant | LoweredMutant) -> Kernel | Found:
    """The kernel with the mutation, or why there is none."""
    if isinstance(wanted, LoweredMutant):
        return make(base.kernel, wanted)
    file = SourceFile(base.compilation.file.name, apply_edits(base.compilation.file.text, wanted.edits))
    try:
        with limit(SECONDS):
            kernel = of(compile_file(file, Settings.of(base.subject.defines)), base.subject)
    except InternalError as error:
        return "crash", *first_error(error)
    except CompileError as error:
        return "static", *first_error(error)
    if code(kernel) == base.code:
        return "same code", "", "the compiler makes the same code of it"
    return kernel


def _ask(base: Baseline, wanted: SourceMutant | LoweredMutant, every: bool) -> list[Found]:
    """The answers of the tools that object, in order; `survived` when none does."""
    kernel = mutated(base, wanted)
    if not isinstance(kernel, Kernel):
        return [kernel]
    found: list[Found] = []
    if (answer := _static(kernel)) is not None:
        found.append(answer)
    verdict: Verdict | None = None
    if every or not found:
        verdict = _verdict(base, kernel)
        if verdict is not None and verdict.outcome == "fault":
            found.append(("verifier", verdict.found[0].code, verdict.found[0].message))
    if every or not found:
        runs = (base.differs(kernel, one) for one in base.subject.runs if one.name in base.results)
        found += [answer for answer in (next((a for a in runs if a is not None), None),) if answer is not None]
    return found or [("survived", "", str(verdict) if verdict is not None else "the verifier was not asked")]


def _static(kernel: Kernel) -> Found | None:
    try:
        verify(kernel, "hw")
    except InternalError as error:
        return "static", *first_error(error)
    return None


def _verdict(base: Baseline, kernel: Kernel) -> Verdict | None:
    """None: the verifier does not prove the kernel as it is, or does not end."""
    if not base.verdict.proved:
        return None
    try:
        with limit(SECONDS):
            return verify_protocol(kernel)
    except Expired:
        return None
