"""The stages of one text: each made once, when it is first asked for, out of the one before.

    file -> program -> model -> tile IR -> (passes) -> lowered IR, plan, CUDA -> PTX, cubin -> SASS

Nothing else says in which order they come. What was lowered before under the same settings is recalled (croq.memo);
stages in front of the IR are then made when somebody asks for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from croq import memo
from croq.diagnostics import CompileError, Diagnostic, Sink
from croq.memo import Lowered
from croq.settings import Settings
from croq.source import SourceFile, Span
from croq.texts import stem

if TYPE_CHECKING:  # for what recalled compilations do not import
    from croq.driver.nvrtc import Compiled as Image
    from croq.ir.objects import Kernel, Module
    from croq.sema import Model
    from croq.syntax import ast

Observer = Callable[[str, "Kernel"], None]  # called with the name of each pass and the kernel that it changed
AS_WRITTEN = "participants"  # the last pass that decides nothing about barriers


@dataclass(eq=False)
class Stages:
    """`seconds` holds the time of each stage, in order of execution. Every stage raises CompileError with all that it
    found. `observer` is called after "build" and after each pass; with one, nothing is recalled."""

    file: SourceFile
    settings: Settings = field(default_factory=Settings)
    observer: Observer | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    sink: Sink = field(default_factory=Sink)  # what program and model reported

    # --------------------------------------------------------------------------------------------------- in front of IR
    @cached_property
    def program(self) -> ast.Program:
        """The syntax tree."""
        from croq.syntax import parse_program

        with timed(self.seconds, "parse"):
            program = parse_program(self.file, dict(self.settings.defines), self.sink)
            self.sink.check()
        return program

    @cached_property
    def model(self) -> Model:
        """Names and types of the syntax tree."""
        from croq.sema import analyse

        program = self.program
        with timed(self.seconds, "analyse"):
            model = analyse(program, self.sink, self.settings.target)
            self.sink.check()
        return model

    def tile(self, sink: Sink) -> Module:
        """The IR before any pass, made anew: passes change it."""
        from croq.ir.build import build
        from croq.ir.verify import verify

        model = self.model
        with timed(self.seconds, "build"):
            module = build(model, sink)
            sink.check()
            for kernel in module.kernels:
                verify(kernel, "tile")
        return module

    def after(self, name: str, sink: Sink | None = None) -> Module:
        """The IR behind the pass `name`, made anew; what later passes would find is not reported."""
        from croq.passes import pipeline

        sink = sink or Sink()
        module = self.tile(sink)
        pipeline.run(module, sink, after=name)
        return module

    def written(self, name: str) -> Kernel:
        """A kernel before anything is decided about barriers, with the threads of each operation."""
        return next(kernel for kernel in self.after(AS_WRITTEN).kernels if kernel.name == name)

    # ---------------------------------------------------------------------------------------------------------- lowered
    @cached_property
    def lowered(self) -> Lowered:
        key = memo.key_of(self.file, self.settings)
        if self.observer is None:
            with timed(self.seconds, "recall"):
                found = memo.load(key, self.file, lambda: Stages(self.file, self.settings)._lower().module)
            if found is not None:
                return found
        lowered = self._lower()
        memo.store(key, lowered)
        return lowered

    def _lower(self) -> Lowered:
        from croq.emit import emit_cuda
        from croq.passes import pipeline
        from croq.plan import plan

        model, sink = self.model, Sink(list(self.sink.diagnostics))
        module = self.tile(sink)
        if self.observer is not None:
            for kernel in module.kernels:
                self.observer("build", kernel)
        with timed(self.seconds, "passes"):
            pipeline.run(module, sink, observer=self.observer)
            sink.check()
        if self.settings.verify:
            self._verify(module, sink)
        with timed(self.seconds, "emit"):
            cuda = emit_cuda(module.kernels, lineinfo=self.settings.lineinfo) if module.kernels else ""
        functions = {f.function.name: [kernel.name for kernel in f.kernels] for f in model.functions if f.kernels}
        entries = {kernel.name: kernel.entry_name for kernel in module.kernels}
        return Lowered(functions, entries, tuple(sink.diagnostics), plan(module.kernels), cuda, lambda: module)

    def _verify(self, module: Module, sink: Sink) -> None:
        from croq.protocol import validate

        with timed(self.seconds, "verify"):
            for fault in (fault for kernel in module.kernels for fault in validate(kernel, self.written)):
                sink.add(fault)
            sink.check()

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

    @property
    def plan(self) -> list[dict[str, Any]]:
        """What was derived, an object a device kernel (docs/plan.md)."""
        return self.lowered.plan

    @property
    def cuda(self) -> str:
        """The emitted CUDA; empty for a program that launches nothing."""
        return self.lowered.cuda

    # ------------------------------------------------------------------------------------------------------------- text
    @cached_property
    def ast(self) -> str:
        """The syntax tree as indented text."""
        from croq.syntax.dump import dump

        return dump(self.program)

    @cached_property
    def tile_ir(self) -> str:
        """The IR before any pass."""
        return _printed(self.tile(Sink()))

    @property
    def ir(self) -> str:
        """The IR after all passes."""
        return self.lowered.ir

    def ir_after(self, name: str) -> str:
        """The IR after the pass `name`."""
        return _printed(self.after(name))

    def source_line(self, emitted: int) -> int | None:
        """The line of the source that a line of the emitted file came from (both from 1); None: of none."""
        from croq.emit import source_lines

        if self.settings.lineinfo:  # `#line` directives have told the CUDA compiler so already
            return emitted
        lines = source_lines(self.module.kernels)
        return lines[emitted - 1] if 0 < emitted <= len(lines) else None

    # -------------------------------------------------------------------------------------------------- CUDA's compiler
    @property
    def cuda_name(self) -> str:
        return f"{stem(self.file)}.cu"

    @cached_property
    def image(self) -> Image:
        """The cubin with its log and resource usage. Raises CompileError E-3010 and EnvironmentFault E-300x."""
        from croq.driver.cache import compile_cached

        cuda, how = self.cuda, self.settings
        with timed(self.seconds, "nvrtc"), self.placing():
            return compile_cached(cuda, arch=how.arch, options=how.options, lineinfo=how.lineinfo, name=self.cuda_name)

    @cached_property
    def ptx(self) -> str:
        from croq.driver.nvrtc import compile_ptx

        arch = self.settings.arch.replace("sm_", "compute_")
        with self.placing():
            return compile_ptx(self.cuda, arch=arch, options=self.settings.options, name=self.cuda_name)

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Errors of the emitted CUDA get their places in the `.co` text."""
        try:
            yield
        except CompileError as error:
            from croq.placing import placed  # the emitter, and all that it imports: not for what compiles

            raise placed(self, error) from error

    @property
    def cubin(self) -> bytes:
        return self.image.cubin

    @cached_property
    def sass(self) -> str:
        from croq.driver.disassemble import sass

        return sass(self.cubin, lineinfo=self.settings.lineinfo)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Warnings of every stage that has run; of a watchdog build not the CUDA compiler's, which are none of the
        program's: its registers and its speed are those of another kernel."""
        built = self.settings.watchdog is None and "image" in self.__dict__
        return self.diagnostics + (self.remarks if built else ())

    @cached_property
    def remarks(self) -> tuple[Diagnostic, ...]:
        """What the CUDA compiler says of lost performance, read from the log of the compile, recalled or not."""
        from croq.driver.ptxas_log import parse_warnings

        def place(line: int) -> Span | None:
            from croq.placing import span_of_ptx  # as above; and it compiles to PTX, which no clean kernel waits for

            return span_of_ptx(self, line)

        return parse_warnings(self.image.log, place)

    def watched(self, seconds: float) -> Stages:
        """The same IR, to be built with a watchdog of `seconds`. Raises CompileError E-4200."""
        made = Stages(self.file, replace(self.settings, watchdog=seconds))
        made.__dict__["lowered"] = self.lowered
        return made


def _printed(module: Module) -> str:
    from croq.ir.printer import print_module

    return print_module(module)


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Record how long the block took under `stage`, also when it fails. A stage has the time of its first making: who
    makes one anew, as the verifier does, takes that time himself."""
    started = time.perf_counter()
    try:
        yield
    finally:
        seconds.setdefault(stage, time.perf_counter() - started)
