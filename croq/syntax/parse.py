"""A file of `.co` text to its syntax tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from croq.diagnostics import Sink
from croq.source import SourceFile, Span
from croq.syntax import ast, codes
from croq.syntax.actions import Actions
from croq.syntax.explain import Context, check_removed, explain
from croq.syntax.grammar import SyntaxFault, kind, parse, tokenize
from croq.syntax.phrases import Token
from croq.syntax.preprocess import DeviceChunk, HostChunk, KernelChunk, preprocess
from croq.syntax.sourcemap import ExpandedText


def parse_program(file: SourceFile, defines: Mapping[str, str], sink: Sink) -> ast.Program:
    """Parse all of `file`; `defines` are the macros of the command line, `{"STAGES": "3"}` (a bare `-D NAME` is "1").

    Faults go to `sink`: at most one syntax error a `__co__` function, which is then missing from the result. Raises
    `CompileError` with all of `sink` where going on is useless. E-2005 when the file holds no `__co__` function.
    """
    items: list[ast.Function | ast.HostText | ast.DeviceText] = []
    kernels = 0
    split = preprocess(file, defines, sink)
    for chunk in split.chunks:
        if isinstance(chunk, HostChunk):
            items.append(ast.HostText(chunk.span, chunk.span.text))
        elif isinstance(chunk, DeviceChunk):
            items.append(ast.DeviceText(chunk.span, chunk.text, chunk.name))
        else:
            kernels += 1
            function = None if chunk.broken else _function(chunk, sink)
            if function is not None:
                items.append(function)
    if kernels == 0 and not sink.failed:
        _no_kernel(file, sink)
    return ast.Program(Span(file, 0, len(file.text)), tuple(items), split.outside)


def _function(chunk: KernelChunk, sink: Sink) -> ast.Function | None:
    expanded = chunk.expanded
    tokens = tokenize(expanded.text, codes.MAX_TOKENS)
    if len(tokens) > codes.MAX_TOKENS:
        end = tokens[-1].end_pos or 0
        message = f"this function is longer than {codes.MAX_TOKENS} tokens"
        sink.error(codes.TOO_LARGE, expanded.span(end, end), message, hint="split it, or use loops")
        return None
    if check_removed(tokens, expanded, sink):
        return None
    try:
        function: ast.Function = parse(tokens, Actions(expanded, sink))
    except SyntaxFault as fault:
        words = [Token(kind(t), t.value, t.start_pos or 0, t.end_pos or 0) for t in tokens]
        explain(Context(words, fault.position, fault.expected, expanded, sink))
        return None
    return function if _shallow(function, expanded, sink) else None


def _shallow(function: ast.Function, expanded: ExpandedText, sink: Sink) -> bool:
    """Whether later stages can walk the tree recursively. Itself it does not recurse."""
    pending: list[tuple[ast.Node, int]] = [(function, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > codes.MAX_NESTING:
            span = Span(node.span.file, node.span.start, min(node.span.end, node.span.start + 1), node.span.expansion)
            message = f"this nests deeper than {codes.MAX_NESTING} levels"
            hint = "split the expression, or the statement, with named parts"
            sink.error(codes.TOO_DEEP, span, message, hint=hint)
            return False
        kind: Any = type(node)
        for name in _children(kind):
            value = getattr(node, name)
            if isinstance(value, ast.Node):
                pending.append((value, depth + 1))
            elif isinstance(value, tuple):
                pending += [(item, depth + 1) for item in value if isinstance(item, ast.Node)]
    return True


@cache
def _children(kind: Any) -> tuple[str, ...]:
    """The fields of a class of nodes that may hold nodes."""
    return tuple(field.name for field in fields(kind) if field.name not in ("span", "name_span"))


def _no_kernel(file: SourceFile, sink: Sink) -> None:
    at = file.text.find("__co__")
    span = Span(file, at, at + len("__co__")) if at >= 0 else Span(file, 0, 0)
    notes = ["this one is in a comment, or in a region that a condition leaves out"] if at >= 0 else []
    message = "there is no `__co__` function in this file"
    sink.error(codes.NO_KERNEL, span, message, notes=notes, hint="write `__co__ void name(...) { ... }`")
