"""Small changes to emitted CUDA at places that nobody chose: what a slip in any template or handler could make.

`draw` picks a kind of change, then a place, from the text of a kernel or from the functions of the runtime that it
uses. Nothing here knows what a program does; whether a change matters is for the execution of its PTX to say
(`tools/mutate_emission.py --blind`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

TEXT, RUNTIME = "text", "runtime"


@dataclass(frozen=True)
class Token:
    kind: str  # name, number, op
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True)
class Change:
    """`text[start:end]` becomes `new`. `place`: TEXT or RUNTIME; `kind`: the name of its maker."""

    kind: str
    place: str
    start: int
    end: int
    new: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]

    def describe(self, text: str) -> str:
        """The line before and after."""
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.end)
        line = text[first:last]
        changed = text[first : self.start] + self.new + text[self.end : last]
        number = text.count("\n", 0, first) + 1
        return f"{self.place}:{number}: {' '.join(line.split())}  ==>  {' '.join(changed.split())}"


_TOKEN = re.compile(
    r"(?P<skip>//[^\n]*|\"(?:\\.|[^\"\\])*\"|\#[^\n]*)|(?P<number>(?:0x[0-9a-fA-F]+|\d+\.?\d*(?:e[+-]?\d+)?f?)[uUlL]*)"
    r"|(?P<name>[A-Za-z_]\w*(?:::\w+)*)|(?P<op><<=|>>=|[-+*/%&|^<>=!]=|<<|>>|&&|\|\||\+\+|--|->|::|[^\s\w])"
)


def tokens(text: str, start: int = 0, end: int | None = None) -> list[Token]:
    """Names (qualified ones whole), numbers and operators; no comments, strings or directives."""
    end = len(text) if end is None else end
    found = []
    for match in _TOKEN.finditer(text, start, end):
        if match.lastgroup != "skip":
            found.append(Token(str(match.lastgroup), match.group(), match.start()))
    return found


# ---------------------------------------------------------------------------------------------------- kinds of change
Span = tuple[int, int, str]
Maker = Callable[[list[Token], str, random.Random], Iterator[Span]]
MAKERS: dict[str, Maker] = {}
_SWAPS = {
    "+": "-", "-": "+", "*": "+", "/": "%", "%": "/", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=",
    "!=": "==", "&": "|", "|": "&", "^": "|", "<<": ">>", ">>": "<<", "&&": "||", "||": "&&", "+=": "-=", "++": "--",
}  # fmt: skip


def maker(function: Maker) -> Maker:
    MAKERS[function.__name__.replace("_", " ")] = function
    return function


def _is_integer(token: Token) -> bool:
    return token.kind == "number" and "." not in token.text and not token.text.endswith("f")


def _closing(found: Sequence[Token], at: int) -> int:
    """The index of the token that closes the bracket at `at`; the last token's when none does."""
    pairs, depth = {"(": ")", "[": "]", "{": "}"}, 0
    left = found[at].text
    for i in range(at, len(found)):
        depth += (found[i].text == left) - (found[i].text == pairs[left])
        if depth == 0:
            return i
    return len(found) - 1


def _calls(found: Sequence[Token]) -> Iterator[tuple[str, int, int]]:
    """Name of each call, index of its bracket, index of the bracket that closes it."""
    for i, token in enumerate(found[1:], start=1):
        if token.text != "(":
            continue
        before = i - 1
        if found[before].text == ">":
            before = next((j for j in range(before, -1, -1) if found[j].text == "<"), 1) - 1
        name = found[before]
        if name.kind == "name" and name.text not in ("if", "for", "while", "asm", "volatile", "return", "sizeof"):
            yield name.text, i, _closing(found, i)


def _arguments(found: Sequence[Token], left: int, right: int) -> list[tuple[int, int]]:
    """Each argument of a call as its first token and the one behind its last."""
    parts, start, i = [], left + 1, left + 1
    while i < right:
        if found[i].text in "([{":
            i = _closing(found, i)
        elif found[i].text == ",":
            parts.append((start, i))
            start = i + 1
        i += 1
    return [*parts, (start, right)] if right > left + 1 else []


def _statements(found: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """First token of each simple statement and the one behind its semicolon."""
    start = depth = 0
    for i, token in enumerate(found):
        depth += (token.text in "([") - (token.text in ")]")
        if depth == 0 and token.text in "{}":
            start = i + 1
        if depth == 0 and token.text == ";":
            yield start, i + 1
            start = i + 1


def _other_numbers(value: int) -> list[int]:
    return sorted({value + 1, value - 1, value * 2, value // 2} - {value})


def _spelled(token: Token, value: int) -> str:
    suffix = token.text[len(token.text.rstrip("uUlL")) :]
    return (f"{value:#x}" if token.text.startswith("0x") else str(value)) + suffix


def _value(token: Token) -> int:
    return int(token.text.rstrip("uUlL"), 0)


@maker
def literal(found: list[Token], text: str, rng: random.Random) -> Iterator[Span]:
    for token in found:
        if _is_integer(token):
            yield token.start, token.end, _spelled(token, rng.choice(_other_numbers(_value(token))))


@maker
def operator(found: list[Token], text: str, rng: random.Random) -> Iterator[Span]:
    for before, token in pairwise(found):
        binary = before.kind in ("name", "number") or before.text in ")]"
        if token.text in _SWAPS and (binary or token.text == "++"):
            yield token.start, token.end, _SWAPS[token.text]


@maker
def arguments(found: list[Token], text: str, rng: random.Random) -> Iterator[Span]:
    for _, left, right in _calls(found):
        parts = _arguments(found, left, right)
        if len(parts) < 2:
            continue
        (a, b), (c, d) = sorted(rng.sample(parts, 2))
        first, second = text[found[a].start : found[b - 1].end], text[found[c].start : found[d - 1].end]
        if first != second:
            between = text[found[b - 1].end : found[c].start]
            yield found[a].start, found[d - 1].end, second + between + first


_TYPES = "s32|u32|s64|u64|f32|float|double|bf16|f16|bool|u8|s8|u16|s16"
_DECLARED = re.compile(rf"\b(?:const |constexpr )*({_TYPES})\s+(\w+)(\[[^;=]*?\])?\s*[=;]")
_SYNCHRONISES = re.compile(r"wait|arrive|sync|fence|commit|init\(|setmaxnreg")


@maker
def variable(found: list[Token], text: str, rng: random.Random) -> Iterator[Span]:
    declared = [(m.start(2), m.group(2), m.group(1) + (m.group(3) or "")) for m in _DECLARED.finditer(text)]
    types = {name: kind for _, name, kind in declared}
    for token in found:
        if token.kind != "name" or token.text not in types:
            continue
        others = {n for at, n, kind in declared if kind == types[token.text] and at < token.start} - {token.text}
        if others and not any(at == token.start for at, _, _ in declared):
            yield token.start, token.end, rng.choice(sorted(others))


@maker
def statement_deleted(found: list[Token], text: str, rng: random.Random) -> Iterator[Span]:
    for first, behind in _statements(found):
        if not _DECLARED.match(text, found[first].start):
            yield found[first].start, found[behind - 1].end, ";"


@maker
def statement_doubled(found: list[Token], text: str, rng: random.Random) -> Iterator[Span]:
    for first, behind in _statements(found):
        start, end = found[first].start, found[behind - 1].end
        if not _DECLARED.match(text, start) and behind - first > 1:
            yield start, end, "{ " + text[start:end] + " " + text[start:end] + " }"


@maker
def synchronisation_deleted(found: list[Token], text: str, rng: random.Random) -> Iterator[Span]:
    for first, behind in _statements(found):
        if _SYNCHRONISES.search(text, found[first].start, found[behind - 1].end):
            yield found[first].start, found[behind - 1].end, ";"


@maker
def barrier(found: list[Token], text: str, rng: random.Random) -> Iterator[Span]:
    for name, left, right in _calls(found):
        if not re.search(r"barrier|expect", name):
            continue
        for a, b in _arguments(found, left, right):
            start, end = found[a].start, found[b - 1].end
            words = text[start:end]
            yield start, end, rng.choice((f"({words}) ^ 1", f"({words}) + 8", f"({words}) * 2", f"({words}) / 2"))


_STRONG = {"*", "/", "%"}
_WEAK = {"+", "-", "^", "&", "&&", "||"}
_ENDS = {*_WEAK, ")", "]", "}", ",", ";", "?", ":", "<", ">", "==", "!=", "<=", ">="}


@maker
def term_dropped(found: list[Token], text: str, rng: random.Random) -> Iterator[Span]:
    """An operator and what stands behind it, up to the next of its rank."""
    for i, token in enumerate(found[1:-1], start=1):
        before = found[i - 1]
        binary = before.kind in ("name", "number") or before.text in ")]"
        if binary and token.text in _STRONG | _WEAK:
            end = _operand(found, i + 1, _ENDS if token.text in _WEAK else _ENDS | _STRONG)
            if end > i + 1:
                yield token.start, found[end - 1].end, ""


def _operand(found: list[Token], at: int, ends: set[str]) -> int:
    """The index behind an operand that begins at a token."""
    while at < len(found) and found[at].text not in ends:
        at = (_closing(found, at) if found[at].text in "([" else at) + 1
    return at


@maker
def template_argument(found: list[Token], text: str, rng: random.Random) -> Iterator[Span]:
    for name, left, inner, close in zip(found, found[1:], found[2:], found[3:], strict=False):
        if name.kind == "name" and left.text == "<" and _is_integer(inner) and close.text in (">", ","):
            yield inner.start, inner.end, _spelled(inner, rng.choice(_other_numbers(_value(inner))))


@maker
def one_bit(found: list[Token], text: str, rng: random.Random) -> Iterator[Span]:
    """Of a constant that is written in hexadecimal: descriptors and masks."""
    for token in found:
        if token.text.startswith("0x"):
            value = _value(token)
            bits = [b for b in range(32) if b < value.bit_length() + 2]
            yield token.start, token.end, _spelled(token, value ^ 1 << rng.choice(bits))


@maker
def condition(found: list[Token], text: str, rng: random.Random) -> Iterator[Span]:
    for at, (word, bracket) in enumerate(pairwise(found)):
        if word.text == "if" and bracket.text == "(":
            close = found[_closing(found, at + 1)]
            words = text[bracket.end : close.start]
            yield bracket.end, close.start, rng.choice(("true", f"!({words})", "false"))


@maker
def instruction(found: list[Token], text: str, rng: random.Random) -> Iterator[Span]:
    """A number in the text of an assembly statement, or two of its operands; `found` tells where to look."""
    start, end = found[0].start, found[-1].end
    for match in re.finditer(r"(?<![\w.])p, -?[01], -?[01](?:, [01])*;", text[start:end]):
        digit = rng.choice([m for m in re.finditer(r"-?[01]", match.group()) if m.start()])
        at = start + match.start() + digit.start()
        yield at, at + len(digit.group()), {"0": "1", "1": rng.choice(("-1", "0")), "-1": "1"}[digit.group()]
    for match in re.finditer(r"\"(\w+)\"\((\w+)\), \"\1\"\((\w+)\)", text[start:end]):
        at = start + match.start()
        yield at, at + len(match.group()), f'"{match[1]}"({match[3]}), "{match[1]}"({match[2]})'


# ------------------------------------------------------------------------------------------------------------ drawing
_FUNCTION = re.compile(
    r"^CROQ_FN [^;{}]*?\b(\w+)\([^;{}]*\) \{\n(?:.*?)^\}$|^CROQ_FN [^\n{]*?\b(\w+)\([^\n]*\}$", re.M | re.S
)


def runtime_places(runtime: str, cuda: str) -> list[tuple[int, int]]:
    """Where the bodies of the runtime's functions are that a text calls, by themselves or through one another."""
    bodies = [(m.group(1) or m.group(2), m.start(), m.end()) for m in _FUNCTION.finditer(runtime)]
    wanted, reached = set(re.findall(r"croq::(\w+)", cuda)), list[tuple[int, int]]()
    for _ in range(4):
        reached = [(start, end) for name, start, end in bodies if name in wanted]
        wanted |= {w for start, end in reached for w in re.findall(r"\b(\w+)[(<]", runtime[start:end])}
    return [(runtime.index("{", start), end) for start, end in reached]


def kernel_places(cuda: str, entries: Container[str]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Bodies of the kernels of these names, and wrappers of the instructions that they call."""
    bodies = []
    for match in re.finditer(r'^extern "C" __global__[^\n]*\n(\w+)\(.*?\) \{\n(.*?)^\}$', cuda, re.M | re.S):
        if match[1] in entries:
            bodies.append(match.span(2))
    called = {name for start, end in bodies for name in re.findall(r"\bwgmma\w+", cuda[start:end])}
    found = re.finditer(r"^CROQ_FN void (wgmma\w*).*?^\}$", cuda, re.M | re.S)
    return bodies, [m.span() for m in found if m[1] in called]


def draw(cuda: str, entries: Container[str], runtime: str, rng: random.Random) -> Change:
    """One change of the kernels of these names. Raises LookupError where a kind finds no place; draw again."""
    kind = rng.choice(sorted(MAKERS))
    bodies, wrappers = kernel_places(cuda, entries)
    in_runtime = kind != "instruction" and rng.random() < 0.2
    if kind == "instruction":
        places = wrappers
    else:
        places = runtime_places(runtime, "".join(cuda[a:b] for a, b in bodies)) if in_runtime else bodies
    if not places:
        raise LookupError(kind)
    text = runtime if in_runtime else cuda
    start, end = rng.choice(places)
    found = tokens(text, start, end)
    spans = list(MAKERS[kind](found, text, rng)) if found else []
    if not spans:
        raise LookupError(kind)
    chosen = rng.choice(spans)
    return Change(kind, RUNTIME if in_runtime else TEXT, *chosen)
