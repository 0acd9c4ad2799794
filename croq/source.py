"""Source text, positions in it, and where each position came from.

A `Span` always points at text that the user wrote: the preprocessor keeps, for every token, the place of the token in
the file and, when a macro produced it, the place of the macro's body (`Span.expansion`). Diagnostics, the lines quoted
in emitted CUDA and `--lineinfo` all speak in spans.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True, eq=False)
class SourceFile:
    """One file of `.co` text. `name` is what messages show; `text` is decoded, with `\\n` line ends."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        starts = [0]
        starts.extend(i + 1 for i, c in enumerate(self.text) if c == "\n")
        return tuple(starts)

    def line_of(self, offset: int) -> int:
        """The 1-based line that holds `offset`."""
        return bisect_right(self.line_starts, offset)

    def column_of(self, offset: int) -> int:
        """The 1-based column of `offset`, in characters."""
        return offset - self.line_starts[self.line_of(offset) - 1] + 1

    def line_text(self, line: int) -> str:
        """The text of 1-based `line`, without its line end; empty when there is no such line."""
        if not 1 <= line <= len(self.line_starts):
            return ""
        start = self.line_starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end]


@dataclass(frozen=True)
class Span:
    """Half-open character range `[start, end)` of a file. `expansion` names the macro body a token came out of."""

    file: SourceFile
    start: int
    end: int
    expansion: Span | None = None

    @property
    def line(self) -> int:
        return self.file.line_of(self.start)

    @property
    def column(self) -> int:
        return self.file.column_of(self.start)

    @property
    def text(self) -> str:
        return self.file.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """The smallest span that covers both, which must lie in one file."""
        return Span(self.file, min(self.start, other.start), max(self.end, other.end), self.expansion)

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line}:{self.column}"


def display_width(text: str) -> int:
    """Terminal cells that `text` takes, tabs expanded before: wide characters take two, combining marks none."""
    width = 0
    for char in text:
        if unicodedata.combining(char):
            continue
        width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return width
