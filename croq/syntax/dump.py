"""The syntax tree as text, for `--emit ast`: one node a line, its children indented below it."""

from __future__ import annotations

from dataclasses import fields

from croq.source import Span
from croq.syntax import ast

_INDENT = "  "
_MAX_TEXT = 60


def dump(program: ast.Program) -> str:
    """Deterministic text of `program`: `Kind field=value @line`, then each child under the name of its field."""
    lines: list[str] = []
    _node(program, "", 0, lines)
    return "\n".join(lines) + "\n"


def _node(node: ast.Node, label: str, depth: int, lines: list[str]) -> None:
    simple: list[str] = []
    nested: list[tuple[str, ast.Node]] = []
    for field in fields(node):
        if not field.metadata.get("shown", True):
            continue
        value = getattr(node, field.name)
        if isinstance(value, ast.Node):
            nested.append((field.name, value))
        elif isinstance(value, tuple) and value and all(isinstance(item, ast.Node) for item in value):
            nested += [(f"{field.name}[{i}]", item) for i, item in enumerate(value)]
        elif not isinstance(value, Span):
            simple.append(f"{field.name}={_value(value)}")
    prefix = f"{label}: " if label else ""
    parts = [prefix + type(node).__name__, *simple, f"@{node.span.line}"]
    lines.append(_INDENT * depth + " ".join(parts))
    for name, child in nested:
        _node(child, name, depth + 1, lines)


def _value(value: object) -> str:
    if isinstance(value, str):
        shown = value if len(value) <= _MAX_TEXT else value[:_MAX_TEXT] + "..."
        return repr(shown)
    return repr(value)
