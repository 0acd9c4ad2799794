"""Preprocessor directives: the table of macros and the stack of conditions that they change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from croq.diagnostics import Sink
from croq.source import Span
from croq.syntax import codes
from croq.syntax.conditions import ConditionError, evaluate
from croq.syntax.macros import Expander, Macro
from croq.syntax.outside import Include
from croq.syntax.pptokens import PPToken, trimmed

CONDITIONALS = frozenset(("if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif"))
MAX_SHOWN = 60  # characters of a condition in a message
KNOWN = CONDITIONALS | frozenset(("define", "undef", "error", "warning", "include", "pragma", "line"))


@dataclass
class _Region:
    opened: Span
    parent: bool  # whether the text around it is active
    active: bool
    taken: bool  # whether one of its branches was active
    otherwise: Span | None = None  # its `#else`


class Directives:
    """Interprets directives one after the other; `active` says whether the text at this point is compiled."""

    def __init__(self, expander: Expander, sink: Sink) -> None:
        self._expander = expander
        self._sink = sink
        self._regions: list[_Region] = []
        self.includes: list[Include] = []  # of active text outside `__co__` functions

    @property
    def active(self) -> bool:
        return not self._regions or self._regions[-1].active

    def handle(self, word: PPToken, rest: Sequence[PPToken], in_kernel: bool) -> None:
        """One directive: `word` after the `#`, and what follows on its line. Malformed ones are reported (E-210)."""
        name = word.text
        arguments = trimmed(list(rest))
        if name in CONDITIONALS:
            self._condition(word, arguments)
        elif not self.active:
            return
        elif name == "define":
            self._define(word, rest)
        elif name == "undef":
            self._undefine(word, arguments)
        elif name == "error":
            self._sink.error("E-211", word.span, f"#error: {_text(arguments)}")
        elif in_kernel:
            self._idle(word)
        elif name == "include":
            self._include(word, arguments)

    def finish(self) -> None:
        """Report the conditions that are still open at the end of the file."""
        for region in self._regions:
            hint = "close it with `#endif`"
            self._sink.error(codes.DIRECTIVE, region.opened, "this condition has no `#endif`", hint=hint)

    def _idle(self, word: PPToken) -> None:
        if word.text == "include":
            hint = "`#include` is for the C++ around the function: move it there"
            self._sink.error(codes.DIRECTIVE, word.span, "`#include` inside a `__co__` function", hint=hint)
        elif word.text in ("pragma", "warning"):
            message = f"`#{word.text}` does nothing inside a `__co__` function"
            self._sink.warning(codes.IDLE_DIRECTIVE, word.span, message)

    def _include(self, word: PPToken, arguments: list[PPToken]) -> None:
        """Headers are the host's (outside.X3). One of the project's own is worth a word: it may hold device code."""
        header = _text(arguments)
        span = Span(word.span.file, word.span.start, arguments[-1].span.end) if arguments else word.span
        self.includes.append(Include(span, header))
        if self.includes[-1].is_of_host:
            return
        self._sink.warning(
            codes.NOT_FOLLOWED,
            span,
            f"croq does not read {header}",
            notes=[
                "text outside `__co__` functions is not followed into headers: what they declare, or define as a "
                "macro, is unknown to kernels and device functions"
            ],
            hint="write what kernels need of it into this file; nothing is lost if only host code needs it",
        )

    # ------------------------------------------------------------------------------------------------- conditions
    def _condition(self, word: PPToken, arguments: list[PPToken]) -> None:
        if word.text in ("if", "ifdef", "ifndef"):
            holds = self.active and self._holds(word, arguments)
            self._regions.append(_Region(word.span, self.active, holds, holds))
        elif not self._regions:
            message = f"`#{word.text}` without an `#if` before it"
            self._sink.error(codes.DIRECTIVE, word.span, message, hint="remove it, or add the `#if` that it belongs to")
        elif word.text == "endif":
            self._regions.pop()
        else:
            self._branch(word, arguments, self._regions[-1])

    def _branch(self, word: PPToken, arguments: list[PPToken], region: _Region) -> None:
        if region.otherwise is not None:
            labels = [(region.otherwise, "`#else` stands here"), (region.opened, "the condition begins here")]
            self._sink.error(codes.DIRECTIVE, word.span, f"`#{word.text}` after `#else`", labels=labels)
            region.active = False
        elif word.text == "else":
            region.otherwise = word.span
            region.active = region.parent and not region.taken
        else:
            wanted = region.parent and not region.taken
            region.active = wanted and self._holds(word, arguments)
            region.taken = region.taken or region.active

    def _holds(self, word: PPToken, arguments: list[PPToken]) -> bool:
        kind = word.text.removeprefix("el")
        if kind in ("ifdef", "ifndef"):
            if len(arguments) != 1 or arguments[0].kind != "word":
                self._malformed(word, f"`#{word.text} NAME` takes one name")
                return False
            return (arguments[0].text in self._expander.table) == (kind == "ifdef")
        try:
            return evaluate(arguments, self._expander, word.span)
        except ConditionError as fault:
            shown = _text(arguments)
            notes = [f"in `#{word.text} {shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + '...'}`"]
            self._sink.error(codes.DIRECTIVE, fault.span, fault.message, notes=notes)
            return False

    # ----------------------------------------------------------------------------------------------------- macros
    def _define(self, word: PPToken, rest: Sequence[PPToken]) -> None:
        tokens = list(rest)
        while tokens and tokens[0].blank:
            tokens.pop(0)
        if not tokens or tokens[0].kind != "word" or tokens[0].text == "defined":
            self._malformed(word, "`#define` needs a name: `#define NAME text`")
            return
        name = tokens[0]
        parameters, variadic, body = None, False, tokens[1:]
        if body and body[0].text == "(":
            close = next((i for i, t in enumerate(body) if t.text == ")"), None)
            listed = "".join(t.text for t in body[1:close] if not t.blank)
            names = listed.split(",") if listed else []
            variadic = bool(names) and names[-1].endswith("...")
            named = names[:-1] if variadic else names
            if close is None or any(not re.fullmatch(r"[^\W\d]\w*", n) for n in named) or len(set(named)) < len(named):
                self._malformed(word, "the parameters of a macro are names between parentheses: `#define F(a, b) text`")
                return
            parameters, body = tuple(named), body[close + 1 :]
        self._record(Macro(name.text, name.span, parameters, tuple(trimmed(body)), variadic))

    def _record(self, macro: Macro) -> None:
        old = self._expander.table.get(macro.name)
        if old is not None and old.from_command_line and not macro.same_as(old):
            self._sink.warning(
                codes.REDEFINED,
                macro.span,
                f"this replaces the `{macro.name}` given by `-D {old.span.file.text}`",
                hint=f"put the definition between `#ifndef {macro.name}` and `#endif`, so that `-D` can set it",
            )
        self._expander.table[macro.name] = macro

    def _undefine(self, word: PPToken, arguments: list[PPToken]) -> None:
        if len(arguments) != 1 or arguments[0].kind != "word":
            self._malformed(word, "`#undef NAME` takes one name")
            return
        self._expander.table.pop(arguments[0].text, None)

    def _malformed(self, word: PPToken, message: str) -> None:
        self._sink.error(codes.DIRECTIVE, word.span, message)


def _text(tokens: Sequence[PPToken]) -> str:
    return "".join(t.text for t in tokens)
