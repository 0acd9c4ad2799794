"""What a call of C++ may do to the threads' order: read off the tokens of the function and of all that it calls.

A closed world: a function is plain if every name that it calls is plain - defined in the file's device text and plain
itself, a type, or arithmetic of the list below - and nothing in it can synchronise or reach shared memory by another
way than its arguments. A shuffle or a vote that all threads come to (divergence.py) makes it a collective of the warp.
Everything else is opaque.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

from croq.verify.divergence import STEERING, condition_of

Kind = Literal["plain", "warp", "block", "opaque"]
_RANK: dict[Kind, int] = {"plain": 0, "warp": 1, "block": 2, "opaque": 3}

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|(?P<string>R"(?P<d>[^(]*)\(.*?\)(?P=d)"|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      |(?P<name>[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*)|(?P<number>\.?\d(?:[\w.']|[eEpP][+-])*)|(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KEYWORDS = _words(
    """if for while switch return sizeof alignof decltype static_assert noexcept static_cast reinterpret_cast const_cast
    bool char short int long unsigned signed float double void auto typename template else do case constexpr"""
)
_TYPES = _words(
    """size_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t croq::s8 croq::u8 croq::s16 croq::u16
    croq::s32 croq::u32 croq::s64 croq::u64 croq::bf16 croq::f16 __nv_bfloat16 __nv_bfloat162 __half __half2 half half2
    float2 float3 float4 int2 int3 int4 uint2 uint3 uint4 bool char short int long unsigned signed float double auto"""
)
_MATHS = _words(
    """abs fabs min max fmin fmax floor ceil round rint trunc sqrt rsqrt cbrt exp exp2 exp10 expm1 log log2 log10 log1p
    pow sin cos tan asin acos atan atan2 sinh cosh tanh erf erfc fma fmod hypot ldexp copysign isnan isinf isfinite
    signbit fdividef saturate sincos"""
)
_ARITHMETIC = _MATHS | {f"{name}f" for name in _MATHS}
_NUMBER = r"(?:float2?|double|half2?|bfloat162?|int|uint|ll|ull|u?short|u?char)"
_INTRINSIC = re.compile(
    r"__[fdhiun]?(?:add|sub|mul|mul24|mulhi|mad|fma|fmaf|div|dividef|rcp|sqrt|rsqrt|exp|exp2|exp10|log|log2|log10|sin|cos"
    r"|tan|pow|max|min|abs|neg|saturate|clz|ctz|ffs|popc|brev|byte_perm|funnelshift_[lr]c?|sad)(?:ll|f|2)?(?:_r[nzud])?"
    rf"|__(?:{_NUMBER}|low|high|lows|highs|floats|halves)2{_NUMBER}(?:_r[nzud])?(?:_sat)?"
    r"|__u?int_as_float|__float_as_u?int|__longlong_as_double|__double_as_longlong|__ldg|make_\w+"
)
_WARP = re.compile(r"__(?:shfl(?:_up|_down|_xor)?|ballot|any|all|match_any|match_all|reduce_\w+)_sync|__syncwarp")
_BLOCK = re.compile(r"__syncthreads(?:_\w+)?|__barrier_sync\w*")
_OPAQUE = _words(
    "asm __asm __asm__ __shared__ extern volatile goto __constant__ operator new delete co_await co_yield throw try"
)
_CLASSES = _words("struct class union")
_DECORATION = _words("__launch_bounds__ __attribute__ alignas __align__ explicit noexcept")


@dataclass(frozen=True)
class Nature:
    """What a function may do, and the text that says so."""

    kind: Kind
    why: str = ""

    def worse(self, other: Nature) -> Nature:
        return other if _RANK[other.kind] > _RANK[self.kind] else self


PLAIN = Nature("plain")


class DeviceText:
    """The functions and macros of a file's device text."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self._bodies: dict[str, list[str]] = {}  # tokens of all that a name may stand for
        self._types: set[str] = set()
        self._constants: set[str] = set()  # parameters of templates, `constexpr` values
        self._implicit: list[str] = []  # tokens of what runs without being called by name: members, operators
        self._steering: set[str] = set()  # macros that may decide who goes on
        self._found: dict[str, Nature] = {}
        for text in texts:
            self._read(text)

    def nature(self, callee: str) -> Nature:
        """Of a call of the function by name."""
        callee = self._own(callee)
        if callee not in self._bodies:
            found = self._judge(callee)
            return Nature("opaque", "is not in the device text of the file") if found.kind == "opaque" else found
        return self._called(callee)

    def _called(self, callee: str) -> Nature:
        if callee not in self._found:
            self._found[callee] = PLAIN  # a function that calls itself adds nothing
            self._found[callee] = self._judge(callee).worse(self._unnamed)
        return self._found[callee]

    @cached_property
    def _unnamed(self) -> Nature:
        """Of constructors, operators and the like, of any class: which of them an expression runs is not followed."""
        return self._scan([token for token in self._implicit if token != "operator"])

    def _own(self, name: str) -> str:
        """The name under which a function of the file stands here: without its namespaces, which are not told apart."""
        last = name.rsplit("::", 1)[-1].strip()
        return last if name not in self._bodies and last in self._bodies else name

    # ------------------------------------------------------------------------------------------------------ reading
    def _read(self, text: str) -> None:
        """Each function's tokens stand under each name that a parenthesis follows before its body."""
        for line in re.findall(r"^[ \t]*#[ \t]*define[ \t]+((?:[^\n\\]|\\.|\\\n)*)", text, re.MULTILINE):
            macro = re.match(r"\w+", line)
            if macro is not None:
                body = [t for _, t in tokens(line[macro.end() :])]
                self._bodies.setdefault(macro.group(), []).extend(body)
                if not STEERING.isdisjoint(body):
                    self._steering.add(macro.group())
        bare = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", "", text, flags=re.MULTILINE)
        found = _unwrapped([token for _, token in tokens(bare)])
        for before, after in pairwise(found):
            if before in ("struct", "class", "enum", "union", "using", "typename"):
                self._types.add(after)
        self._constants |= set(_constants(found))
        self._items(found, "")

    def _items(self, found: list[str], space: str) -> None:
        """The declarations of a namespace; a function stands under its name and under its qualified ones."""
        start = 0
        for end in _ends(found):
            item, start = found[start:end], end
            brace = item.index("{") if "{" in item else len(item)
            head = item[:brace]
            if "namespace" in head[:2]:
                inner = "".join(f"{name}::" for name in head[head.index("namespace") + 1 :])
                self._items(item[brace + 1 : -1], space + inner)
                continue
            heads = (a for a, b in pairwise(head) if b == "(" and _is_name(a) and a not in _DECORATION)
            called = next(heads, None)
            if called is None or "operator" in head or _CLASSES & set(head):
                self._implicit += item[brace:] if "operator" not in head else item
            if called is not None:  # with the defaults of its parameters
                names = f"{space}{called}".split("::")
                for n in range(len(names)):
                    self._bodies.setdefault("::".join(names[n:]), []).extend(item[item.index(called) + 1 :])

    # ------------------------------------------------------------------------------------------------------ judging
    def _judge(self, name: str) -> Nature:
        name = self._own(name)
        if name in self._bodies:
            return self._scan(self._bodies[name])
        if name in self._types or name in _KEYWORDS or name in _TYPES:
            return PLAIN
        plain = name.removeprefix("std::").removeprefix("::")
        if plain in _ARITHMETIC or _INTRINSIC.fullmatch(plain):
            return PLAIN
        if _WARP.fullmatch(name):
            return Nature("warp", f"calls `{name}`")
        if _BLOCK.fullmatch(name):
            return Nature("block", f"calls `{name}`")
        return Nature("opaque", f"calls `{name}`, of which nothing is known")

    def _scan(self, body: list[str]) -> Nature:
        found = PLAIN
        for at, token in enumerate(body):
            if token in _OPAQUE:
                found = found.worse(Nature("opaque", f"contains `{token}`"))
            elif (_is_name(token) and token not in _KEYWORDS and _called(body, at)) or token in self._bodies:
                found = found.worse(self._at(body, at))
        return found

    def _at(self, body: list[str], at: int) -> Nature:
        """Of a call at its place: where not all threads need come, what takes a whole warp is no more than that."""
        called = self._called(body[at])
        if called.kind != "warp":
            return called
        condition = condition_of(body, at, self._constant) or next((t for t in body[:at] if t in self._steering), "")
        if not condition:
            return called
        return Nature("opaque", f"calls `{body[at]}`, which takes a whole warp, under or behind `{condition}`")

    def _constant(self, name: str) -> bool:
        return name in self._constants or name in _TYPES or name in ("sizeof", "true", "false")


def _constants(found: list[str]) -> Iterator[str]:
    """Names that templates declare, and of `constexpr` values."""
    for at, token in enumerate(found):
        if token == "template" and ">" in found[at:]:
            yield from filter(_is_name, found[at : found.index(">", at)])
        elif token == "constexpr" and "=" in found[at:]:
            yield found[found.index("=", at) - 1]


def _unwrapped(found: list[str]) -> list[str]:
    """Without the namespaces around all of it: `namespace a { namespace b { .. } }`, `extern "C" { .. }`."""
    while found[-1:] == ["}"] and ("namespace" in found[:2] or found[:1] == ["extern"]) and "{" in found[:4]:
        found = found[found.index("{") + 1 : -1]
    return found


def tokens(text: str) -> Iterator[tuple[str, str]]:
    """(kind, text), without spaces, comments and the contents of strings."""
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup if match.lastgroup != "d" else "string"
        if kind == "skip" or kind is None:
            continue
        token = match.group()
        yield kind, re.sub(r"\s+", "", token) if kind == "name" else '""' if kind == "string" else token


def _is_name(token: str) -> bool:
    return token[0].isalpha() or token[0] == "_"


def _called(body: list[str], at: int) -> bool:
    """Whether a parenthesis follows, or template arguments and then one."""
    rest = at + 1
    if rest < len(body) and body[rest] == "<":
        depth = 0
        while rest < len(body) and body[rest] not in (";", "{", "}"):
            depth += (body[rest] == "<") - (body[rest] == ">")
            rest += 1
            if not depth:
                break
    if rest >= len(body) or body[rest] != "(":
        return False
    return not _declares(body, at)


def _declares(body: list[str], at: int) -> bool:
    """`float x(1.0f)`: a variable that is given a value by parentheses."""
    return at > 0 and body[at - 1] in _TYPES


def _ends(found: list[str]) -> Iterator[int]:
    """Where the items at the outermost level end: behind a closing brace or a semicolon."""
    depth = 0
    for at, token in enumerate(found):
        depth += (token in "{(") - (token in "})") if len(token) == 1 else 0
        if depth == 0 and token in ("}", ";"):
            yield at + 1
    yield len(found)
