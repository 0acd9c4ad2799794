"""The preprocessor's view of text, of `.co` and of the C++ around it: words, numbers, strings, comments, line ends."""

from __future__ import annotations

import re
from dataclasses import dataclass

from croq.source import SourceFile, Span

# Operators of several characters, longest first: C++'s, and `=>`. One token each, as C has it (maximal munch), so that
# what a macro says arrives as it was written.
_OPERATORS = "<<= >>= ... ->* ++ -- << >> <= >= == != && || += -= *= /= %= &= |= ^= -> => :: ##"
OPERATORS = tuple(_OPERATORS.split())

# Possessive quantifiers keep the scan linear on any input. Strings come before words: `R"(...)"` begins like one.
_TOKEN = re.compile(
    rf"""
      (?P<string>(?:u8|[LuU])?R"(?P<tag>[^()\\\s"]{{0,16}})\((?s:.*?)\)(?P=tag)"
               | "(?:\\(?s:.)|[^"\\\n])*+"
               | '(?:\\(?s:.)|[^'\\\n]){{1,16}}')
    | (?P<open_string>(?:u8|[LuU])?R"[^()\\\s"]{{0,16}}\((?s:.*))
    | (?P<word>[^\W\d]\w*+)
    | (?P<number>0[xX](?:'?[\w.])*+ | \d(?:(?<=[eE])[+-]|'?[\w.])*+)
    | (?P<comment>//(?:\\\n|[^\n])*+ | /\*(?s:.*?)\*/)
    | (?P<open_comment>/\*(?s:.*))
    | (?P<newline>\n)
    | (?P<space>(?:[^\S\n]|\\\n)++)
    | (?P<punct>{"|".join(map(re.escape, OPERATORS))} | (?s:.))
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class PPToken:
    kind: str
    text: str
    span: Span

    @property
    def blank(self) -> bool:
        return self.kind in ("space", "newline", "comment")


@dataclass(slots=True)
class RawToken:
    """A token of the file: `[start, end)` in its text. Cheaper than a `PPToken`, which it becomes where macros act."""

    kind: str
    start: int
    end: int


def scan(text: str) -> list[RawToken]:
    """All tokens of `text`, without gaps."""
    return [RawToken(m.lastgroup or "punct", m.start(), m.end()) for m in _TOKEN.finditer(text)]


def located(file: SourceFile, raw: RawToken) -> PPToken:
    return PPToken(raw.kind, file.text[raw.start : raw.end], Span(file, raw.start, raw.end))


def glues(left: str, right: str) -> bool:
    """Whether two tokens written without a blank between them would read as others."""
    match = _TOKEN.match(left + right)
    return match is not None and match.end() != len(left)


def scan_located(file: SourceFile, start: int = 0, end: int | None = None) -> list[PPToken]:
    """The tokens of a part of `file`, with spans in it."""
    stop = len(file.text) if end is None else end
    tokens = []
    for match in _TOKEN.finditer(file.text, start, stop):
        span = Span(file, match.start(), match.end())
        tokens.append(PPToken(match.lastgroup or "punct", match.group(), span))
    return tokens


def trimmed(tokens: list[PPToken]) -> list[PPToken]:
    """Without blanks at either end, comments gone, each run of blanks one space."""
    result: list[PPToken] = []
    for token in tokens:
        if not token.blank:
            result.append(token)
        elif result and result[-1].kind != "space":
            result.append(PPToken("space", " ", token.span))
    if result and result[-1].kind == "space":
        result.pop()
    return result
