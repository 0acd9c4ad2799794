"""Tokens in the words of the language: what was found, and what could have stood there."""

from __future__ import annotations

from dataclasses import dataclass

from croq.operators import COMPOUND, SYMBOLS
from croq.syntax.grammar import END

MEMBERS = (
    *(".at", ".chunkat", ".subspan", ".step", ".sqz", ".span", ".data"),
    *(".copy", ".load", ".async", ".swiz", ".evict_first", ".evict_last"),
    *(".row", ".col", ".fill", ".store", ".f32", ".f16", ".bf16", ".shared", ".barrier"),
)
_EXPRESSION = frozenset(("NAME", "INT", "FLOAT", "("))
_STATEMENT = frozenset(("parallel", "foreach", "if"))
_OPERATORS = frozenset(
    (
        *(*SYMBOLS, "?", "#", "++", "--", "["),
        *(".at", ".chunkat", ".subspan", ".step", ".sqz", ".span", ".data"),
    )
)
# What an expression can begin with, and so is said when "an expression" is.
_PARTS_OF_EXPRESSION = frozenset(
    (
        *("NAME", "INT", "FLOAT", "STRING", "BUILTIN", "(", "|", "-", "!", "~", "#", "++", "--"),
        *("inf", "true", "false", "cdiv", "__to", "_"),
    )
)
_HIDDEN = frozenset(("LATER", "LATER_DOT", "LATER_OP", "BAD_NUMBER", "DOT_NAME", "BUILTIN", "FLOAT", "_"))
_NAMED = {
    "NAME": "a name",
    "ELEM": "an element type",
    "INT": "an integer",
    "STRING": "a string",
    "GROUP4": "`group-4`",
    "DOT_ELEM": "an element type with its dot (`.f32`)",
    END: "the end of the function",
}
_KINDS = {"NAME": "the name ", "INT": "the number ", "FLOAT": "the number ", "ELEM": "the type "}
_MAX_LISTED = 5
_MAX_TEXT = 40


@dataclass(frozen=True, slots=True)
class Token:
    """`type` is the terminal's name, or its text where that is fixed. `[start, end)` lies in the expanded text."""

    type: str
    text: str
    start: int
    end: int


def found_text(token: Token) -> str:
    if token.type == END:
        return "the end of the function"
    text = token.text if len(token.text) <= _MAX_TEXT else token.text[:_MAX_TEXT] + "..."
    return f"{_KINDS.get(token.type, '')}`{text}`"


def wanted_text(expected: frozenset[str]) -> str:
    """The expected terminals in words; those that form a known kind of phrase stand for it."""
    rest = set(expected - _HIDDEN)
    words: list[str] = []
    if expected >= _STATEMENT:
        return "a statement" + (" or `}`" if "}" in expected else "")
    if expected >= _EXPRESSION:
        words.append("an expression")
        rest -= _PARTS_OF_EXPRESSION
    operators = rest & _OPERATORS
    if len(operators) > 4 and rest - operators:
        rest -= operators
    elif len(operators) > 4:
        words.append("an operator")
        rest -= operators
    if "=" in rest:
        rest -= COMPOUND
    listed = sorted(_NAMED.get(name, f"`{name}`") for name in rest)
    if len(listed) > _MAX_LISTED:
        listed = [*listed[:_MAX_LISTED], "..."]
    words += listed
    if len(words) < 2:
        return "".join(words)
    return ", ".join(words[:-1]) + (" or " if words[-1] != "..." else ", ") + words[-1]
