"""`compile`, `plan` and `check`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from croq.cli import output
from croq.cli.options import refused
from croq.cli.session import Session
from croq.compiler import PartialIR, compile_file
from croq.diagnostics import CompileError, Diagnostic
from croq.source import SourceFile
from croq.stages import Observer, Stages

SPILLED = ("W-3001", "W-3002")
SERIALISED = ("W-3003", "W-3004")

if TYPE_CHECKING:
    from croq.agreement import Agreement
    from croq.ir.objects import Kernel
    from croq.protocol import Judgement


def compile_session(
    session: Session, file: str, *, lineinfo: bool = False, verify: bool = False, **defines: object
) -> Stages:
    """Compile for a command: warnings printed, and the rungs of the `-v` ladder."""
    console = session.console
    source = session.load(file)
    with console.busy(f"compiling {source.name}"):
        made = compile_file(source, session.settings(lineinfo=lineinfo, verify=verify, **defines), _observer(session))
    console.diagnostics(made.warnings)
    if console.verbose >= 1:
        from croq.folder import refusal
        from croq.plan import render

        if (passed_over := refusal()) is not None:
            console.note(passed_over, level=1)
        console.note(", ".join(f"{name} {value:.3f} s" for name, value in made.seconds.items()), level=1)
        console.note(render(made.plan), level=1)
    console.note(made.cuda, level=2)
    return made


def _observer(session: Session) -> Observer | None:
    if session.console.verbose < 3:
        return None

    def show(name: str, kernel: Kernel) -> None:
        from croq.ir.printer import print_kernel

        session.console.note(f"---- {kernel.name} after {name}\n{print_kernel(kernel)}", level=3)

    return show


def compile_and_show(
    session: Session,
    file: str,
    kind: str | None,
    after: str | None,
    out: str | None,
    *,
    lineinfo: bool = False,
    verify: bool = True,
    why: bool = False,
    never: Collection[str] = (),
) -> int:
    """`never`: codes of remarks of the CUDA compiler that are errors here."""
    if why and (kind != "cuda" or after is not None):
        raise refused("--why", "reasons stand in CUDA text: add `--emit cuda`")
    if after is not None:
        if never:
            raise refused("--after", "behind a pass nothing has been compiled that could spill or be serialised")
        return _show_after(session, file, kind, after, out)
    made = compile_session(session, file, lineinfo=lineinfo, verify=verify)
    if kind is None or never:
        with session.console.busy("compiling the CUDA text"):
            _report(session, made, never)
    if kind is not None:
        if kind == "cubin" and out is None:
            output.emit(session.console, made, kind, b"", out)  # refused before the compiler runs
        from croq.emit import emit_cuda

        content = (
            emit_cuda(made.module.kernels, lineinfo=lineinfo, why=True)
            if why
            else output.stage(made, kind, session.console.json)
        )
        output.emit(session.console, made, kind, content, out)
        return 0
    paths = output.write_all(made, Path(out)) if out is not None else []
    output.summary(session.console, made, paths)
    return 0


def _report(session: Session, made: Stages, never: Collection[str]) -> None:
    """Remarks of the CUDA compiler. Raises CompileError where some are errors, before anything is shown or written."""
    found = [replace(d, severity="error") if d.code in never else d for d in made.remarks]
    if any(d.severity == "error" for d in found):
        raise CompileError(found)
    session.console.diagnostics(found)


def _show_after(session: Session, file: str, kind: str | None, after: str, out: str | None) -> int:
    """`--after PASS` stops there, so what later passes would find is not reported."""
    from croq.compiler import ir_after

    if kind not in (None, "ir"):
        raise refused("--after", f"after a pass there is IR to print, no {kind}")
    made = ir_after(session.load(file), session.settings(), after)
    return _show(session, made, out)


def resume_and_show(session: Session, file: str, passes: str, out: str | None) -> int:
    """Printed IR in, printed IR out."""
    from croq.compiler import resume

    made = resume(session.load(file), [name.strip() for name in passes.split(",") if name.strip()])
    return _show(session, made, out)


def _show(session: Session, made: PartialIR, out: str | None) -> int:
    session.console.diagnostics(made.warnings)
    if out is None:
        session.console.result(made.text)
    else:
        output.write(Path(out), made.text)
        session.console.note(f"wrote {out}")
    return 0


def show_plan(session: Session, file: str, json: bool) -> int:
    from croq.plan import render, to_json

    made = compile_session(session, file)
    session.console.result(to_json(made.plan) if json or session.console.json else render(made.plan))
    return 0


def check_and_show(session: Session, file: str, *, ptx: bool = False) -> int:
    from croq.protocol import judge

    console = session.console
    source = session.load(file)
    judgements: list[Judgement] = []
    agreements: list[Agreement] = []
    with console.busy(f"checking {source.name}"):
        try:
            made = compile_file(source, session.settings())
            judgements += judge(made.module.kernels, made.written, together=True)
            found = [*made.warnings, *(d for judgement in judgements for d in judgement.diagnostics())]
            found += _own_faults(source, judgements)
        except CompileError as error:
            found = list(error.diagnostics)
    if ptx and not any(d.severity == "error" for d in found):
        with console.busy("executing the emitted code"):
            agreements, differing = _agreements(made)
        found += differing
    console.diagnostics(found)
    errors = sum(d.severity == "error" for d in found)
    warnings = sum(d.severity == "warning" for d in found)
    if console.json:
        verdicts = [
            {"kernel": j.kernel, "source": str(j.source), "lowered": str(j.lowered), "assumes": list(j.assumes)}
            for j in judgements
        ]
        console.data(
            {"file": source.name, "ok": errors == 0, "errors": errors, "warnings": warnings, "verdicts": verdicts}
            | ({"ptx": [a.to_json() for a in agreements]} if ptx else {})
        )
    else:
        verdict = "ok" if not errors else f"{errors} error{'s' if errors > 1 else ''}"
        more = f", {warnings} warning{'s' if warnings > 1 else ''}" if warnings else ""
        console.summary(f"{source.name}: {verdict}{more}")
        for judgement in judgements:
            console.summary(f"  {judgement}")
            for taken in judgement.assumes:
                console.summary(f"    assumes that {taken}")
        for agreement in agreements:
            console.summary(f"  {agreement}")
    return 1 if errors else 0


def _own_faults(source: SourceFile, judgements: Iterable[Judgement]) -> list[Diagnostic]:
    """Where the verifier itself has failed."""
    bugs = [bug for judgement in judgements for bug in judgement.bugs]
    if not bugs:
        return []
    from croq.cli.faults import own_fault

    return [own_fault(bug, source.text) for bug in bugs]


def _agreements(made: Stages) -> tuple[list[Agreement], list[Diagnostic]]:
    """Every function's emitted code held against its lowered program, and what is wrong with it."""
    from croq.agreement import agree
    from croq.kernel import Kernel

    try:
        agreements = [agree(kernel) for kernel in Kernel(made).kernels.values()]
    except CompileError as error:
        return [], list(error.diagnostics)
    return agreements, [fault for agreement in agreements for fault in agreement.faults]
