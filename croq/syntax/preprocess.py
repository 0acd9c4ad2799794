"""Splits a file into host text, device text and `__co__` functions, and expands the macros of the latter.

Directives are interpreted everywhere, because a `#define` in host text counts for later functions; text is rewritten
only inside `__co__` functions. Host and device text stay as they are: C++ reads them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from croq.diagnostics import CompileError, Sink, make
from croq.source import SourceFile, Span
from croq.syntax import codes
from croq.syntax.braces import Braces
from croq.syntax.directives import KNOWN, Directives
from croq.syntax.macros import ArgumentSplitter, Expander, command_line_macros
from croq.syntax.outside import Declaration, Head, Outside
from croq.syntax.pptokens import PPToken, RawToken, located, scan
from croq.syntax.sourcemap import ExpandedText


@dataclass(frozen=True)
class HostChunk:
    span: Span


@dataclass(frozen=True)
class DeviceChunk:
    """`text` is what C++ shall read: without the `.co` keyword that marked it."""

    span: Span
    text: str
    name: str | None


@dataclass(frozen=True)
class KernelChunk:
    """A `__co__` function; `broken`: faults in it are reported already, parsing it would only produce echoes."""

    span: Span
    expanded: ExpandedText
    broken: bool


Chunk = HostChunk | DeviceChunk | KernelChunk


@dataclass(frozen=True)
class Preprocessed:
    """`chunks`: the file in order and, but for the marks of `__cok__` blocks, without gaps. `outside`: its C++."""

    chunks: list[Chunk]
    outside: Outside


_NOT_A_NAME = frozenset(("__launch_bounds__", "__align__", "__attribute__", "alignas", "decltype", "noexcept"))
_DEVICE_WORDS = frozenset(("__device__", "__co_device__", "__cok__"))


def preprocess(file: SourceFile, defines: Mapping[str, str], sink: Sink) -> Preprocessed:
    """Split `file`.

    `defines` are the macros of the command line. Faults go to `sink`; raises `CompileError` where going on is useless:
    a bad name in `defines` (E-2009), macros that explode (E-2008).
    """
    splitter = _Splitter(file, Expander(command_line_macros(defines), sink), sink)
    splitter.note_unused(defines)
    splitter.declarations = [_macro(name, f"#define {name} {value}") for name, value in defines.items()]
    return splitter.run()


class _Splitter:
    """Walks the tokens of the file once; one method for each of the three kinds of text."""

    def __init__(self, file: SourceFile, expander: Expander, sink: Sink) -> None:
        self.file = file
        self.expander = expander
        self.sink = sink
        self.directives = Directives(expander, sink)
        self.tokens = scan(file.text)
        self.position = 0
        self.chunks: list[Chunk] = []
        self.flushed = 0  # everything before this offset is in a chunk
        self.depth = 0  # of braces and parentheses in host text
        self.declaration: Head | None = None  # the declaration at hand: at file level, or in a namespace
        self.declarations: list[Declaration] = []
        self.path: list[str] = []  # heads of the namespaces around it
        self.last_kernel: Span | None = None

    def run(self) -> Preprocessed:
        self.fresh = True  # nothing but blanks so far on this line
        while self.position < len(self.tokens):
            if not self._housekeeping(False):
                self._host(self.tokens[self.position])
        self._flush(len(self.file.text))
        self.directives.finish()
        return Preprocessed(self.chunks, Outside(tuple(self.declarations), tuple(self.directives.includes)))

    def note_unused(self, defines: Mapping[str, str]) -> None:
        """Say which macros of the command line the file never mentions: most often a slip."""
        words = {self.text(token) for token in self.tokens if token.kind == "word"}
        for name in defines:
            if name in words:
                continue
            close = difflib.get_close_matches(name, sorted(words), n=1)
            hint = f"did you mean `{close[0]}`?" if close else None
            message = f"nothing in this file uses the macro `{name}` of the command line"
            self.sink.add(make(codes.UNUSED_DEFINE, None, message, severity="note", hint=hint))

    def _housekeeping(self, in_kernel: bool) -> bool:
        """Deal with what is alike in all kinds of text: directives, inactive text, comments that never end."""
        token = self.tokens[self.position]
        if token.kind in ("open_comment", "open_string"):
            what, hint = ("comment", "add `*/`") if token.kind == "open_comment" else ("raw string", 'add `)"`')
            where = Span(self.file, token.start, token.start + 2)
            self.sink.error(codes.SYNTAX, where, f"this {what} is never closed", hint=hint)
            raise CompileError(self.sink.diagnostics)
        if self.fresh and self.text(token) == "#" and self._directive(in_kernel):
            return True
        if token.kind == "newline":
            self.fresh = True
        elif token.kind not in ("space", "comment"):
            self.fresh = False
        if self.directives.active:
            return False
        self.position += 1
        return True

    def _directive(self, in_kernel: bool) -> bool:
        """Interpret the directive at the current `#`; False where the `#` is an operator, or C++'s own."""
        line = []
        at = self.position + 1
        while at < len(self.tokens) and self.tokens[at].kind not in ("newline", "open_comment"):
            line.append(self.tokens[at])
            at += 1
        first = next((i for i, t in enumerate(line) if t.kind not in ("space", "comment")), None)
        if first is None or self.text(line[first]) not in KNOWN:
            return False
        rest = [located(self.file, t) for t in line[first + 1 :]]
        begin = self.tokens[self.position].start
        word = PPToken("word", self.text(line[first]), Span(self.file, begin, line[first].end))
        self.directives.handle(word, rest, in_kernel)
        self._note_macro(begin, self.tokens[at - 1].end, rest)
        self.position = at
        if not in_kernel and self.depth == 0:
            self.declaration = None
        return True

    # ------------------------------------------------------------------------------------------------------- host
    def _host(self, token: RawToken) -> None:
        text = self.text(token)
        self.position += 1
        if token.kind in ("space", "newline", "comment"):
            return
        if token.kind == "word" and text == "__co__":
            self.position -= 1
            self._kernel(token)
            return
        if self.declaration is None:
            self.declaration = Head(token.start)
        if token.kind == "word" and text in _DEVICE_WORDS and self.depth == 0:
            self._device(token, text)
            return
        if self.depth == 0:
            self.declaration.feed(text)
        if token.kind == "punct":
            self._host_punctuation(token, text, self.declaration)

    def _host_punctuation(self, token: RawToken, text: str, head: Head) -> None:
        if text == "{" and self.depth == 0 and head.opens_namespace:
            self.path.append(self.file.text[head.start : token.start].strip())
            self.declaration = None
        elif text in "({":
            self.depth += 1
        elif text in ")}":
            self._host_closing(token, text, head)
        elif text == ";" and self.depth == 0:
            self._end_declaration(head, token.end)

    def _host_closing(self, token: RawToken, text: str, head: Head) -> None:
        if self.depth == 0 and text == "}":
            if self.path:
                self.path.pop()
            elif self.last_kernel is not None:
                self._stray_brace(token)
            self.declaration = None
        self.depth = max(0, self.depth - 1)
        if text == "}" and self.depth == 0 and head is self.declaration and head.ends_with_body:
            self._end_declaration(head, token.end)

    def _end_declaration(self, head: Head, end: int) -> None:
        self.declarations.append(head.declaration(self.file.text[head.start : end], tuple(self.path)))
        self.declaration = None

    def _note_macro(self, begin: int, end: int, rest: list[PPToken]) -> None:
        """Keep an active `#define` or `#undef` for the emitted file, whose C++ may use it."""
        text = self.file.text[begin:end]
        name = next((t.text for t in rest if not t.blank), "")
        if self.directives.active and re.match(r"#\s*(define|undef)\b", text):
            self.declarations.append(_macro(name, text))

    def _stray_brace(self, token: RawToken) -> None:
        assert self.last_kernel is not None
        end = Span(self.file, self.last_kernel.end - 1, self.last_kernel.end)
        self.sink.error(
            codes.SYNTAX,
            Span(self.file, token.start, token.end),
            "this `}` closes nothing",
            labels=[(end, "the `__co__` function before it ended here already")],
            hint="remove the `}` that is too many; it may be further up",
        )
        self.last_kernel = None

    def _flush(self, end: int) -> None:
        if end > self.flushed:
            self.chunks.append(HostChunk(Span(self.file, self.flushed, end)))
        self.flushed = max(self.flushed, end)

    # ----------------------------------------------------------------------------------------------------- device
    def _device(self, keyword: RawToken, word: str) -> None:
        """Capture up to the `}` that closes the body, or to a `;` outside all brackets."""
        begin = keyword.start if word == "__cok__" or self.declaration is None else self.declaration.start
        self._flush(begin)
        brackets: list[RawToken] = []
        name, previous, initialiser, operator, body = None, "", False, False, -1
        while self.position < len(self.tokens):
            if self._housekeeping(False):
                continue
            token = self.tokens[self.position]
            self.position += 1
            text = self.text(token)
            if token.kind == "punct" and text in "([{":
                if text == "(" and not brackets and name is None and previous not in _NOT_A_NAME:
                    name = previous if previous.isidentifier() else None
                body = token.end if body < 0 and text == "{" else body
                brackets.append(token)
            elif token.kind == "punct" and text in ")]}":
                if brackets:
                    brackets.pop()
                if text == "}" and not brackets and not initialiser:
                    self._end_device(begin, keyword, word, token, body, name)
                    return
            elif text == "=" and not brackets and not operator:
                initialiser = True
            elif text == ";" and not brackets:
                self._end_device(begin, keyword, word, token, body, name)
                return
            operator = operator or text == "operator"
            previous = text if token.kind not in ("space", "newline", "comment") else previous
        opened = brackets[-1] if brackets else keyword
        where = Span(self.file, opened.start, opened.end)
        self.sink.error(codes.SYNTAX, where, f"this {word} text never ends", hint="a bracket or a `;` is missing")
        raise CompileError(self.sink.diagnostics)

    def _end_device(
        self, begin: int, keyword: RawToken, word: str, last: RawToken, body: int, name: str | None
    ) -> None:
        span = Span(self.file, begin, last.end)
        text = span.text
        if word == "__cok__":
            text, name = self.file.text[body : last.start] if body >= 0 else "", None
        elif word == "__co_device__":
            text = self.file.text[begin : keyword.start] + "__device__" + self.file.text[keyword.end : last.end]
        self.chunks.append(DeviceChunk(span, text, name))
        names = re.findall(r"(\w+)\s*\(", text) if word == "__cok__" else [name] if name else []
        self.declarations.append(Declaration(text, tuple(self.path), frozenset(names), device=True))
        self.flushed = last.end
        self.declaration = None

    # ----------------------------------------------------------------------------------------------------- kernel
    def _kernel(self, keyword: RawToken) -> None:
        """Capture a `__co__` function from its keyword to the `}` that closes its body."""
        where = Span(self.file, keyword.start, keyword.end)
        if self.depth > 0 or self.path:
            hint = "move it out of the braces around it; namespaces and classes cannot hold one"
            self.sink.error(codes.SYNTAX, where, "a `__co__` function must stand at the top level", hint=hint)
        faults = self._faults()
        self._flush(keyword.start)
        out = ExpandedText(self.file)
        braces = Braces(self.file, self.sink)
        end, count = keyword.start, 0
        while self.position < len(self.tokens):
            if self._housekeeping(True):
                continue
            token = self.tokens[self.position]
            text = self.text(token)
            if text == "__co__" and token is not keyword and token.kind == "word":
                break
            count += token.kind not in ("space", "newline", "comment")
            self._check_length(count, token)
            end = token.end
            if self._kernel_token(out, braces, token, text):
                break
        braces.finish(where)
        span = Span(self.file, keyword.start, end)
        self.chunks.append(KernelChunk(span, out, self._faults() > faults))
        self.last_kernel = span if self.depth == 0 and not self.path else None
        self.flushed = end
        self.declaration = None

    def _check_length(self, count: int, token: RawToken) -> None:
        if count > codes.MAX_TOKENS:
            where = Span(self.file, token.start, token.end)
            message = f"this function is longer than {codes.MAX_TOKENS} tokens"
            self.sink.error(codes.TOO_LARGE, where, message, hint="split it, or use loops")
            raise CompileError(self.sink.diagnostics)

    def _kernel_token(self, out: ExpandedText, braces: Braces, token: RawToken, text: str) -> bool:
        """Copy or expand one token; True at the end of the function."""
        self.position += 1
        if token.kind == "comment":
            out.separate(token.start)
        elif token.kind == "word" and text in self.expander.table:
            done = False
            for piece in self._expand(located(self.file, token)):
                out.expanded(piece.text, piece.span)
                done = braces.feed(piece.text, piece.span.start) or done
            return done
        else:
            if token.kind == "punct" and text == '"':
                hint = 'close it with `"` on the same line; write `\\n` for a line end'
                where = Span(self.file, token.start, token.end)
                self.sink.error(codes.SYNTAX, where, "this string is never closed", hint=hint)
                raise CompileError(self.sink.diagnostics)  # its end is a guess, and so is all that follows
            out.verbatim(token.start, token.end)
            return token.kind == "punct" and braces.feed(text, token.start)
        return False

    def _expand(self, use: PPToken) -> list[PPToken]:
        macro = self.expander.table[use.text]
        if macro.parameters is None:
            return self.expander.expand(use, macro, None)
        at = self.position
        while at < len(self.tokens) and self.tokens[at].kind in ("space", "newline", "comment"):
            at += 1
        if at == len(self.tokens) or self.text(self.tokens[at]) != "(":
            return [use]
        splitter = ArgumentSplitter()
        while at < len(self.tokens):
            token = located(self.file, self.tokens[at])
            at += 1
            if splitter.feed(token):
                self.position = at
                return self.expander.expand(use, macro, splitter.arguments)
        message = f"the arguments of macro `{use.text}` are never closed"
        self.sink.error(codes.DIRECTIVE, use.span, message, hint="add `)`")
        raise CompileError(self.sink.diagnostics)

    def text(self, token: RawToken) -> str:
        return self.file.text[token.start : token.end]

    def _faults(self) -> int:
        return sum(d.severity == "error" for d in self.sink.diagnostics)


def _macro(name: str, text: str) -> Declaration:
    return Declaration(text, (), frozenset((name,)), serves=True)
