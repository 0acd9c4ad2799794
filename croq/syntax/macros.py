"""Macro definitions and their expansion, with C's rule that a macro is not expanded inside itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from croq.diagnostics import CompileError, Sink, make
from croq.source import SourceFile, Span
from croq.syntax import codes
from croq.syntax.pptokens import PPToken, scan_located, trimmed
from croq.syntax.sourcemap import deepen

MAX_EXPANDED = 50_000  # tokens made by macros in one file
COMMAND_LINE = "<command line>"


@dataclass(frozen=True)
class Macro:
    name: str
    span: Span  # of the name in its definition
    parameters: tuple[str, ...] | None  # None: object-like
    body: tuple[PPToken, ...]
    variadic: bool = False

    @property
    def from_command_line(self) -> bool:
        return self.span.file.name == COMMAND_LINE

    def same_as(self, other: Macro) -> bool:
        return self.parameters == other.parameters and [t.text for t in self.body] == [t.text for t in other.body]


def command_line_macros(defines: Mapping[str, str]) -> dict[str, Macro]:
    """Macros of `-D NAME=VALUE`. Raises `CompileError` (E-2009) for a name that is none."""
    table = {}
    for name, value in defines.items():
        shown = name.encode("utf-8", "backslashreplace").decode()
        file = SourceFile(COMMAND_LINE, f"{shown}={value}")
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name == "defined":
            hint = "write `-D NAME=VALUE`; a name is made of letters, digits and `_`, and does not begin with a digit"
            where = Span(file, 0, len(shown))
            raise CompileError([make(codes.BAD_DEFINE, where, f"`{shown}` is not a macro name", hint=hint)])
        body = trimmed(scan_located(file, len(name) + 1))
        table[name] = Macro(name, Span(file, 0, len(name)), None, tuple(body))
    return table


class Expander:
    """Expands macros out of `table`, which the caller may change between calls."""

    def __init__(self, table: dict[str, Macro], sink: Sink) -> None:
        self.table = table
        self._sink = sink
        self._budget = MAX_EXPANDED
        self._depth = 0  # of macros inside macros or inside their arguments

    def expand_all(self, tokens: Sequence[PPToken], hidden: frozenset[str] = frozenset()) -> list[PPToken]:
        """`tokens` with every macro replaced, except those in `hidden`."""
        result: list[PPToken] = []
        position = 0
        while position < len(tokens):
            token = tokens[position]
            macro = self.table.get(token.text) if token.kind == "word" and token.text not in hidden else None
            if macro is None:
                result.append(token)
                position += 1
                continue
            arguments, position = None, position + 1
            if macro.parameters is not None:
                call = find_arguments(tokens, position)
                if call is None:  # the name alone: not a use
                    result.append(token)
                    continue
                arguments, position = call
            result += self.expand(token, macro, arguments, hidden)
        return result

    def expand(
        self, use: PPToken, macro: Macro, arguments: list[list[PPToken]] | None, hidden: frozenset[str] = frozenset()
    ) -> list[PPToken]:
        """What one use of `macro` becomes; the tokens lie at `use`, with the place in the body as their expansion."""
        if self._depth >= codes.MAX_MACRO_DEPTH:
            raise self._over(use, f"macros nest deeper than {codes.MAX_MACRO_DEPTH} levels")
        self._depth += 1
        body = self._substitute(use, macro, arguments, hidden) if arguments is not None else self._placed(use, macro)
        self._budget -= len(body) + 1
        if self._budget < 0:
            raise self._over(use, f"macro expansion makes more than {MAX_EXPANDED} tokens")
        result = self.expand_all(body, hidden | {macro.name})
        self._depth -= 1
        return result

    def _placed(self, use: PPToken, macro: Macro) -> list[PPToken]:
        if not macro.body:  # `#define NAME` alone stands for 1 inside `.co` text
            return [PPToken("number", "1", deepen(use.span, macro.span))]
        return [PPToken(t.kind, t.text, deepen(use.span, t.span)) for t in macro.body]

    def _substitute(
        self, use: PPToken, macro: Macro, arguments: list[list[PPToken]], hidden: frozenset[str]
    ) -> list[PPToken]:
        parameters = macro.parameters or ()
        if not parameters and len(arguments) == 1 and not trimmed(arguments[0]):
            arguments = []
        if macro.variadic or any(t.text == "##" for t in macro.body):
            what = "`...`" if macro.variadic else "`##`"
            message = f"macro `{macro.name}` uses {what}, which `.co` text does not have"
            self._sink.error(codes.DIRECTIVE, use.span, message, labels=[(macro.span, "defined here")])
            return []
        if len(arguments) != len(parameters):
            wanted = f"{len(parameters)} argument{'s' * (len(parameters) != 1)}"
            message = f"macro `{macro.name}` takes {wanted}, not {len(arguments)}"
            self._sink.error(codes.DIRECTIVE, use.span, message, labels=[(macro.span, "defined here")])
            return []
        expanded = {
            name: self.expand_all(trimmed(argument), hidden)
            for name, argument in zip(parameters, arguments, strict=True)
        }
        result: list[PPToken] = []
        for token in macro.body:
            if token.kind == "word" and token.text in expanded:
                result += expanded[token.text]
            else:
                result.append(PPToken(token.kind, token.text, deepen(use.span, token.span)))
        return result

    def _over(self, use: PPToken, message: str) -> CompileError:
        hint = "look for macros that use one another more than once at each step"
        self._sink.error(codes.MACRO_LIMIT, use.span, message, hint=hint)
        return CompileError(self._sink.diagnostics)


def find_arguments(tokens: Sequence[PPToken], position: int) -> tuple[list[list[PPToken]], int] | None:
    """The arguments of a use whose name stands before `position`, and the position after `)`; None: no `(` follows."""
    while position < len(tokens) and tokens[position].blank:
        position += 1
    if position == len(tokens) or tokens[position].text != "(":
        return None
    splitter = ArgumentSplitter()
    while position < len(tokens):
        done = splitter.feed(tokens[position])
        position += 1
        if done:
            return splitter.arguments, position
    return None


@dataclass
class ArgumentSplitter:
    """Fed the tokens from `(` on, splits them at the commas outside inner parentheses; `feed` says when `)` came."""

    arguments: list[list[PPToken]] = field(default_factory=lambda: [[]])
    _depth: int = 0

    def feed(self, token: PPToken) -> bool:
        if token.text == "(":
            self._depth += 1
            if self._depth == 1:
                return False
        elif token.text == ")":
            self._depth -= 1
            if self._depth == 0:
                return True
        elif token.text == "," and self._depth == 1:
            self.arguments.append([])
            return False
        self.arguments[-1].append(token)
        return False
