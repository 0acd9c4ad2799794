"""Text in, stages out: what the command line and the Python API ask of the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from croq.diagnostics import CompileError, CroqError, Diagnostic, Sink, make
from croq.settings import Settings
from croq.source import SourceFile
from croq.stages import Observer, Stages


def compile_file(file: SourceFile, settings: Settings, observer: Observer | None = None) -> Stages:
    """Source text to hardware IR and CUDA. Raises CompileError with everything that the first failing stage found."""
    made = Stages(file, settings, observer)
    _ = made.lowered
    return made


@dataclass(frozen=True)
class PartialIR:
    """The printed IR after one pass, and the warnings on the way there."""

    text: str
    warnings: tuple[Diagnostic, ...]


def ir_after(file: SourceFile, settings: Settings, name: str) -> PartialIR:
    """The IR of a text after the pass `name`; what later passes would find is not reported."""
    from croq.ir.printer import print_module

    stages, sink = Stages(file, settings), Sink()
    module = stages.after(name, sink)
    return PartialIR(print_module(module), (*stages.sink.warnings, *sink.warnings))


def resume(file: SourceFile, names: Sequence[str]) -> PartialIR:
    """Printed IR, read back and lowered by these passes alone, in their order in the pipeline.

    Raises CompileError: E-2190 for text that is no IR, E-3103 for an unknown pass, E-3106 for IR that is not sound, or
    that lacks what a pass needs, and what the passes find.
    """
    from croq.ir.parser import parse_module
    from croq.ir.printer import print_module
    from croq.passes import pipeline

    pipeline.check_names(names)
    module, sink = parse_module(file.text, file.name), Sink()
    try:
        pipeline.run(module, sink, only=names)
    except CompileError:
        raise
    except Exception as error:  # an invariant between passes, which text from outside need not have
        reason = error.diagnostics[0].message if isinstance(error, CroqError) else f"{type(error).__name__}: {error}"
        hint = "docs/passes.md says what each pass needs; start from IR that an earlier pass has printed"
        message = f"`{file.name}` is no IR for {', '.join(f'`{name}`' for name in names)}"
        raise CompileError([make("E-3106", None, message, notes=[reason], hint=hint)]) from error
    return PartialIR(print_module(module), tuple(sink.warnings))


def pass_names() -> Sequence[str]:
    """Names of the passes, in pipeline order."""
    from croq.passes import pipeline

    return pipeline.names()
