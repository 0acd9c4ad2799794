"""What the remaining productions become: functions, moves, MMA and fragment operations, events."""

from __future__ import annotations

from dataclasses import dataclass

from lark import Token

from croq.source import Span
from croq.syntax import ast, codes
from croq.syntax.actions_expr import Children, element
from croq.syntax.actions_stmt import StmtActions
from croq.syntax.grammar import Extent

SWIZZLES = (32, 64, 128)


@dataclass
class Modifier:
    word: str  # without its dot
    value: int | None
    span: Span


@dataclass
class Target:
    """The name on the left of a move or an MMA."""

    name: str
    span: Span


@dataclass
class MmaParts:
    """An MMA statement before its name is known."""

    extent: Extent
    a_layout: str
    b_layout: str
    is_async: bool
    operands: tuple[ast.Expr, ast.Expr, ast.Expr]


@dataclass
class Fill:
    element: str | None
    value: ast.Expr


@dataclass
class Load:
    swizzle: int | None
    source: ast.Expr


class Actions(StmtActions):
    """All actions of the grammar. `start` gives the `Function`."""

    # -------------------------------------------------------------------------------------------------- functions
    def start(self, children: Children, extent: Extent) -> ast.Function:
        function: ast.Function = children[0]
        return function

    def function(self, children: Children, extent: Extent) -> ast.Function:
        returned, dims = children[1]
        name: Token = children[2]
        params = tuple(child for child in children if isinstance(child, ast.Param))
        return ast.Function(self.span(extent), name.value, self.span(name), returned, dims, params, children[-1])

    def return_type(self, children: Children, extent: Extent) -> tuple[str, tuple[ast.Dim, ...] | None]:
        return element(children[0].value), children[1] if len(children) > 1 else None

    def param_storage(self, children: Children, extent: Extent) -> Token:
        token: Token = children[0]
        return token

    def param(self, children: Children, extent: Extent) -> ast.Param:
        is_global, reference = False, None
        type, dims, name = "", None, None
        for child in children:
            if not isinstance(child, Token):
                dims = child
            elif child.type == "ELEM":
                type = element(child.value)
            elif child.value == "global":
                is_global = True
            elif child.value == "&":
                reference = child
            elif child.type == "NAME":
                name = child
            else:
                self._param_storage(child)
        if dims is not None and not is_global:
            self._known_dims(dims)
        if reference is not None:
            self._reference(reference, dims is not None and not is_global and name is not None)
        name_span = self.span(name if name is not None else extent)
        return ast.Param(self.span(extent), name.value if name else None, name_span, is_global, type, dims)

    def _param_storage(self, token: Token) -> None:
        hint = "write `global` for a device array of the caller, or nothing"
        self.sink.error("E-102", self.span(token), f"a parameter cannot be `{token.value}`", hint=hint)

    def _known_dims(self, dims: tuple[ast.Dim, ...]) -> None:
        for dim in dims:
            if dim.value is None and dim.span.text.count("?") > 1:
                hint = "write `?`, a name, or mark the parameter `global`"
                self.sink.error("E-108", dim.span, "only a `global` parameter may have a `??` dimension", hint=hint)

    def _reference(self, token: Token, allowed: bool) -> None:
        if allowed:
            self.not_yet(self.span(token), "`&` on a parameter", "pass the data as `global`: it is written in place")
            return
        hint = "remove the `&`"
        message = "`&` is only for named data parameters that are not `global`"
        self.sink.error("E-104", self.span(token), message, hint=hint)

    def dims(self, children: Children, extent: Extent) -> tuple[ast.Dim, ...]:
        return tuple(child for child in children if isinstance(child, ast.Dim))

    def dim(self, children: Children, extent: Extent) -> ast.Dim:
        value = children[0]
        return ast.Dim(self.span(extent), None if isinstance(value, Token) else value)

    # ------------------------------------------------------------------------------------------------------ moves
    def modifier(self, children: Children, extent: Extent) -> Modifier:
        word = children[0].value[1:]
        span = self.span(extent)
        if word not in ("swiz", "swizzle"):
            return Modifier(word, None, span)
        value = self._swizzle(children[2]) if len(children) > 1 else 128
        return Modifier("swiz", value, span)

    load_modifier = modifier

    def _swizzle(self, token: Token) -> int:
        value = int(token.value, 0) if token.value.isdigit() and len(token.value) < 6 else -1
        if value in SWIZZLES:
            return value
        hint = "write `.swiz<128>`, `.swiz<64>` or `.swiz<32>`"
        notes = ["the number is the width of the pattern in bytes, not the bits of a mask"]
        message = f"there is no swizzle of {token.value} bytes"
        self.sink.error("E-804", self.span(token), message, notes=notes, hint=hint)
        return 128

    def destination(self, children: Children, extent: Extent) -> ast.Expr | str:
        child: ast.Expr | Token = children[0]
        return child.value if isinstance(child, Token) else child

    def plain_move(self, children: Children, extent: Extent) -> ast.Stmt:
        return self._move(None, children[0], extent)

    def named_move(self, children: Children, extent: Extent) -> ast.Stmt:
        return self._move(self._target(children[0]), children[2], extent)

    def move(self, children: Children, extent: Extent) -> Children:
        return children

    def _move(self, target: Target | None, parts: Children, extent: Extent) -> ast.Stmt:
        engine: Token = parts[0]
        modifiers = [child for child in parts if isinstance(child, Modifier)]
        arrow = next(i for i, c in enumerate(parts) if isinstance(c, Token) and c.value == "=>")
        words = [m.word for m in modifiers]
        op = self._move_op(engine, modifiers)
        self._modifier_order(modifiers)
        evict = next((m for m in modifiers if m.word.startswith("evict")), None)
        if evict is not None and (engine.value, op) != ("tma", "load"):
            hint = "remove it; a copy to shared memory with a cache policy is written `tma.load`"
            self.sink.error("E-802", evict.span, f"`.{evict.word}` belongs to `tma.load` only", hint=hint)
        if len(parts) > arrow + 2:
            self.not_yet(self.span(parts[arrow + 2]), "`after` on a move", "wait for the other move before this one")
        swizzle = next((m.value for m in modifiers if m.word == "swiz"), None)
        return ast.Move(
            self.span(extent),
            target.name if target else None,
            target.span if target else None,
            engine.value,
            op,  # type: ignore[arg-type]
            "async" in words,
            evict.word if evict else None,  # type: ignore[arg-type]
            swizzle,
            parts[arrow - 1],
            parts[arrow + 1],
        )

    def _move_op(self, engine: Token, modifiers: list[Modifier]) -> str:
        first = modifiers[0]
        for extra in (m for m in modifiers[1:] if m.word in ("copy", "load")):
            message = f"`.{extra.word}` must directly follow `{engine.value}`, once"
            self.sink.error(codes.SYNTAX, extra.span, message, hint=f"write `{engine.value}.{extra.word}` first")
        if first.word not in ("copy", "load"):
            ops = "`tma.load` or `tma.copy`" if engine.value == "tma" else "`dma.copy`"
            message = f"`{engine.value}` must say what it does before `.{first.word}`"
            self.sink.error(codes.SYNTAX, first.span, message, hint=f"write {ops}")
            return "copy"
        if engine.value == "dma" and first.word == "load":
            hint = "write `dma.copy`, or `tma.load` for a load by the TMA engine"
            self.sink.error("E-801", first.span, "`dma` has no `.load`", hint=hint)
        return first.word

    def _modifier_order(self, modifiers: list[Modifier]) -> None:
        """The order is operation, `.async`, eviction, `.swiz<N>`; each at most once."""
        rank = {"copy": 0, "load": 0, "async": 1, "evict_first": 2, "evict_last": 2, "swiz": 3}
        hint = "the order is `.async`, then `.evict_first` or `.evict_last`, then `.swiz<N>`"
        highest = 0
        for modifier in modifiers:
            place = rank[modifier.word]
            if place and place <= highest:
                code = "E-803" if place == 2 else codes.SYNTAX
                again = place == highest
                message = f"`.{modifier.word}` {'is one too many' if again else 'stands too late'}"
                self.sink.error(code, modifier.span, message, hint=hint)
            highest = max(highest, place)

    def _target(self, place: ast.Expr) -> Target:
        if isinstance(place, ast.Name):
            return Target(place.id, place.span)
        message = "the result of this operation needs a plain name"
        self.sink.error(codes.SYNTAX, place.span, message, hint="write `name = ...;`")
        return Target("", place.span)

    # -------------------------------------------------------------------------------------------------------- mma
    def layout(self, children: Children, extent: Extent) -> str:
        return str(children[0].value[1:])

    def mma_fill(self, children: Children, extent: Extent) -> Fill:
        suffix = children[2].value[1:] if len(children) > 3 else None
        return Fill(element(suffix) if suffix else None, children[-1])

    def named_fill(self, children: Children, extent: Extent) -> ast.Stmt:
        target, fill = self._target(children[0]), children[2]
        return ast.MmaFill(self.span(extent), target.name, target.span, fill.element, fill.value, False)

    def refill(self, children: Children, extent: Extent) -> ast.Stmt:
        target = self._target(children[2])
        return ast.MmaFill(self.span(extent), target.name, target.span, None, children[4], True)

    def mma_load(self, children: Children, extent: Extent) -> Load:
        modifiers = [child for child in children if isinstance(child, Modifier)]
        for modifier in modifiers:
            if modifier.word == "async":
                self.not_yet(modifier.span, "`mma.load.async`", "leave `.async` out")
        return Load(next((m.value for m in modifiers if m.word == "swiz"), None), children[-1])

    def named_load(self, children: Children, extent: Extent) -> ast.Stmt:
        target, load = self._target(children[0]), children[2]
        return ast.MmaLoad(self.span(extent), target.name, target.span, load.swizzle, load.source)

    def mma_exec(self, children: Children, extent: Extent) -> MmaParts:
        is_async = isinstance(children[3], Token) and children[3].value == ".async"
        operands = tuple(child for child in children if isinstance(child, ast.Expr))
        return MmaParts(extent, children[1], children[2], is_async, operands)  # type: ignore[arg-type]

    def plain_mma(self, children: Children, extent: Extent) -> ast.Stmt:
        parts: MmaParts = children[0]
        if parts.is_async:
            hint = "give it a name to wait for: `qk = mma.row.row.async acc, a, b; wait qk;`"
            message = "nothing can wait for this asynchronous mma"
            self.sink.error(codes.SYNTAX, self.span(extent), message, hint=hint)
        return self._mma(None, parts, extent)

    def named_mma(self, children: Children, extent: Extent) -> ast.Stmt:
        target, parts = self._target(children[0]), children[2]
        if not parts.is_async:
            hint = f"remove `{target.name} =`, or write `.async` after the layouts and `wait {target.name};` later"
            message = "a synchronous mma gives nothing to name: its result is in the accumulator"
            self.sink.error(codes.SYNTAX, target.span, message, hint=hint)
        return self._mma(target, parts, extent)

    def _mma(self, target: Target | None, parts: MmaParts, extent: Extent) -> ast.Stmt:
        return ast.Mma(
            self.span(extent),
            target.name if target else None,
            target.span if target else None,
            parts.a_layout,  # type: ignore[arg-type]
            parts.b_layout,  # type: ignore[arg-type]
            parts.is_async,
            *parts.operands,
        )

    def mma_store(self, children: Children, extent: Extent) -> ast.Stmt:
        return ast.MmaStore(self.span(extent), children[2], children[4])

    # -------------------------------------------------------------------------------------------------- fragments
    def frag_copy(self, children: Children, extent: Extent) -> ast.Stmt:
        return ast.FragCopy(self.span(extent), children[2], children[4])

    def frag_reduce(self, children: Children, extent: Extent) -> ast.Stmt:
        kind = children[0].value.removeprefix("reduce_")
        return ast.FragReduce(self.span(extent), kind, children[2], children[4], children[6])

    def frag_all_reduce(self, children: Children, extent: Extent) -> ast.Stmt:
        return ast.FragAllReduce(self.span(extent), "sum", children[2])

    # ----------------------------------------------------------------------------------------------------- events
    def wait(self, children: Children, extent: Extent) -> ast.Stmt:
        return ast.Wait(self.span(extent), self._references(children[1:], "`wait` takes events and futures"))

    def trigger(self, children: Children, extent: Extent) -> ast.Stmt:
        after = tuple(children[-1]) if isinstance(children[-1], list) else ()
        events = [child for child in children if isinstance(child, ast.Expr)]
        return ast.Trigger(self.span(extent), self._references(events, "`trigger` takes events"), after)

    def _references(self, children: Children, message: str) -> tuple[ast.Expr, ...]:
        references = tuple(child for child in children if isinstance(child, ast.Expr))
        for reference in references:
            if not isinstance(reference, ast.Name | ast.Subscript | ast.At):
                hint = "write a name, `event.at(order)` or `event[slot]`"
                self.sink.error(codes.SYNTAX, reference.span, message, hint=hint)
        return references
