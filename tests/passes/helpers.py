"""Program text to a lowered kernel in one call, and the facts that tests ask of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from croq.diagnostics import CompileError, Sink
from croq.ir.build import build
from croq.ir.core import Block, Op
from croq.ir.hw import Section
from croq.ir.objects import Buffer, Event, Kernel, Module
from croq.passes import pipeline
from croq.sema import analyse
from croq.source import SourceFile
from croq.syntax import parse_program

MARK = "//!"  # stands on the line that an expected diagnostic points at

_OpT = TypeVar("_OpT", bound=Op)


def lower(text: str, defines: Mapping[str, object] | None = None, *, after: str | None = None) -> Kernel:
    """The first kernel of a program, after all passes or after one. Raises CompileError."""
    return _lower(text, defines, after, Sink()).kernels[0]


def _lower(text: str, defines: Mapping[str, object] | None, after: str | None, sink: Sink) -> Module:
    program = parse_program(SourceFile("test.co", text), {k: str(v) for k, v in (defines or {}).items()}, sink)
    sink.check()
    model = analyse(program, sink)
    sink.check()
    module = build(model, sink)
    sink.check()
    pipeline.run(module, sink, after=after)
    return module


def codes(text: str, defines: Mapping[str, object] | None = None) -> list[str]:
    """Codes of everything that is reported."""
    sink = Sink()
    with suppress(CompileError):
        _lower(text, defines, None, sink)
    return [d.code for d in sink.diagnostics]


def reported(text: str, defines: Mapping[str, object] | None = None) -> tuple[str, str]:
    """Code and message of the only error, or else warning. It must point at the marked line, and say what to do."""
    sink = Sink()
    with suppress(CompileError):
        _lower(text, defines, None, sink)
    faults = [d for d in sink.diagnostics if d.severity == "error"] or sink.diagnostics
    assert len(faults) == 1, [f"{d.code} {d.span}: {d.message}" for d in faults]
    (found,) = faults
    marked = [n for n, line in enumerate(text.splitlines(), 1) if MARK in line]
    assert found.span is not None and [found.span.line] == marked, (found.code, str(found.span), marked)
    assert found.hint or found.notes, found.code
    return found.code, found.message


# ------------------------------------------------------------------------------------------------------------- programs
def program(body: str, params: str = "global f16 [M, K] a, global f16 [N, K] b, global f32 [M, N] c") -> str:
    """One block of one CTA around `body`."""
    declared = "__device__ float f(...);\n__device__ void use(...);\n" if "call " in body else ""
    return declared + f"__co__ void k({params}) {{\n parallel bm by 1 : block {{\n{body}\n }}\n}}\n"


def warpgroups(count: int, body: str, before: str = "", **more: str) -> str:
    """`before` at CTA level, then `body` in `count` warpgroups: p is the warpgroup, t the thread inside it."""
    inner = f"parallel p by {count} : group-4, t by 128 : thread {{\n{body}\n}}"
    return program(f"{before}\n{inner}", **more)


# ---------------------------------------------------------------------------------------------------------------- facts
def every(scope: Kernel | Block | Op, kind: type[_OpT]) -> list[_OpT]:
    """The operations of one class, in program order, at any depth."""
    return [op for op in _walk(scope) if isinstance(op, kind)]


def _walk(scope: Kernel | Block | Op) -> Iterator[Op]:
    if isinstance(scope, Op):
        for region in scope.regions():
            yield from region.walk()
    else:
        yield from scope.walk()


def names(scope: Kernel | Block | Op, *prefixes: str) -> list[str]:
    """Names of operations in program order at any depth, of those that begin with one of the prefixes."""
    return [op.NAME for op in _walk(scope) if op.NAME.startswith(prefixes)]


def role(kernel: Kernel, label: str) -> Section:
    return next(op for op in every(kernel, Section) if op.label == label)


def event(kernel: Kernel, name: str) -> Event:
    return next(e for e in kernel.events if e.name == name)


def buffer(kernel: Kernel, name: str) -> Buffer:
    return next(b for b in kernel.buffers if b.name == name)


def after_op(scope: Block, op: Op) -> list[Op]:
    """What stands behind `op` in its block."""
    return scope.ops[scope.ops.index(op) + 1 :]


def literal(value: Any) -> Any:
    """The number behind a constant operand; None for anything else."""
    return getattr(value.op, "value", None) if value is not None else None
