"""Runs the tables: text to tokens, tokens to whatever the actions make of them.

Neither recurses, however deep the text nests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from croq.syntax.tables import END, Tables, load_tables

UNKNOWN = "$UNKNOWN"  # a character that begins no token
REFUSED = frozenset(("LATER", "LATER_DOT", "LATER_OP", "BAD_NUMBER", "DOT_NAME"))  # tokens known only to be refused


class Token:
    """`type` is the terminal's name, or its text where that is fixed. `[start, end)` lies in the expanded text."""

    __slots__ = ("end", "start", "text", "type")

    def __init__(self, type: str, text: str, start: int, end: int) -> None:
        self.type = type
        self.text = text
        self.start = start
        self.end = end

    def __repr__(self) -> str:
        return f"Token({self.type!r}, {self.text!r}, {self.start}, {self.end})"


@dataclass(frozen=True)
class Extent:
    """Half-open range of the expanded text that a production covers."""

    start: int
    end: int


Action = Callable[[list[Any], Extent], Any]


class Splice(list[Any]):
    """The children of a repetition, which their parent takes in as its own."""


@dataclass
class SyntaxFault(Exception):
    """The token at `position` fits nowhere; `expected` are the terminals that would."""

    position: int
    expected: frozenset[str]


@lru_cache(maxsize=1)
def _lexer() -> tuple[re.Pattern[str], dict[str, str], frozenset[str]]:
    tables = load_tables()
    names = {f"t{i}": name for i, (name, _) in enumerate(tables.patterns)}
    pattern = "|".join(f"(?P<t{i}>{regex})" for i, (_, regex) in enumerate(tables.patterns))
    return re.compile(pattern), names, frozenset(tables.ignored)


def tokenize(text: str, limit: int) -> list[Token]:
    """The tokens of `text`, ending with `$END`; at most `limit` of them. Never fails: see `UNKNOWN`."""
    pattern, names, ignored = _lexer()
    words = load_tables().words
    tokens: list[Token] = []
    position = 0
    while position < len(text) and len(tokens) < limit:
        match = pattern.match(text, position)
        if match is None:
            tokens.append(Token(UNKNOWN, text[position], position, position + 1))
            position += 1
            continue
        assert match.lastgroup is not None
        type, matched, end = names[match.lastgroup], match.group(), match.end()
        if words.get(matched) == type:
            type = matched
        if type not in ignored:
            tokens.append(Token(type, matched, position, end))
        position = end
    last = tokens[-1].end if tokens else 0
    tokens.append(Token(END, "", last, last))
    return tokens


def parse(tokens: Sequence[Token], actions: object) -> Any:
    """Parse `tokens`, which end with `$END`. `actions` has a method for each action of the grammar.

    Raises `SyntaxFault` at the first token that does not fit.
    """
    tables = load_tables()
    table, rules = tables.actions, tables.rules
    methods: dict[str, Action] = {}
    states: list[int] = [tables.start]
    values: list[Any] = []
    starts: list[int] = []
    ends: list[int] = []
    position = 0
    while True:
        token = tokens[position]
        code = table[states[-1]].get(token.type)
        if code is None or token.type in REFUSED:
            raise SyntaxFault(position, expected(tables, states))
        if code >= 0:
            states.append(code)
            values.append(token)
            starts.append(token.start)
            ends.append(token.end)
            position += 1
            continue
        symbol, action, length = rules[~code]
        if action is None:  # most reductions: a child goes up one level of precedence as it is
            states[-1] = table[states[-2]][symbol]
            if token.type == END and states[-1] == tables.end:
                return values[-1]
            continue
        children = values[-length:]
        extent = Extent(starts[-length], ends[-1])
        del states[-length:], values[-length:], starts[-length:], ends[-length:]
        value: Any
        if action == "*":
            spliced = _spliced(children)
            value = spliced if type(spliced) is Splice else Splice(spliced)
        else:
            method = methods.get(action) or methods.setdefault(action, getattr(actions, action))
            value = method(_spliced(children), extent)
        states.append(table[states[-1]][symbol])
        values.append(value)
        starts.append(extent.start)
        ends.append(extent.end)
        if token.type == END and states[-1] == tables.end:
            return value


def _spliced(children: list[Any]) -> list[Any]:
    if not any(type(child) is Splice for child in children):
        return children
    result: list[Any] = []
    for child in children:
        if type(child) is not Splice:
            result.append(child)
        elif result:
            result += child
        else:  # a repetition grows on its left: taking over its list keeps it linear
            result = child
    return result


def expected(tables: Tables, states: Sequence[int]) -> frozenset[str]:
    """The terminals that a parser in `states` can take: a reduction alone does not count, a shift must follow."""
    candidates = [name for name, _ in tables.patterns] + list(tables.words) + [END]
    return frozenset(name for name in candidates if _takes(tables, states, name))


def _takes(tables: Tables, states: Sequence[int], terminal: str) -> bool:
    stack = list(states)
    while True:
        code = tables.actions[stack[-1]].get(terminal)
        if code is None:
            return False
        if code >= 0:
            return True
        symbol, _, length = tables.rules[~code]
        del stack[-length:]
        stack.append(tables.actions[stack[-1]][symbol])
        if terminal == END and stack[-1] == tables.end:
            return True
