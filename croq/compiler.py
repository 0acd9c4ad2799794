"""The compiler as one flat pipeline: text in, hardware IR and CUDA out; the cubin when it is first asked for.

`compile_file` is the only place where the order of the stages is written. Each stage reports into one sink, is timed,
and stops the pipeline when it found an error. What comes after the IR is made on demand.
"""

from __future__ import annotations

import difflib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from croq.diagnostics import CompileError, CroqError, Diagnostic, Sink, make
from croq.resources import resource
from croq.source import SourceFile, Span
from croq.target import DEFAULT, TARGETS, Target

if TYPE_CHECKING:
    from croq.driver.nvrtc import Compiled as Image
    from croq.ir.objects import Kernel, Module
    from croq.memo import Lowered
    from croq.sema import Model
    from croq.syntax import ast

SUFFIX = ".co"
MAX_NAME = 255  # bytes of a file's name, on every file system

Observer = Callable[[str, "Kernel"], None]  # called with the name of each pass and the kernel that it changed
_CUDA_PLACE = re.compile(r"at [^:]+\.cu:(\d+)")  # the note of a message of the CUDA compiler
_MACRO = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class Settings:
    """Everything beside the text that shapes the result. Two equal settings and texts give one cubin."""

    defines: tuple[tuple[str, str], ...] = ()
    arch: str = DEFAULT.name
    lineinfo: bool = False
    verify: bool = False  # hold the lowered kernels against the protocol verifier (croq.protocol); shapes no text
    watchdog: float | None = None  # seconds after which a blocking wait reports and traps (croq.driver.watchdog)

    def __post_init__(self) -> None:
        if self.watchdog is not None and (fault := _watchdog().fault(self.watchdog)) is not None:
            raise CompileError([fault])
        if self.arch not in TARGETS:
            hint = f"use one of {', '.join(TARGETS)}"
            raise CompileError([make("E-3100", None, f"croq makes no code for `{self.arch}`", hint=hint)])

    @staticmethod
    def of(
        defines: Mapping[str, Any] | None = None,
        *,
        arch: str = DEFAULT.name,
        lineinfo: bool = False,
        verify: bool = False,
        watchdog: float | None = None,
    ) -> Settings:
        """Settings from plain values: a macro may be a string, a number, or a bool (1 or 0)."""
        if not isinstance(defines or {}, Mapping):
            raise TypeError(f"`defines` maps names to values, and is a `{type(defines).__name__}`")
        texts = {_macro_name(name): _macro_text(value) for name, value in (defines or {}).items()}
        return Settings(tuple(sorted(texts.items())), arch, lineinfo, verify, watchdog)

    @property
    def target(self) -> Target:
        return TARGETS[self.arch]

    @property
    def options(self) -> tuple[str, ...]:
        """What NVRTC is told beside the text and the architecture."""
        return () if self.watchdog is None else (_watchdog().option(self.watchdog),)


@dataclass(eq=False)
class Compilation:
    """What one source text became. `seconds` holds the time of each stage, in order of execution."""

    file: SourceFile
    settings: Settings
    lowered: Lowered
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def module(self) -> Module:
        return self.lowered.module

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self.lowered.diagnostics

    @cached_property
    def functions(self) -> dict[str, list[Kernel]]:
        """The `__co__` functions that launch something, each with the kernel of every launch, in order."""
        made = {kernel.name: kernel for kernel in self.module.kernels}
        return {name: [made[kernel] for kernel in kernels] for name, kernels in self.lowered.functions.items()}

    @cached_property
    def program(self) -> ast.Program:
        """The syntax tree, made again: compilation keeps the IR only."""
        from croq.syntax import parse_program

        return parse_program(self.file, dict(self.settings.defines), Sink())

    @cached_property
    def model(self) -> Model:
        """Names and types of the syntax tree, made again."""
        from croq.sema import analyse

        return analyse(self.program, Sink(), self.settings.target)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Warnings of every stage that has run; of a watchdog build not the CUDA compiler's, which are none of the
        program's: its registers and its speed are those of another kernel."""
        image = self.__dict__.get("image") if self.settings.watchdog is None else None
        return self.diagnostics + (image.warnings if image is not None else ())

    def watched(self, seconds: float) -> Compilation:
        """The same IR, to be built with a watchdog of `seconds`. Raises CompileError E-4200."""
        return replace(self, settings=replace(self.settings, watchdog=seconds))

    @cached_property
    def ast(self) -> str:
        """The syntax tree as indented text."""
        from croq.syntax.dump import dump

        return dump(self.program)

    @cached_property
    def tile_ir(self) -> str:
        """The IR before any pass."""
        return lower_until(self.model, "")

    @property
    def ir(self) -> str:
        """The IR after all passes."""
        return self.lowered.ir

    def ir_after(self, name: str) -> str:
        """The IR after the pass `name`."""
        return lower_until(self.model, name)

    @property
    def plan(self) -> list[dict[str, Any]]:
        """What was derived, an object a device kernel (docs/plan.md)."""
        return self.lowered.plan

    @property
    def cuda(self) -> str:
        """The emitted CUDA; empty for a program that launches nothing."""
        return self.lowered.cuda

    def source_line(self, emitted: int) -> int | None:
        """The line of the source that a line of the emitted file came from (both from 1); None: of none."""
        from croq.emit import source_lines

        if self.settings.lineinfo:  # `#line` directives have told the CUDA compiler so already
            return emitted
        lines = source_lines(self.module.kernels)
        return lines[emitted - 1] if 0 < emitted <= len(lines) else None

    @cached_property
    def image(self) -> Image:
        """The cubin with its log and resource usage. Raises CompileError E-3010 and EnvironmentFault E-300x."""
        from croq.driver.cache import compile_cached

        cuda = self.cuda
        with timed(self.seconds, "nvrtc"):
            try:
                how = self.settings
                return compile_cached(cuda, arch=how.arch, options=how.options, lineinfo=how.lineinfo, name=self._cu)
            except CompileError as error:
                raise self.placed(error) from error

    def placed(self, error: CompileError) -> CompileError:
        """Errors of the emitted CUDA with their places in the `.co` text, and a word on headers that are not read."""
        return self._told_of_headers(self._located(error))

    def _located(self, error: CompileError) -> CompileError:
        """The compiler's errors with their places in the `.co` text: what it refuses can only be the user's C++."""
        from croq.driver.nvrtc import compile_cuda
        from croq.emit import emit_cuda

        found = [self._by_text(d) for d in error.diagnostics]
        if all(d.span is not None for d in found):
            return CompileError(found)
        origin = replace(self.file, name=Path(self.file.name).name)  # what `#line` calls it
        try:
            text = emit_cuda(self.module.kernels, lineinfo=True)
            compile_cuda(text, arch=self.settings.arch, name=self._cu, origins=(origin,))
        except CompileError as again:  # the same messages in the same order, of lines that came from the `.co` file
            located = [replace(d, span=d.span and replace(d.span, file=self.file)) for d in again.diagnostics]
            if [d.message for d in located] == [d.message for d in found]:
                located = [d if d.span is not None else by for d, by in zip(located, found, strict=True)]
            return CompileError(located)
        return CompileError(found)

    def _told_of_headers(self, error: CompileError) -> CompileError:
        """With a word on the headers that the file includes and nobody reads: what is missing may stand there."""
        unread = [i.header for i in self.program.outside.includes if not i.is_of_host]
        if not unread:
            return error
        note = f"croq does not read {', '.join(unread)}: what they declare is unknown to device code"
        return CompileError([replace(d, notes=(*d.notes, note)) for d in error.diagnostics])

    def _by_text(self, fault: Diagnostic) -> Diagnostic:
        """With the place of a line of device text, emitted as it was written, if the file has it only once."""
        match = next((m for note in fault.notes if (m := _CUDA_PLACE.match(note))), None)
        if fault.span is not None or match is None:
            return fault
        emitted = "".join(self.cuda.splitlines()[int(match[1]) - 1 :][:1]).strip()
        start = self.file.text.find(emitted)
        if not emitted or start < 0 or self.file.text.find(emitted, start + 1) >= 0:
            return fault
        span = Span(self.file, start, start + len(emitted))
        return replace(fault, span=span, notes=tuple(n for n in fault.notes if _CUDA_PLACE.match(n) is None))

    @property
    def _cu(self) -> str:
        return f"{stem(self.file)}.cu"

    @property
    def cubin(self) -> bytes:
        return self.image.cubin

    @cached_property
    def ptx(self) -> str:
        from croq.driver.nvrtc import compile_ptx

        arch = self.settings.arch.replace("sm_", "compute_")
        try:
            return compile_ptx(self.cuda, arch=arch, options=self.settings.options, name=self._cu)
        except CompileError as error:
            raise self.placed(error) from error

    @cached_property
    def sass(self) -> str:
        from croq.driver.disassemble import sass

        return sass(self.cubin, lineinfo=self.settings.lineinfo)


def compile_file(file: SourceFile, settings: Settings, observer: Observer | None = None) -> Compilation:
    """Source text to hardware IR and CUDA. Raises CompileError with everything that the first failing stage found.

    `observer` is called after `build` (as "build") and after each pass; without one, a text that was compiled before
    under the same settings is recalled from the cache (croq.memo).
    """
    from croq import memo

    seconds: dict[str, float] = {}
    key = memo.key_of(file, settings)
    lowered = None
    if observer is None:
        with timed(seconds, "recall"):
            lowered = memo.load(key, file, lambda: _lower(file, settings, None, {}).module)
    if lowered is None:
        lowered = _lower(file, settings, observer, seconds)
        memo.store(key, lowered)
    return Compilation(file, settings, lowered, seconds)


def _lower(file: SourceFile, settings: Settings, observer: Observer | None, seconds: dict[str, float]) -> Lowered:
    """The stages in their order."""
    from croq.emit import emit_cuda
    from croq.ir.build import build
    from croq.ir.verify import verify
    from croq.memo import Lowered
    from croq.passes import pipeline
    from croq.plan import plan
    from croq.protocol import validate
    from croq.sema import analyse
    from croq.syntax import parse_program

    sink = Sink()
    with timed(seconds, "parse"):
        program = parse_program(file, dict(settings.defines), sink)
        sink.check()
    with timed(seconds, "analyse"):
        model = analyse(program, sink, settings.target)
        sink.check()
    with timed(seconds, "build"):
        module = build(model, sink)
        sink.check()
        for kernel in module.kernels:
            verify(kernel, "tile")
            if observer is not None:
                observer("build", kernel)
    with timed(seconds, "passes"):
        pipeline.run(module, sink, observer=observer)
        sink.check()
    if settings.verify:
        with timed(seconds, "verify"):
            for fault in (fault for kernel in module.kernels for fault in validate(model, kernel)):
                sink.add(fault)
            sink.check()
    with timed(seconds, "emit"):
        cuda = emit_cuda(module.kernels, lineinfo=settings.lineinfo) if module.kernels else ""
    functions = {f.function.name: [kernel.name for kernel in f.kernels] for f in model.functions if f.kernels}
    entries = {kernel.name: kernel.entry_name for kernel in module.kernels}
    return Lowered(functions, entries, tuple(sink.diagnostics), plan(module.kernels), cuda, lambda: module)


@dataclass(frozen=True)
class PartialIR:
    """The printed IR after one pass, and the warnings on the way there."""

    text: str
    warnings: tuple[Diagnostic, ...]


def ir_after(file: SourceFile, settings: Settings, name: str) -> PartialIR:
    """The IR of a text after the pass `name`; what later passes would find is not reported."""
    from croq.sema import analyse
    from croq.syntax import parse_program

    _known_pass(name)
    sink = Sink()
    program = parse_program(file, dict(settings.defines), sink)
    sink.check()
    model = analyse(program, sink, settings.target)
    sink.check()
    return PartialIR(lower_until(model, name, sink), tuple(sink.warnings))


def resume(file: SourceFile, names: Sequence[str]) -> PartialIR:
    """Printed IR, read back and lowered by these passes alone, in their order in the pipeline.

    Raises CompileError: E-2190 for text that is no IR, E-3103 for an unknown pass, E-3106 for IR that is not sound, or
    that lacks what a pass needs, and what the passes find.
    """
    from croq.ir.parser import parse_module
    from croq.ir.printer import print_module
    from croq.passes import pipeline

    for name in names:
        _known_pass(name)
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


def lower_until(model: Model, name: str, sink: Sink | None = None) -> str:
    """The printed IR after the pass `name` ("" is before all). Raises CompileError E-3103 for an unknown name."""
    from croq.ir.build import build
    from croq.ir.printer import print_module
    from croq.passes import pipeline

    if name:
        _known_pass(name)
    sink = sink or Sink()
    module = build(model, sink)
    sink.check()
    if name:
        pipeline.run(module, sink, after=name)
        sink.check()
    return print_module(module)


def _known_pass(name: str) -> None:
    known = list(pass_names())
    if name not in known:
        notes = [f"the passes are, in order: {', '.join(known)}"]
        raise CompileError([make("E-3103", None, f"there is no pass `{name}`", notes=notes, hint=close(name, known))])


def pass_names() -> Sequence[str]:
    """Names of the passes, in pipeline order."""
    from croq.passes import pipeline

    return pipeline.names()


# --------------------------------------------------------------------------------------------------------------- input
def load(source: str | Path) -> SourceFile:
    """The text of a path, of a shipped kernel by bare name (`v4`), or `source` itself when it is program text.

    A string is program text when it has a line end or the word `__co__`. Raises CompileError E-2001..E-2006, E-2011 for
    an empty string; TypeError for what is neither text nor a path.
    """
    from croq.syntax import load_source, source_text

    if not isinstance(source, (str, os.PathLike)):
        hint = "; decode it first: `source.decode()`" if isinstance(source, (bytes, bytearray)) else ""
        raise TypeError(f"a path or program text is needed, not a `{type(source).__name__}`{hint}")
    if isinstance(source, str) and ("\n" in source or "__co__" in source):
        return source_text("<source>", source)
    name = os.fspath(source)
    if not isinstance(name, str):
        raise TypeError(f"a path of type `str` is needed, not `{type(name).__name__}`")
    if not name.strip():
        hint = "give the path of a `.co` file, the name of a shipped kernel, or the program's text"
        raise CompileError([make("E-2011", None, "the path is empty", hint=hint)])
    if _MACRO.match(name) is None or len(name) > MAX_NAME or Path(name).exists():
        return _file(name)
    if name not in shipped_kernels():
        known = shipped_kernels()
        notes = [f"kernels that come with croq: {', '.join(known)}"]
        raise CompileError([make("E-2001", None, f"there is no file `{name}`", notes=notes, hint=close(name, known))])
    shipped = load_source(str(resource("kernels", f"{name}{SUFFIX}")))
    return source_text(f"{name}{SUFFIX}", shipped.text)


def _file(name: str) -> SourceFile:
    """The text of a path; a text that was taken for one is told so."""
    from croq.syntax import load_source

    try:
        return load_source(name)
    except CompileError as error:
        if not set(name) & set("(){};"):
            raise
        hint = "if this is program text: it needs a `__co__` function"
        raise CompileError([replace(d, hint=d.hint or hint) for d in error.diagnostics]) from None


def shipped_kernels() -> list[str]:
    """Bare names of the kernels that come with croq."""
    return sorted(path.stem for path in resource("kernels").glob(f"*{SUFFIX}"))


def stem(file: SourceFile) -> str:
    """What files made from this one are called."""
    return Path(file.name).stem if not file.name.startswith("<") else "kernel"


def close(name: str, known: Sequence[str]) -> str | None:
    found = difflib.get_close_matches(name, known, n=1)
    return f"did you mean `{found[0]}`?" if found else None


def _watchdog() -> ModuleType:
    """Imported when somebody asks for it: most compilations need nothing of the driver."""
    from croq.driver import watchdog

    return watchdog


def _macro_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a macro is a `str`, not a `{type(name).__name__}`")
    return name


def _macro_text(value: Any) -> str:
    """How a macro's value is written. Raises CompileError E-2009 for what is no line of text, else TypeError."""
    if not isinstance(value, (str, int, float)) and not hasattr(value, "__index__"):
        raise TypeError(f"the value of a macro is text or a number, not a `{type(value).__name__}`")
    text = str(int(value)) if isinstance(value, bool) else str(value)
    if not text.isprintable():
        hint = "a value is one line of printable text"
        raise CompileError([make("E-2009", None, f"{text!r} cannot be the value of a macro", hint=hint)])
    return text


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Record how long the block took under `stage`, also when it fails."""
    started = time.perf_counter()
    try:
        yield
    finally:
        seconds[stage] = time.perf_counter() - started
