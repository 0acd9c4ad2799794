"""What each production of the grammar's expressions becomes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lark import Token

import croq.numbers as numbers
from croq.diagnostics import Sink
from croq.operators import spellings
from croq.source import Span
from croq.syntax import ast, codes
from croq.syntax.grammar import Extent
from croq.syntax.sourcemap import ExpandedText, join

ELEMENT_ALIASES = {"float": "f32", "int": "s32", "half": "f16", "bfp16": "bf16", "double": "f64", "f8": "f8_e4m3"}
MAX_DIGITS = 64
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
_BITWISE = spellings("bits")
_ARITHMETIC = spellings("arithmetic", "shift")

Children = list[Any]


def element(text: str) -> str:
    """The canonical spelling of an element type."""
    return ELEMENT_ALIASES.get(text, text)


class ExprActions:
    """One method a production; children are nodes, tokens and lists, in the order of the grammar."""

    def __init__(self, text: ExpandedText, sink: Sink) -> None:
        self.text = text
        self.sink = sink
        self._grouped: set[ast.Expr] = set()  # what stood in parentheses

    def span(self, extent: Extent | Token) -> Span:
        if isinstance(extent, Token):
            return self.text.span(extent.start_pos or 0, extent.end_pos or 0)
        return self.text.span(extent.start, extent.end)

    # ------------------------------------------------------------------------------------------------------ lists
    def exprs(self, children: Children, extent: Extent) -> list[ast.Expr]:
        return children[::2]

    def names(self, children: Children, extent: Extent) -> list[ast.Name]:
        return [ast.Name(self.span(token), token.value) for token in children[::2]]

    # ---------------------------------------------------------------------------------------------------- primary
    def name(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.Name(self.span(extent), children[0].value)

    def wildcard(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.Wildcard(self.span(extent))

    def integer(self, children: Children, extent: Extent) -> ast.Expr:
        span, text = self.span(extent), children[0].value
        digits = text.rstrip("uUlL")
        suffix = text[len(digits) :].lower()
        value = int(digits, 0) if len(digits) <= MAX_DIGITS else 1 << 64
        unsigned, wide = "u" in suffix, "l" in suffix
        if value >= (1 << 64 if unsigned else 1 << 63):
            kind = "unsigned" if unsigned else "signed"
            hint = "add the suffix `u` for an unsigned value" if not unsigned and value < 1 << 64 else None
            self.sink.error("E-201", span, f"this integer does not fit in 64 bits ({kind})", hint=hint)
            value = 0
        if unsigned:
            return ast.IntLit(span, value, "u64" if wide or value >= 1 << 32 else "u32")
        return ast.IntLit(span, value, "s64" if wide or value >= 1 << 31 else "s32")

    def floating(self, children: Children, extent: Extent) -> ast.Expr:
        span, text = self.span(extent), children[0].value
        type = "f32" if text.endswith("f") else "f64"
        value = numbers.to_float(float(text.removesuffix("f")), type)
        if value == float("inf"):
            self.sink.error("E-201", span, f"this value does not fit in {type}", hint="write `inf` for infinity")
            value = 0.0
        return ast.FloatLit(span, value, type)

    def infinity(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.FloatLit(self.span(extent), float("inf"), "f32")

    def boolean(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.BoolLit(self.span(extent), children[0].value == "true")

    def string(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.StrLit(self.span(extent), "".join(self.decoded(token) for token in children))

    def decoded(self, token: Token) -> str:
        """The value of one string literal."""
        text = str(token)
        if text.startswith("R"):
            return text[text.index("(") + 1 : text.rindex(")")]
        result, position, body = [], 0, text[1:-1]
        while position < len(body):
            char = body[position]
            if char == "\\":
                position += 1
                char = _ESCAPES.get(body[position], "\\" + body[position])
            result.append(char)
            position += 1
        return "".join(result)

    def parenthesised(self, children: Children, extent: Extent) -> ast.Expr:
        inner: ast.Expr = replace(children[1], span=self.span(extent))
        self._grouped.add(inner)
        return inner

    # ------------------------------------------------------------------------------------------------- operations
    def binary(self, children: Children, extent: Extent) -> ast.Expr:
        left, operator, right = children
        if operator.value in _ARITHMETIC:
            self._warn_mixed(operator, left, right)
        elif operator.value in _BITWISE:
            self._warn_mixed_bits(operator, left)
        return ast.Binary(self.span(extent), operator.value, left, right)

    def prefix(self, children: Children, extent: Extent) -> ast.Expr:
        operator, operand = children
        if operator.value in ("-", "!"):
            self._warn_mixed(operator, operand)
        return ast.Unary(self.span(extent), operator.value, operand)

    def _warn_mixed(self, operator: Token, *operands: ast.Expr) -> None:
        """Where a reader of C would group differently: `a << 8 | b` is `a << (8 | b)` here."""
        for operand in operands:
            if self._is_bitwise(operand):
                self._warn_precedence(operand, operator)

    def _warn_mixed_bits(self, operator: Token, left: ast.Expr) -> None:
        if self._is_bitwise(left) and isinstance(left, ast.Binary) and left.op != operator.value:
            self._warn_precedence(left, operator)

    def _is_bitwise(self, operand: ast.Expr) -> bool:
        return isinstance(operand, ast.Binary) and operand.op in _BITWISE and operand not in self._grouped

    def _warn_precedence(self, inner: ast.Expr, outer: Token) -> None:
        op = inner.op if isinstance(inner, ast.Binary) else ""
        self.sink.warning(
            "W-201",
            inner.span,
            f"this `{op}` is evaluated before the `{outer.value}` beside it",
            notes=["`&`, `^` and `|` bind tighter than arithmetic here, from left to right, unlike in C"],
            hint="write the parentheses",
        )

    def ternary(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.Ternary(self.span(extent), children[0], children[2], children[4])

    def upper_bound(self, children: Children, extent: Extent) -> ast.Expr:
        operand = ast.Name(self.span(children[1]), children[1].value)
        return ast.Unary(self.span(extent), "#", operand)

    def step_before(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.IncDec(self.span(extent), children[0].value, True, children[1])

    def step_after(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.IncDec(self.span(extent), children[1].value, False, children[0])

    # ------------------------------------------------------------------------------------------------------ calls
    def builtin(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.Builtin(self.span(extent), children[0].value, tuple(children[2]))

    def cast(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.Cast(self.span(extent), element(children[2].value), children[5])

    def size_of(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.SizeOf(self.span(extent), element(children[1].value))

    def count_of(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.CountOf(self.span(extent), children[1])

    def path(self, children: Children, extent: Extent) -> ast.Name:
        return ast.Name(self.span(extent), "".join(token.value for token in children))

    def template_arg(self, children: Children, extent: Extent) -> ast.Expr:
        if isinstance(children[0], ast.Expr):
            return children[0]
        return ast.Name(self.span(extent), element("".join(token.value for token in children)))

    def device_call(self, children: Children, extent: Extent) -> ast.Expr:
        name: str = children[1].id
        opening = next(i for i, c in enumerate(children) if isinstance(c, Token) and c.value == "(")
        template = tuple(c for c in children[2:opening] if isinstance(c, ast.Expr))
        arguments = tuple(children[opening + 1]) if isinstance(children[opening + 1], list) else ()
        span = self.span(extent)
        if name.startswith("croq::cuda::evict_"):
            self.sink.error(
                "E-1203",
                span,
                f"`{name}` is gone: a cache policy belongs to one load",
                hint="write it on the load: `tma.load.async.evict_first.swiz<128> tile => buffer;`",
            )
        return ast.DeviceCall(span, name, children[1].span, template, arguments)

    # ------------------------------------------------------------------------------------------ data, views, shapes
    def subscript(self, children: Children, extent: Extent) -> ast.Expr:
        base, indices = children[0], tuple(children[2])
        if isinstance(base, ast.Subscript) and base not in self._grouped:
            return ast.Subscript(self.span(extent), base.base, base.indices + indices)
        return ast.Subscript(self.span(extent), base, indices)

    def at(self, children: Children, extent: Extent) -> ast.Expr:
        base, indices = children[0], tuple(children[3])
        if isinstance(base, ast.Subspan) and base.at is None and base not in self._grouped:
            return replace(base, span=self.span(extent), at=indices)
        return ast.At(self.span(extent), base, indices)

    def subspan(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.Subspan(self.span(extent), children[0], tuple(children[3]), None, None)

    def subspan_step(self, children: Children, extent: Extent) -> ast.Expr:
        base, steps = children[0], tuple(children[3])
        if isinstance(base, ast.Subspan) and base.at is None and base.step is None and base not in self._grouped:
            return replace(base, span=self.span(extent), step=steps)
        message = "`.step` must directly follow `.subspan(...)`"
        hint = "the order is `.subspan(extents).step(spacing).at(tile)`"
        self.sink.error(codes.SYNTAX, self.span(children[1]), message, hint=hint)
        return ast.Subspan(self.span(extent), base, steps, steps, None)

    def chunkat(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.ChunkAt(self.span(extent), children[0], tuple(children[3]))

    def squeeze(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.Squeeze(self.span(extent), children[0])

    def span_of(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.SpanOf(self.span(extent), children[0], children[3] if len(children) > 2 else None)

    def data_of(self, children: Children, extent: Extent) -> ast.Expr:
        return ast.DataOf(self.span(extent), children[0])

    def joined(self, first: Span, last: Span) -> Span:
        return join(first, last)

    def not_yet(self, span: Span, what: str, hint: str | None = None) -> None:
        self.sink.error(codes.NOT_YET, span, f"{what} is not supported yet", hint=hint)
