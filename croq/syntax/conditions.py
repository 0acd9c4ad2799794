"""The integer expressions of `#if` and `#elif`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import croq.numbers as numbers
from croq.operators import SPELLED, SYMBOLS
from croq.source import Span
from croq.syntax.macros import Expander
from croq.syntax.pptokens import PPToken

MAX_DEPTH = 32
_PROBES = ("__has_include", "__has_cpp_attribute", "__has_attribute", "__has_builtin", "__has_feature")
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F']+|0[bB][01']+|[0-9][0-9']*)[uUlL]*")
_LEVELS = [[s for s in SYMBOLS if SPELLED[s].level == level] for level in sorted({SPELLED[s].level for s in SYMBOLS})]


@dataclass
class ConditionError(Exception):
    """The expression is malformed, or divides by zero."""

    span: Span
    message: str


def evaluate(tokens: Sequence[PPToken], expander: Expander, whole: Span) -> bool:
    """Whether the condition holds. Macros are expanded first; unknown names are 0. Raises `ConditionError`."""
    resolved = _resolve_defined([t for t in tokens if not t.blank], expander)
    pieces = [t for t in expander.expand_all(resolved) if not t.blank]
    if not pieces:
        raise ConditionError(whole, "the condition is missing")
    reader = _Reader(pieces, whole)
    value = reader.ternary(True, 0)
    if reader.position < len(pieces):
        stray = pieces[reader.position]
        raise ConditionError(stray.span, f"`{stray.text}` does not belong in the condition")
    return value != 0


def _resolve_defined(tokens: list[PPToken], expander: Expander) -> list[PPToken]:
    """Replaces `defined X` and `defined(X)` before macros act, and drops the probes that only C++ can answer."""
    result: list[PPToken] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        position += 1
        if token.text in _PROBES:
            position = _skip_parentheses(tokens, position)
            result.append(PPToken("number", "0", token.span))
        elif token.text == "defined":
            name, position = _defined_name(tokens, position, token.span)
            result.append(PPToken("number", "1" if name in expander.table else "0", token.span))
        else:
            result.append(token)
    return result


def _defined_name(tokens: list[PPToken], position: int, span: Span) -> tuple[str, int]:
    texts = [t.text for t in tokens[position : position + 3]]
    kinds = [t.kind for t in tokens[position : position + 3]]
    if kinds[:1] == ["word"]:
        return texts[0], position + 1
    if len(texts) == 3 and texts[0] == "(" and kinds[1] == "word" and texts[2] == ")":
        return texts[1], position + 3
    raise ConditionError(span, "`defined` needs a name: `defined(NAME)`")


def _skip_parentheses(tokens: list[PPToken], position: int) -> int:
    depth = 0
    while position < len(tokens):
        depth += {"(": 1, ")": -1}.get(tokens[position].text, 0)
        position += 1
        if depth <= 0:
            break
    return position


@dataclass
class _Reader:
    """Precedence climbing; `live` is False in an operand that `&&`, `||` or `?:` does not evaluate."""

    tokens: list[PPToken]
    whole: Span
    position: int = 0

    def peek(self) -> str:
        return self.tokens[self.position].text if self.position < len(self.tokens) else ""

    def ternary(self, live: bool, depth: int) -> int:
        condition = self.binary(0, live, depth)
        if self.peek() != "?":
            return condition
        self.position += 1
        then = self.ternary(live and condition != 0, self.deeper(depth))
        self.expect(":")
        otherwise = self.ternary(live and condition == 0, self.deeper(depth))
        return then if condition else otherwise

    def binary(self, level: int, live: bool, depth: int) -> int:
        if level == len(_LEVELS):
            return self.unary(live, depth)
        left = self.binary(level + 1, live, depth)
        while self.peek() in _LEVELS[level]:
            operator = self.tokens[self.position]
            self.position += 1
            skipped = (operator.text == "&&" and not left) or (operator.text == "||" and bool(left))
            right = self.binary(level + 1, live and not skipped, depth)
            left = _apply(operator, left, right, live)
        return left

    def unary(self, live: bool, depth: int) -> int:
        operator = self.peek()
        if operator in ("!", "-", "+", "~"):
            self.position += 1
            value = self.unary(live, self.deeper(depth))
            return {"!": int(not value), "-": -value, "+": value, "~": ~value}[operator]
        return self.primary(live, depth)

    def primary(self, live: bool, depth: int) -> int:
        if self.position == len(self.tokens):
            raise ConditionError(self.whole, "the condition ends where a value is expected")
        token = self.tokens[self.position]
        self.position += 1
        if token.text == "(":
            value = self.ternary(live, self.deeper(depth))
            self.expect(")")
            return value
        if token.kind == "word":
            return int(token.text == "true")
        number = _NUMBER.fullmatch(token.text)
        if number is None:
            raise ConditionError(token.span, f"`{token.text}` is not an integer")
        return _integer(number.group(1).replace("'", ""))

    def expect(self, text: str) -> None:
        if self.peek() != text:
            where = self.tokens[self.position].span if self.position < len(self.tokens) else self.whole
            raise ConditionError(where, f"`{text}` is missing in the condition")
        self.position += 1

    def deeper(self, depth: int) -> int:
        if depth >= MAX_DEPTH:
            raise ConditionError(self.whole, f"the condition nests deeper than {MAX_DEPTH} levels")
        return depth + 1


def _integer(text: str) -> int:
    if len(text) > 40:
        return (1 << 63) - 1
    if text[:2].lower() in ("0x", "0b"):
        return int(text, 0)
    return int(text, 8) if len(text) > 1 and text[0] == "0" and set(text) <= set("01234567") else int(text)


def _apply(operator: PPToken, left: int, right: int, live: bool) -> int:
    row = SPELLED[operator.text]
    if row.kind == "logic":
        return int(bool(left) and bool(right)) if row.name == "land" else int(bool(left) or bool(right))
    if row.kind == "comparison":
        return int(numbers.COMPARISONS[row.name](left, right))
    if row.name in numbers.DIVISIONS:
        if right == 0 and live:
            raise ConditionError(operator.span, "division by zero in the condition")
        return numbers.ARITHMETIC[row.name].exact(left, right) if right else 0
    if row.kind == "shift":
        right = max(right, 0)
    return numbers.wrap(numbers.ARITHMETIC[row.name].exact(left, right), "s64")
