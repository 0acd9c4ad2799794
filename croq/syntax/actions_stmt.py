"""What each production of the grammar's statements becomes: declarations, assignments, blocks, loops, `parallel`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lark import Token

from croq.source import Span
from croq.syntax import ast, codes
from croq.syntax.actions_expr import Children, ExprActions, element
from croq.syntax.grammar import Extent

Stmts = list[ast.Stmt]


@dataclass
class Head:
    """A compound statement that still lacks its body."""

    make: Callable[[Span, ast.Block], ast.Stmt]


@dataclass
class ParallelHead(Head):
    attribute: Callable[[list[ast.Attribute]], Head]


@dataclass
class Declarator:
    name: Token
    extents: tuple[ast.Expr, ...]
    init: ast.Expr | None
    braced: bool
    span: Span


@dataclass
class Bound:
    exprs: tuple[ast.Expr, ...]


@dataclass
class Names:
    tuple_name: str | None
    names: tuple[ast.Name, ...]
    bounds: tuple[ast.Expr, ...] = ()


class StmtActions(ExprActions):
    # ----------------------------------------------------------------------------------------------------- blocks
    def block(self, children: Children, extent: Extent) -> ast.Block:
        body = [stmt for child in children[1:-1] for stmt in child]
        return ast.Block(self.span(extent), tuple(body))

    def body(self, children: Children, extent: Extent) -> ast.Block:
        child = children[0]
        return child if isinstance(child, ast.Block) else ast.Block(self.span(extent), tuple(child))

    def terminated(self, children: Children, extent: Extent) -> Stmts:
        result = children[0]
        return result if isinstance(result, list) else [result]

    def empty(self, children: Children, extent: Extent) -> Stmts:
        return []

    def nested(self, children: Children, extent: Extent) -> Stmts:
        head, body = children
        return [head.make(self.span(extent), body)]

    def if_only(self, children: Children, extent: Extent) -> Stmts:
        return [ast.If(self.span(extent), children[2], children[4], None)]

    def if_else(self, children: Children, extent: Extent) -> Stmts:
        return [ast.If(self.span(extent), children[2], children[4], children[6])]

    def never(self, children: Children, extent: Extent) -> Stmts:
        raise AssertionError("the parser stops before it takes such a token")

    # ------------------------------------------------------------------------------------------------------ loops
    def while_head(self, children: Children, extent: Extent) -> Head:
        return Head(lambda span, body: ast.While(span, children[2], body))

    def inthreads(self, children: Children, extent: Extent) -> Head:
        is_async = children[1].value == ".async"
        return Head(lambda span, body: ast.InThreads(span, is_async, children[-2], body))

    def foreach_head(self, children: Children, extent: Extent) -> Head:
        return Head(lambda span, body: ast.Foreach(span, tuple(children[1]), body))

    def foreach_names(self, children: Children, extent: Extent) -> Head:
        withins = tuple(ast.Within(name.span, None, (name,), ()) for name in children[1])
        return Head(lambda span, body: ast.Foreach(span, withins, body))

    def with_head(self, children: Children, extent: Extent) -> Head:
        return Head(lambda span, body: ast.With(span, tuple(children[1]), body))

    def withins(self, children: Children, extent: Extent) -> list[ast.Within]:
        return children[::2]

    def within(self, children: Children, extent: Extent) -> ast.Within:
        matched: Names = children[0]
        ranges = tuple(children[3]) if len(children) > 3 else (children[2],)
        return ast.Within(self.span(extent), matched.tuple_name, matched.names, ranges)

    def within_names(self, children: Children, extent: Extent) -> Names:
        if len(children) == 1:
            return Names(None, (ast.Name(self.span(children[0]), children[0].value),))
        names = next(tuple(child) for child in children if isinstance(child, list))
        return Names(children[0].value if children[0].value != "{" else None, names)

    def apply_head(self, children: Children, extent: Extent) -> Head:
        domain = children[5]
        if not isinstance(domain, ast.SpanOf) or domain.axis is not None:
            hint = "write `apply {i, j} in x.span`, where x is the fragment"
            self.sink.error(codes.SYNTAX, domain.span, "`apply` runs over the span of a fragment", hint=hint)
        frag = domain.base if isinstance(domain, ast.SpanOf) else domain
        return Head(lambda span, body: ast.Apply(span, tuple(children[2]), frag, body))

    # --------------------------------------------------------------------------------------------------- parallel
    def attribute(self, children: Children, extent: Extent) -> ast.Attribute:
        name = children[2]
        if name.value == "maxnreg":
            self.not_yet(self.span(name), "`maxnreg`", "use `[[launch_bounds(_, 1)]]`")
        elif name.value != "launch_bounds":
            hint = "`[[launch_bounds(threads, blocks)]]` is the one that there is"
            self.sink.error(codes.SYNTAX, self.span(name), f"unknown attribute `{name.value}`", hint=hint)
        return ast.Attribute(self.span(extent), name.value, tuple(children[4]))

    def attributed(self, children: Children, extent: Extent) -> Head:
        head: ParallelHead = children[-1]
        return head.attribute(children[:-1])

    def parallel(self, children: Children, extent: Extent) -> Head:
        is_async = isinstance(children[1], Token)
        bindings = tuple(child for child in children if isinstance(child, ast.ParallelBinding))

        def attribute(attributes: list[ast.Attribute]) -> Head:
            return Head(lambda span, body: ast.Parallel(span, tuple(attributes), is_async, bindings, body))

        return ParallelHead(attribute([]).make, attribute)

    def binding(self, children: Children, extent: Extent) -> ast.ParallelBinding:
        bound: Names = children[0]
        level = children[2] if len(children) > 1 else None
        return ast.ParallelBinding(self.span(extent), bound.tuple_name, bound.names, bound.bounds, level)

    def binding_names(self, children: Children, extent: Extent) -> Names:
        bounds: Bound = children[-1]
        names = next((tuple(child) for child in children if isinstance(child, list)), None)
        if names is not None:
            return Names(children[0].value if children[0].value != "{" else None, names, bounds.exprs)
        first: Token = children[0]
        single = () if len(children) == 2 else (ast.Name(self.span(first), first.value),)
        return Names(None, single, bounds.exprs)

    def bound(self, children: Children, extent: Extent) -> Bound:
        return Bound(tuple(children[1]) if len(children) == 3 else (children[0],))

    def level(self, children: Children, extent: Extent) -> str:
        return str(children[0].value)

    # ----------------------------------------------------------------------------------------------- declarations
    def qualifier(self, children: Children, extent: Extent) -> Token:
        token: Token = children[0]
        return token

    def shape(self, children: Children, extent: Extent) -> tuple[ast.Expr, ...]:
        return tuple(children[1])

    def extent(self, children: Children, extent: Extent) -> ast.Expr:
        size: ast.Expr = children[1]
        return size

    def declarator(self, children: Children, extent: Extent) -> Declarator:
        opener = next((i for i, c in enumerate(children[1:], 1) if isinstance(c, Token)), None)
        extents = tuple(children[1:opener])
        init = children[opener + 1] if opener is not None else None
        braced = opener is not None and children[opener].value == "{"
        return Declarator(children[0], extents, init, braced, self.span(extent))

    def declarators(self, children: Children, extent: Extent) -> list[Declarator]:
        return children[::2]

    def _qualifiers(self, children: Children) -> tuple[ast.Storage | None, Token | None, Children]:
        """Storage, the `mutable`, and the children after them; says so when there is one too many."""
        count = next(i for i, c in enumerate(children) if not self._is_qualifier(c))
        storage: ast.Storage | None = None
        mutable: Token | None = None
        for token in children[:count]:
            if token.value == "mutable" and mutable is None:
                mutable = token
            elif token.value != "mutable" and storage is None:
                storage = token.value
            else:
                message = f"`{token.value}` is one qualifier too many"
                self.sink.error(codes.SYNTAX, self.span(token), message, hint="keep one storage, and one `mutable`")
        return storage, mutable, children[count:]

    @staticmethod
    def _is_qualifier(child: object) -> bool:
        return isinstance(child, Token) and child.value in ("global", "shared", "local", "mutable")

    def typed_declaration(self, children: Children, extent: Extent) -> Stmts:
        storage, mutable, rest = self._qualifiers(children)
        type = element(rest[0].value)
        if len(rest) == 2:
            # Element-type words declare variables; only `int` and `bool` need the word `mutable` for that.
            changes = mutable is not None or rest[0].value not in ("int", "bool")
            return [self._scalar(d, type, changes, storage, first) for d, first in self._spread(rest[1], extent)]
        self._no_mutable(mutable, "a buffer")
        result: Stmts = []
        for declarator, span in self._spread(rest[2], extent):
            self._only_filled(declarator)
            name = self.span(declarator.name)
            result.append(
                ast.BufferDecl(
                    span, declarator.name.value, name, storage, type, rest[1], declarator.extents, declarator.init
                )
            )
        return result

    def untyped_declaration(self, children: Children, extent: Extent) -> Stmts:
        storage, mutable, rest = self._qualifiers(children)
        if mutable is None:
            message = f"the type of this `{storage}` declaration is missing"
            hint = f"write `{storage} f32 [64, 64] tile;` for a buffer, `{storage} event full;` for an event"
            self.sink.error(codes.SYNTAX, self.span(children[0]), message, hint=hint)
        return [self._scalar(d, None, True, storage, span) for d, span in self._spread(rest[0], extent)]

    def frag_declaration(self, children: Children, extent: Extent) -> Stmts:
        storage, mutable, rest = self._qualifiers(children)
        self._no_mutable(mutable, "a fragment")
        if storage is not None:
            hint = f"remove `{storage}`: a fragment lives in the registers of its threads"
            self.sink.error(codes.SYNTAX, self.span(children[0]), "a fragment has no storage", hint=hint)
        result: Stmts = []
        for declarator, span in self._spread(rest[3], extent):
            self._only_filled(declarator)
            name, type = self.span(declarator.name), element(rest[1].value)
            result.append(
                ast.FragDecl(span, declarator.name.value, name, type, rest[2], declarator.extents, declarator.init)
            )
        return result

    def event_declaration(self, children: Children, extent: Extent) -> Stmts:
        storage, mutable, rest = self._qualifiers(children)
        self._no_mutable(mutable, "an event")
        result: Stmts = []
        for declarator, span in self._spread(rest[1], extent):
            init = declarator.init
            ready = isinstance(init, ast.Name) and init.id == "ready" and not declarator.braced
            if init is not None and not ready:
                hint = "write `= ready` for an event that starts complete, or nothing"
                self.sink.error("E-1012", init.span, "an event can start only `ready`", hint=hint)
            name = self.span(declarator.name)
            result.append(ast.EventDecl(span, declarator.name.value, name, storage, declarator.extents, ready))
        return result

    def _spread(self, declarators: list[Declarator], extent: Extent) -> list[tuple[Declarator, Span]]:
        """Each name of a declaration with its span; the first one's takes in the type before it."""
        first = self.joined(self.text.span(extent.start, extent.start + 1), declarators[0].span)
        return [(d, d.span if i else first) for i, d in enumerate(declarators)]

    def _scalar(
        self, declarator: Declarator, type: str | None, mutable: bool, storage: ast.Storage | None, span: Span
    ) -> ast.Stmt:
        if declarator.extents:
            word, name = type or "f32", declarator.name.value
            hint = f"for data write the extents after the type: `{storage or 'local'} {word} [N] {name};`"
            self.sink.error(codes.SYNTAX, declarator.extents[0].span, "a scalar has no extents", hint=hint)
        name_span = self.span(declarator.name)
        return ast.ScalarDecl(span, declarator.name.value, name_span, type, mutable, storage, declarator.init)

    def _no_mutable(self, mutable: Token | None, what: str) -> None:
        if mutable is not None:
            hint = "remove `mutable`: the elements can be written anyway"
            self.sink.error("E-318", self.span(mutable), f"{what} cannot be `mutable`", hint=hint)

    def _only_filled(self, declarator: Declarator) -> None:
        if declarator.init is not None and not declarator.braced:
            hint = f"write `{declarator.name.value} {{value}}` to fill all elements"
            self.sink.error(codes.SYNTAX, declarator.init.span, "data is not initialised with `=`", hint=hint)

    # ------------------------------------------------------------------------------------------------ assignments
    def assign(self, children: Children, extent: Extent) -> ast.Stmt:
        target, operator, value = children
        if not isinstance(target, ast.Name | ast.At):
            hint = "write one element: `x.at(i) = value;`"
            message = "only a variable or an element can be assigned"
            self.sink.error(codes.SYNTAX, target.span, message, hint=hint)
        return ast.Assign(self.span(extent), target, operator.value, value)

    def assigns(self, children: Children, extent: Extent) -> Stmts:
        return children[::2]

    def step_first(self, children: Children, extent: Extent) -> Stmts:
        return [ast.ExprStmt(self.span(extent), self.step_before(children, extent))]

    def step_last(self, children: Children, extent: Extent) -> Stmts:
        value = children[0]
        if not isinstance(value, ast.IncDec):
            hint = "was an assignment meant (`x = ...;`), or a `call`?"
            self.sink.error(codes.SYNTAX, value.span, "this statement does nothing", hint=hint)
        return [ast.ExprStmt(self.span(extent), value)]

    def call_statement(self, children: Children, extent: Extent) -> ast.Stmt:
        return ast.ExprStmt(self.span(extent), children[0])

    # ----------------------------------------------------------------------------------------------------- leaves
    def return_statement(self, children: Children, extent: Extent) -> ast.Stmt:
        return ast.Return(self.span(extent), children[1] if len(children) > 1 else None)

    def break_statement(self, children: Children, extent: Extent) -> ast.Stmt:
        return ast.Break(self.span(extent))

    def continue_statement(self, children: Children, extent: Extent) -> ast.Stmt:
        return ast.Continue(self.span(extent))

    def sync_statement(self, children: Children, extent: Extent) -> ast.Stmt:
        kind = children[1].value[1:]
        return ast.Sync(self.span(extent), kind, children[3] if len(children) > 2 else None)

    def assertion(self, children: Children, extent: Extent) -> ast.Stmt:
        texts = [token for token in children[3:-1] if getattr(token, "type", "") == "STRING"]
        return ast.Assert(self.span(extent), children[2], "".join(self.decoded(token) for token in texts))

    def cpp_text(self, children: Children, extent: Extent) -> ast.Stmt:
        return ast.CppText(self.span(extent), "".join(self.decoded(token) for token in children[2:-1]))
