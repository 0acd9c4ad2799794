"""Turns the token that fits nowhere into a message in the words of the language."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import lark

from croq.diagnostics import Sink
from croq.functions import FUNCTIONS
from croq.source import Span
from croq.syntax import codes
from croq.syntax.grammar import kind
from croq.syntax.phrases import MEMBERS, Token, found_text, wanted_text
from croq.syntax.sourcemap import ExpandedText

_C_WORDS = {
    "for": "write `foreach {i} in [n] { ... }`",
    "do": "write `while (condition) { ... }`",
    "switch": "write a chain of `if` and `else`",
    "const": "leave it out: a variable without `mutable` cannot change",
    "static": "leave it out",
    "constexpr": "leave it out: what is known at compile time is found out",
    "unsigned": "write `u32`",
    "signed": "write `s32`",
    "long": "write `s64`",
    "short": "write `s16`",
    "char": "write `s8`",
    "uint32_t": "write `u32`",
    "int32_t": "write `s32`",
    "uint64_t": "write `u64`",
    "int64_t": "write `s64`",
    "size_t": "write `u64`",
    "float32": "write `f32`",
    "bfloat16": "write `bf16`",
    "fp16": "write `f16`",
    "fp32": "write `f32`",
    "elif": "write `else if`",
    "__shared__": "write `shared`",
    "__syncthreads": "write `sync.shared;`, or better: an event",
}
_GONE_MMA = {
    ".wait": "name the operation and wait for it: `op = mma.row.row.async acc, a, b; wait op;`",
    ".commit": "remove it: each asynchronous mma is committed by itself",
    ".desc": "pass the shared tile itself as the operand",
}
_BUILTINS = ("max", "min", *FUNCTIONS)


@dataclass
class Context:
    """The fault and what is around it."""

    tokens: Sequence[Token]
    position: int
    expected: frozenset[str]
    text: ExpandedText
    sink: Sink

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def span(self, token: Token) -> Span:
        return self.text.span(token.start, token.end)

    def before(self, count: int = 1) -> Token:
        """The token `count` places back; an empty one beyond the beginning."""
        index = self.position - count
        return self.tokens[index] if index >= 0 else Token("", "", 0, 0)

    def after(self, count: int = 1) -> Token:
        return self.tokens[min(self.position + count, len(self.tokens) - 1)]

    def error(
        self, message: str, hint: str | None = None, code: str = codes.SYNTAX, token: Token | None = None
    ) -> bool:
        self.sink.error(code, self.span(token or self.token), message, hint=hint)
        return True

    def statement_start(self) -> int:
        """The index of the first token of the statement at hand."""
        index = self.position
        while index > 0 and self.tokens[index - 1].type not in (";", "{", "}"):
            index -= 1
        return index


Rule = Callable[[Context], bool]


def explain(context: Context) -> None:
    """Report the fault once, by the first rule that knows it."""
    for rule in _RULES:
        if rule(context):
            return
    _general(context)


def check_removed(tokens: Sequence[lark.Token], text: ExpandedText, sink: Sink) -> bool:
    """Old forms that would parse as something else; True when one was reported."""
    found = False
    for index, token in enumerate(tokens[:-4]):
        if token != "stage":
            continue
        if [kind(t) for t in tokens[index : index + 5]] == ["NAME", "<", "INT", ">", "("]:
            span = text.span(token.start_pos or 0, tokens[index + 3].end_pos or 0)
            hint = "declare an array and index it: `shared bf16 [128, 64] tile[2];` and `tile[order % 2]`"
            sink.error("E-202", span, "`stage<N>(...)` is gone", hint=hint)
            found = True
    return found


# --------------------------------------------------------------------------------------------------- not tokens at all
def _unknown_character(context: Context) -> bool:
    if context.token.type != "UNKNOWN":
        return False
    char = context.token.text
    plain = unicodedata.normalize("NFKC", char)
    if char == ".":
        hint = "a member follows its dot directly: `x.at(i)`; white space may only stand before the dot"
        return context.error("a lone `.`", hint)
    if char == '"':
        return context.error("this string is never closed", 'close it with `"` on the same line')
    if char == "'":
        return context.error("`.co` text has no character literals", "write the number")
    if plain != char and plain.isascii() and plain.strip():
        return context.error(f"unexpected character `{char}`", f"write the ASCII `{plain}`")
    shown = f"`{char}`" if char.isprintable() else f"U+{ord(char):04X}"
    return context.error(f"unexpected character {shown}")


def _bad_number(context: Context) -> bool:
    if context.token.type != "BAD_NUMBER":
        return False
    text = context.token.text
    hint = None
    if text.isdigit():
        hint = "write decimal numbers without leading zeros; there are no octal ones"
    elif "." in text or text.endswith(("f", "F")):
        hint = "write `1.0f` for f32, `1.0` for f64"
    shown = text if len(text) <= 40 else text[:40] + "..."
    return context.error(f"`{shown}` is not a number of the language", hint)


# ------------------------------------------------------------------------------------------------- removed spellings
def _gone_mma(context: Context) -> bool:
    token = context.token
    chain = [context.before(i).text for i in range(1, 4)]
    if "mma" not in chain:
        return False
    if token.text in _GONE_MMA:
        return context.error(f"`mma{token.text}` is gone", _GONE_MMA[token.text], "E-1101")
    if chain[0] == ".async" and token.type == "<":
        hint = "name the operation and wait for it: `op = mma.row.row.async acc, a, b; wait op;`"
        return context.error("an mma has no event", hint, "E-1101")
    if token.type in (".row", ".col") and chain[0] in (".row", ".col"):
        hint = "write the two layouts once: `mma.row.row` or `mma.row.col`"
        return context.error("an mma has two layouts and no order suffix", hint, "E-1101")
    return False


def _gone_move(context: Context) -> bool:
    token, previous = context.token, context.before()
    if token.type == ".store" and previous.text in ("tma", "dma"):
        hint = f"write `{previous.text}.copy tile => destination;`"
        return context.error(f"`{previous.text}.store` is gone", hint)
    if token.type == "<" and previous.type == ".async":
        engine = next((t.text for t in reversed(context.tokens[: context.position]) if t.text in ("tma", "dma")), "")
        if engine:
            hint = "bind the load: `load = tma.load.async tile => buffer; trigger event after load;`"
            return context.error(f"an event inside `{engine}` is gone", hint)
    if token.type == "<" and previous.text in ("swiz", "swizzle"):
        hint = "write it with its dot, as part of the operation: `tma.load.async.swiz<128>`"
        return context.error("a swizzle apart from its operation is gone", hint, token=previous)
    return False


# -------------------------------------------------------------------------------------------------------- not yet taken
def _not_yet(context: Context) -> bool:
    token = context.token
    if token.type in ("LATER", "LATER_DOT", "LATER_OP"):
        return context.error(f"`{token.text}` is not supported yet", _later_hint(token.text), codes.NOT_YET)
    if token.type == "<" and context.before().type == ".async" and context.before(2).text == "parallel":
        return context.error("a stream for `parallel` is not supported yet", "the caller chooses it", codes.NOT_YET)
    if token.type == "<" and context.before().type == "event":
        hint = "leave it out: arrivals are counted from who triggers"
        return context.error("`event<N>` is not supported yet", hint, codes.NOT_YET)
    if token.type == ":" and context.before().type == "NAME" and context.statement_start() == context.position - 1:
        return context.error("a shape as a variable is not supported yet", "use the extents themselves", codes.NOT_YET)
    if "NAME" in context.expected and "INT" in context.expected:
        if token.type == "{" and context.before().type == "=":
            return context.error("a tuple as a value is not supported yet", "use one variable for each", codes.NOT_YET)
        if token.type == "[" and context.before().type in ("=", ",", "("):
            return context.error("a shape as a value is not supported yet", "use the extents themselves", codes.NOT_YET)
    return False


def _later_hint(word: str) -> str | None:
    hints = {
        "swap": "index a buffer array by an order that goes on: `tile[order % 2]`",
        "rotate": "index a buffer array by an order that goes on: `tile[order % N]`",
        "select": "use a buffer array: `tile[i]`",
        "asm": 'use `__cpp__("...")`, or a `__device__` function and `call`',
        "__asm__": 'use `__cpp__("...")`, or a `__device__` function and `call`',
        "unroll": "leave it out: loops of known length are unrolled where that pays",
        ".scale": "multiply the accumulator in an `apply`",
        ".modspan": "use `.subspan`: tiles that overhang are cut anyway",
        ".chunk": "use `.subspan(extents).at(tile)`",
    }
    return hints.get(word)


def _unknown_member(context: Context) -> bool:
    token = context.token
    if token.type != "DOT_NAME":
        return False
    close = difflib.get_close_matches(token.text, MEMBERS, n=1)
    hint = f"did you mean `{close[0]}`?" if close else None
    return context.error(f"there is no `{token.text}`", hint)


# -------------------------------------------------------------------------------------------------------- common slips
def _missing_semicolon(context: Context) -> bool:
    previous, token = context.before(), context.token
    if ";" not in context.expected or not previous.end or _c_word(previous) or token.type in ("=", "=>", ":"):
        return False
    between = context.text.text[previous.end : token.start]
    if "\n" not in between and token.type != "}":
        return False
    span = context.text.span(previous.end - 1, previous.end)
    after = type(span)(span.file, span.end, span.end, span.expansion)
    context.sink.error(codes.SYNTAX, after, "`;` is missing here", hint="end the statement with `;`")
    return True


def _arrow(context: Context) -> bool:
    token = context.token
    if token.type == "=" and "=>" in context.expected:
        return context.error("a move is written with `=>`", "write `source => destination`")
    if token.type == "=>":
        hint = "a move begins with its engine: `tma.copy source => destination;`"
        return context.error("`=>` belongs to a move", hint)
    if token.type == "=" and "==" in context.expected:
        hint = "write `==` to compare" if ")" in context.expected else "write one statement for each"
        return context.error("`=` assigns, and an assignment is a statement of its own", hint)
    return False


def _c_word(token: Token) -> bool:
    return token.type == "NAME" and token.text in _C_WORDS


def _c_habit(context: Context) -> bool:
    for place in (context.before(), context.token):
        if _c_word(place):
            return context.error(f"`{place.text}` is not a word of the language", _C_WORDS[place.text], token=place)
    return False


def _call(context: Context) -> bool:
    token, previous = context.token, context.before()
    if token.type == "call":
        hint = "give its result a name first: `x = call f(...);`"
        return context.error("a `call` cannot stand inside an expression", hint)
    if token.type == "::" and previous.type == "NAME":
        return context.error(
            "a qualified name is only for a `call`", f"write `call {previous.text}::...`", token=previous
        )
    if token.type != "(" or previous.type != "NAME":
        return False
    name = previous.text
    base = name.strip("_").removesuffix("f") if name.strip("_") not in _BUILTINS else name.strip("_")
    close = difflib.get_close_matches(base, _BUILTINS, n=1, cutoff=0.75)
    if close and context.before(2).text != "call":
        return context.error(f"there is no builtin `{name}`", f"did you mean `__{close[0]}`?", token=previous)
    hint = f"write `call {name}(...)` for a device function"
    return context.error(f"`{name}(` is not how a function is called", hint, token=previous)


def _reserved(context: Context) -> bool:
    token = context.token
    if token.text in ("=", "+=", "-=") and context.statement_start() == context.position - 1:
        token = context.before()  # `assert = 3;`
        if token.type not in ("NAME", "ELEM") and token.text.isidentifier():
            return _no_name(context, token)
        return False
    word = token.text
    if "NAME" not in context.expected or not (word.isidentifier() or token.type == "GROUP4") or word == "_":
        return False
    names_thing = context.before().type in ("ELEM", ",", "mutable", "]", "{", "]", "call", "after", "event", "(", ";")
    if not names_thing or token.type == "NAME":
        return False
    if context.after().type not in ("=", ",", ";", "[", "{", ")", "in", "by", "}"):
        return False
    return _no_name(context, token)


def _no_name(context: Context, token: Token) -> bool:
    hint = f"choose another name, such as `{token.text.strip('_').replace('-', '_')}_`"
    return context.error(f"`{token.text}` is a word of the language and cannot be a name", hint, token=token)


def _statement_of_names(context: Context) -> bool:
    """`thing x = 3;`, `x.subspan(...);`: what begins like an assignment but is none."""
    if context.before().type != "NAME" or context.statement_start() != context.position - 1:
        return False
    name = context.before().text
    if context.token.type == "NAME":
        hint = "a declaration begins with an element type (`f32`, `u32`, ...), `mutable`, `shared`, `frag` or `event`"
        return context.error(
            f"`{name}` is neither a type nor a statement of the language", hint, token=context.before()
        )
    if context.token.type in (".subspan", ".chunkat", ".sqz", ".span", ".step"):
        return context.error(
            "a view does nothing by itself", f"give it a name: `tile = {name}{context.token.text}(...);`"
        )
    return False


def _attribute(context: Context) -> bool:
    if context.expected == {"parallel", "["}:
        hint = "move it directly before the `parallel` of the block level"
        return context.error("an attribute must stand directly before `parallel`", hint)
    if context.token.type == "[" and context.after().type == "[":
        return context.error("an attribute cannot stand here", "attributes stand directly before `parallel`")
    return False


def _parameter_suffix(context: Context) -> bool:
    in_head = not any(token.type == "{" for token in context.tokens[: context.position])
    if in_head and context.token.type == "[" and context.before().type == "NAME":
        hint = f"write the extents after the type: `f32 [N] {context.before().text}`"
        return context.error("a parameter has no array suffix", hint, "E-106")
    return False


def _no_function_body(context: Context) -> bool:
    if context.token.type == ";" and context.expected == {"{"}:
        return context.error("a `__co__` function cannot be declared only", "give it a body, `{ ... }`")
    return False


def _else_alone(context: Context) -> bool:
    if context.token.type != "else":
        return False
    return context.error("this `else` has no `if`", "an `else` directly follows the statement or `}` of its `if`")


_RULES: tuple[Rule, ...] = (
    _unknown_character,
    _bad_number,
    _gone_mma,
    _gone_move,
    _no_function_body,
    _parameter_suffix,
    _c_habit,
    _else_alone,
    _reserved,
    _not_yet,
    _unknown_member,
    _statement_of_names,
    _attribute,
    _missing_semicolon,
    _arrow,
    _call,
)


# ------------------------------------------------------------------------------------------------------------ otherwise
def _general(context: Context) -> None:
    found = found_text(context.token)
    wanted = wanted_text(context.expected)
    hint = None
    if (context.token.type == "}" and context.before().type in ("=", ",", "(")) or context.token.type == ";":
        hint = "something is missing before it"
    message = f"found {found}, expected {wanted}" if wanted else f"found {found}, which cannot stand here"
    span, previous = context.span(context.token), context.span(context.before())
    notes = []
    if previous.expansion is not None and span.expansion is None:
        notes.append(f"what stands before it, `{previous.text}`, is a macro defined at {previous.expansion}")
    context.sink.error(codes.SYNTAX, span, message, notes=notes, hint=hint)
