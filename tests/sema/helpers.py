"""Running the analysis on small programs."""

from __future__ import annotations

from textwrap import dedent, indent

from croq.diagnostics import CompileError, Diagnostic, Sink
from croq.sema import Model, analyse
from croq.source import SourceFile
from croq.syntax import parse_program

MARK = "//!"
PARAMS = "global f16 [M, K] a, global f16 [N, K] b, global f32 [M, N] c, global s32 [T] list, int n, float x"


def function(body: str, params: str = PARAMS) -> str:
    """A program of one function with host-level code `body`."""
    return f"__co__ void f({params}) {{\n{indent(dedent(body), '  ')}\n}}\n"


def block(body: str, params: str = PARAMS) -> str:
    """A program whose one kernel has `body` at block level."""
    inner = indent(dedent(body), "  ")
    return function(f"parallel {{bm, bn}} by [cdiv(M, 64), cdiv(N, 64)] : block {{\n{inner}\n}}", params)


def warpgroups(body: str, before: str = "", count: int = 2) -> str:
    """`body` inside `parallel p by COUNT : group-4, t by 128 : thread`, `before` in front of it."""
    inner = indent(dedent(body), "  ")
    return block(f"{dedent(before)}\nparallel p by {count} : group-4, t by 128 : thread {{\n{inner}\n}}")


def analysed(text: str) -> tuple[Model | None, list[Diagnostic]]:
    """The model, unless the program is wrong, and what was reported."""
    sink = Sink()
    try:
        program = parse_program(SourceFile("test.co", text), {}, sink)
        return analyse(program, sink), sink.diagnostics
    except CompileError as fault:
        return None, list(fault.diagnostics)


def marked_line(text: str) -> int:
    """The 1-based line that carries the mark."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if MARK in line)
