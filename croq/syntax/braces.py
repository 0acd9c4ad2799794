"""Finds the end of a function by its braces, and says which brace is to blame when there is none."""

from __future__ import annotations

from dataclasses import dataclass, field

from croq.diagnostics import Sink
from croq.source import SourceFile, Span
from croq.syntax import codes

_WIDTH = 200


@dataclass
class Braces:
    file: SourceFile
    sink: Sink
    _open: list[int] = field(default_factory=list)
    _misfit: tuple[int, int] | None = None  # the first pair whose lines are indented differently
    _done: bool = False

    def feed(self, text: str, at: int) -> bool:
        """Take notice of a token at file offset `at`; True when it ends the function."""
        if text == "{":
            self._open.append(at)
        elif text == "}" and self._open:
            opened = self._open.pop()
            if self._misfit is None and self._alone(at) and self._indent(opened) != self._indent(at):
                self._misfit = (opened, at)
            self._done = not self._open
        elif text == ";" and not self._open:
            self._done = True  # a declaration without a body: the parser will say so
        return self._done

    def finish(self, function: Span) -> None:
        """Report the brace that was never closed, if there is one."""
        if self._done:
            return
        if not self._open:
            self.sink.error(codes.SYNTAX, function, "this `__co__` function has no body", hint="add `{ ... }`")
            return
        blamed, labels = self._open[-1], []
        if self._misfit is not None:
            blamed, close = self._misfit
            labels = [(self._at(close), "this `}` closes it, but is indented as if it closed another")]
        self.sink.error(codes.SYNTAX, self._at(blamed), "this `{` is never closed", labels=labels, hint="add `}`")

    def _at(self, offset: int) -> Span:
        return Span(self.file, offset, offset + 1)

    def _lead(self, offset: int) -> str:
        """What stands before `offset` on its line; at most a screen's width of it, which is all that indents."""
        start = self.file.line_starts[self.file.line_of(offset) - 1]
        return self.file.text[start : min(offset, start + _WIDTH)].expandtabs(4)

    def _indent(self, offset: int) -> int:
        lead = self._lead(offset)
        return len(lead) - len(lead.lstrip())

    def _alone(self, offset: int) -> bool:
        return not self._lead(offset).strip()
