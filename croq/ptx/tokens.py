"""PTX text to tokens. `.loc`, `.file` and the lines of debug sections end with their line; everything else is free."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
      (?P<line>\n)
    | (?P<space>[ \t\r]+|//[^\n]*|/\*.*?\*/)
    | (?P<directive>\.(?:loc|file|section)\b[^\n]*)
    | (?P<string>"[^"]*")
    | (?P<float>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|\d+\.\d*(?:[eE][+-]?\d+)?)
    | (?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
    | (?P<word>[A-Za-z_$%.][\w$%.]*(?:::[\w$%.]+)*)
    | (?P<sign>[][{}()<>,;:@!|=+-])
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    kind: str  # directive, string, float, int, word, sign, end, bad
    text: str
    line: int


def tokens(text: str) -> Iterator[Token]:
    """The tokens, then one of kind `end`; a character that fits nothing is one of kind `bad`, and the last."""
    line, at, end = 1, 0, len(text)
    match = _TOKEN.match
    while at < end:
        found = match(text, at)
        if found is None:
            yield Token("bad", text[at], line)
            return
        kind = found.lastgroup or ""
        at = found.end()
        if kind == "line":
            line += 1
        elif kind == "space":
            line += found[0].count("\n")
        else:
            yield Token(kind, found[0], line)
    yield Token("end", "", line)
