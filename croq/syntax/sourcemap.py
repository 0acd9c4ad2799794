"""Expanded text that remembers where each of its characters was written."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from croq.source import SourceFile, Span
from croq.syntax.pptokens import glues

MAX_CHAIN = 8  # expansions that a span remembers; deeper ones would help nobody


def deepen(span: Span, inner: Span, levels: int = MAX_CHAIN) -> Span:
    """`span` with `inner` appended to its chain of expansions: a macro's use, then the body it came out of."""
    if levels == 0:
        return span
    return Span(span.file, span.start, span.end, deepen(span.expansion, inner, levels - 1) if span.expansion else inner)


def join(first: Span, last: Span) -> Span:
    """The span from `first` to `last`, which must not lie before it.

    The result keeps an expansion only where both came out of one use of a macro: a span that merely starts in an
    expansion is code that the user wrote around it.
    """
    if first is last:
        return first
    if first.file is not last.file:
        return first
    expansion = None
    if (first.start, first.end) == (last.start, last.end) and first.expansion and last.expansion:
        expansion = join(first.expansion, last.expansion)
    return Span(first.file, min(first.start, last.start), max(first.end, last.end), expansion)


@dataclass
class ExpandedText:
    """Text made of pieces: verbatim ones, which map character by character, and expanded ones, which map as a whole.

    Build it with `verbatim` and `expanded`, then read `text` and ask `span(start, end)`.
    """

    file: SourceFile
    _parts: list[str] = field(default_factory=list)
    _length: int = 0
    _starts: list[int] = field(default_factory=list)
    _origins: list[Span | int] = field(default_factory=list)  # of a verbatim piece: the offset of its first character
    _next: int = -1  # the file offset that would continue the last verbatim piece

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def verbatim(self, start: int, end: int) -> None:
        """Append the token `file.text[start:end]`."""
        text = self.file.text[start:end]
        if start != self._next:
            self._keep_apart(text, start)
            self._begin(start)
        self._append(text)
        self._next = end

    def expanded(self, text: str, origin: Span) -> None:
        """Append the token `text`, which stems from `origin`."""
        self._keep_apart(text, origin.start)
        self._begin(origin)
        self._append(text)
        self._next = -1

    def separate(self, at: int) -> None:
        """Append one space in place of something at file offset `at` that vanishes: a comment, a directive."""
        self._begin(at)
        self._append(" ")
        self._next = -1

    def span(self, start: int, end: int) -> Span:
        """The span of the expanded characters `[start, end)`."""
        first = self._piece(start)
        last = self._piece(max(start, end - 1))
        if first == last:
            return self._span_in(first, start, end)
        return join(self._span_in(first, start, start + 1), self._span_in(last, end - 1, end))

    def _span_in(self, piece: int, start: int, end: int) -> Span:
        origin = self._origins[piece]
        if isinstance(origin, Span):
            return origin
        base = origin - self._starts[piece]
        limit = len(self.file.text)
        return Span(self.file, min(base + start, limit), min(base + end, limit))

    def _keep_apart(self, text: str, at: int) -> None:
        """What macros bring together stays two tokens (C 6.10.3.3 has `##` for making one out of two)."""
        if self._parts and glues(self._parts[-1], text):
            self.separate(at)

    def _piece(self, position: int) -> int:
        return max(0, bisect_right(self._starts, position) - 1)

    def _begin(self, origin: Span | int) -> None:
        self._starts.append(self._length)
        self._origins.append(origin)

    def _append(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)
