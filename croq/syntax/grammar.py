"""The parser: Lark's, of `grammar/croq.lark`.

The lexer is Lark's basic one. The contextual one would take a word of the language for a name wherever the word cannot
stand (`f32 copy = 1;`), and would so take away the message that says the word is reserved. Positions are gathered
here: Lark's `propagate_positions` looks at every reduction, of which most only go up a level of precedence, and takes
half the time of a parse.

Making the tables takes a third of a second, loading them from Lark's own cache (`cache=`) some 20 ms. The entry is a
pickle, so it is kept only in a folder that nobody else can write (croq.folder); without one the tables are made in
memory. Compilations that are recalled (croq.memo) parse nothing and do not import lark.
"""

from __future__ import annotations

import hashlib
import sys
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from lark import Lark, Token, Tree, UnexpectedToken, __version__
from lark.lexer import PatternStr

from croq import folder
from croq.functions import FUNCTIONS
from croq.resources import resource

END = "$END"
REFUSED = frozenset(("LATER", "LATER_DOT", "LATER_OP", "BAD_NUMBER", "DOT_NAME", "UNKNOWN"))  # known to be refused


class Extent(NamedTuple):
    """Half-open range of the expanded text that a production covers."""

    start: int
    end: int


class SyntaxFault(Exception):
    """The token at `position` fits nowhere; `expected` are those that would, by type or by text where that is fixed."""

    def __init__(self, position: int, expected: frozenset[str]) -> None:
        super().__init__(position, expected)
        self.position = position
        self.expected = expected


@lru_cache(maxsize=1)
def grammar() -> Lark:
    """The parser of the shipped grammar."""
    text = resource("grammar", "croq.lark").read_text(encoding="utf-8").replace("FUNCTIONS", "|".join(FUNCTIONS))
    return build(text, _cache(text))


def build(text: str, cache: str | bool = False, **more: Any) -> Lark:
    """The parser of a grammar's text; `cache` names the file of its tables."""
    options = dict(parser="lalr", lexer="basic", keep_all_tokens=True, maybe_placeholders=False)
    return Lark(text, cache=cache, **options, **more)


@lru_cache(maxsize=1)
def _fixed() -> dict[str, str]:
    """The text of each terminal that has only one."""
    return {t.name: t.pattern.value for t in grammar().terminals if isinstance(t.pattern, PatternStr)}


def kind(token: Token) -> str:
    """The terminal's text where it is fixed, its name otherwise."""
    return _fixed().get(token.type, token.type)


def tokenize(text: str, limit: int) -> list[Token]:
    """The tokens of `text`, ending with `$END`; at most `limit` before it. What begins none is `UNKNOWN`."""
    lexer: Any = grammar().parse_interactive(text)
    tokens = list(islice(lexer.lexer_thread.lex(lexer.parser_state), limit))
    last = (tokens[-1].end_pos or 0) if tokens else 0
    tokens.append(Token(END, "", last, end_pos=last))
    return tokens


def parse(tokens: list[Token], actions: object) -> Any:
    """What `actions`, with a method `(children, extent)` for each production, makes of `tokens`, which end with `$END`.

    Raises `SyntaxFault` at the first token that does not fit, after the actions of all that is whole before it.
    """
    parser = grammar().parse_interactive("")
    whole = parser.parser_state.value_stack
    for position, token in enumerate(tokens):
        if not _takes(parser, token):
            for tree in whole:
                _act(tree, actions)
            raise SyntaxFault(position, _expected(parser))
    return _act(whole[-1], actions)


def _takes(parser: Any, token: Token) -> bool:
    if token.type in REFUSED:
        return False
    try:
        parser.feed_token(token)
    except UnexpectedToken:
        return False
    return True


def _expected(parser: Any) -> frozenset[str]:
    return frozenset(_fixed().get(name, name) for name in parser.accepts())


def _act(tree: Tree[Token] | Token, actions: object) -> Any:
    """What the actions make of a tree, bottom up. However deep the text nests, this does not recurse."""
    pending, order = [tree], []
    while pending:
        node = pending.pop()
        order.append(node)
        if isinstance(node, Tree):
            pending += node.children
    values: list[Any] = []
    extents: list[Extent] = []
    for node in reversed(order):
        if not isinstance(node, Tree):
            values.append(node)
            extents.append(Extent(node.start_pos or 0, node.end_pos or 0))
            continue
        count = len(node.children)
        extent = Extent(extents[-count].start, extents[-1].end)
        value = values[-count:]
        del values[-count:], extents[-count:]
        if not node.data.startswith("_"):  # else the part of a repetition that a fault left open
            value = getattr(actions, node.data)(value, extent)
        values.append(value)
        extents.append(extent)
    return values[-1]


def _cache(text: str) -> str | bool:
    place = folder.usable()
    if place is None:
        return False
    material = f"{__version__}\n{sys.version_info[:2]}\n{text}"
    return str(place / f"grammar-{hashlib.sha256(material.encode()).hexdigest()[:32]}.lark")
