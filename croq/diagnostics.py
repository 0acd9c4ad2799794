"""Coded errors and warnings: what is wrong, where, why, and what to do about it.

Every stage reports through a `Sink`. An error never stops the stage that finds it unless going on would only produce
echoes; `Sink.check()` raises `CompileError` with all that was collected. Codes are stable: `E` and `W` numbers below
2000 are those of the language reference, 2000 and up are croq's own (2xxx passes, 3xxx compiler and target, 4xxx launch
and arguments, 5xxx simulator, 6xxx verifier, 7xxx execution of PTX, 9xxx a fault of croq itself).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from croq.source import Span, display_width

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Label:
    """A second place that is involved, and what it has to do with the fault."""

    span: Span
    message: str


@dataclass(frozen=True, repr=False)
class Diagnostic:
    code: str  # "E-310"
    message: str  # lower-case, no final stop, code in backticks
    span: Span | None = None
    severity: Severity = "error"
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()  # why
    hint: str | None = None  # what to do

    def to_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "span": _span_json(self.span),
            "labels": [{"span": _span_json(label.span), "message": label.message} for label in self.labels],
            "notes": list(self.notes),
            "hint": self.hint,
        }

    def __repr__(self) -> str:
        """What a person reads at a prompt: the rendered text."""
        return self.render()

    def render(self) -> str:
        """Plain text in the shape of rustc: header, quoted lines with carets, notes, hint."""
        lines = [f"{self.severity}[{self.code}]: {self.message}"]
        if self.span is not None:
            lines += _quote(self.span, "^", "")
        for label in self.labels:
            lines += _quote(label.span, "-", label.message)
        lines += [f"  = note: {note}" for note in self.notes]
        if self.hint is not None:
            lines.append(f"  = help: {self.hint}")
        return "\n".join(lines)


class CroqError(Exception):
    """Base of everything croq raises on purpose; carries the diagnostics and the exit status for the command line."""

    exit_status = 1

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n\n".join(d.render() for d in self.diagnostics))


class CompileError(CroqError):
    """The program is wrong."""


class LaunchError(CroqError):
    """The arguments of a launch or a simulation do not fit the kernel."""


class EnvironmentFault(CroqError):
    """The machine lacks something: a GPU, NVRTC, a package, a writable folder."""

    exit_status = 3


class WrongResult(CroqError):
    """A numeric check failed."""

    exit_status = 4


class InternalError(CroqError):
    """croq itself is wrong: an invariant between its own stages does not hold. Never the program's fault."""

    exit_status = 70  # EX_SOFTWARE of sysexits.h


@dataclass
class Sink:
    """Collects diagnostics; identical reports of one fault at one place are kept once."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    limit: int = 20  # errors after which a stage gives up, so that one slip does not fill a screen

    def add(self, diagnostic: Diagnostic) -> None:
        key = (diagnostic.code, diagnostic.span, diagnostic.message)
        if any((d.code, d.span, d.message) == key for d in self.diagnostics):
            return
        self.diagnostics.append(diagnostic)
        if sum(d.severity == "error" for d in self.diagnostics) >= self.limit:
            raise CompileError(self.diagnostics)

    def error(
        self,
        code: str,
        span: Span | None,
        message: str,
        *,
        labels: Iterable[tuple[Span, str]] = (),
        notes: Iterable[str] = (),
        hint: str | None = None,
    ) -> None:
        self.add(make(code, span, message, labels=labels, notes=notes, hint=hint))

    def warning(
        self,
        code: str,
        span: Span | None,
        message: str,
        *,
        labels: Iterable[tuple[Span, str]] = (),
        notes: Iterable[str] = (),
        hint: str | None = None,
    ) -> None:
        self.add(make(code, span, message, severity="warning", labels=labels, notes=notes, hint=hint))

    @property
    def failed(self) -> bool:
        return any(d.severity == "error" for d in self.diagnostics)

    @property
    def warnings(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.severity == "warning"]

    def check(self) -> None:
        """Raise what was collected if any of it is an error."""
        if self.failed:
            raise CompileError(self.diagnostics)


def make(
    code: str,
    span: Span | None,
    message: str,
    *,
    severity: Severity = "error",
    labels: Iterable[tuple[Span, str]] = (),
    notes: Iterable[str] = (),
    hint: str | None = None,
) -> Diagnostic:
    return Diagnostic(code, message, span, severity, tuple(Label(s, m) for s, m in labels), tuple(notes), hint)


def render_json(diagnostics: Iterable[Diagnostic]) -> str:
    return json.dumps([d.to_json() for d in diagnostics], indent=2, ensure_ascii=False)


def _span_json(span: Span | None) -> dict[str, Any] | None:
    if span is None:
        return None
    result: dict[str, Any] = {
        "file": span.file.name,
        "line": span.line,
        "column": span.column,
        "end_line": span.file.line_of(span.end),
        "end_column": span.file.column_of(span.end),
    }
    if span.expansion is not None:
        result["expansion"] = _span_json(span.expansion)
    return result


MAX_QUOTED = 160  # characters of a quoted line; a longer one is cut around the caret


def _quote(span: Span, mark: str, message: str) -> list[str]:
    line = span.line
    raw = span.file.line_text(line)
    begin = span.column - 1
    length = max(1, min(span.end - span.start, len(raw) - begin))
    cut = max(0, begin - MAX_QUOTED // 2)
    head = raw[cut:begin].expandtabs(4)
    body = raw[begin : begin + length].expandtabs(4)
    tail = raw[begin + length :].expandtabs(4)
    body, tail = body[:MAX_QUOTED], tail[: max(0, MAX_QUOTED - len(head) - len(body))]
    gutter = " " * len(str(line))
    caret = " " * display_width(head) + mark * max(1, display_width(body))
    lines = [
        f"{gutter}--> {span}",
        f"{gutter} |",
        f"{line} | {head}{body}{tail}".rstrip(),
        f"{gutter} | {caret}{' ' + message if message else ''}",
    ]
    if span.expansion is not None:
        lines.append(f"{gutter} = in the expansion of a macro defined at {span.expansion}")
    return lines
