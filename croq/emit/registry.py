"""Which function emits which operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from croq.emit.expressions import Expr
from croq.emit.templating import Fields
from croq.emit.text import Line
from croq.ir.dispatch import Rules, lowered

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter

# A statement's fields for its template, or its lines, where operations share a template; None: it leaves no text.
StatementResult = Fields | list[Line] | None
Statement = Callable[["Emitter", Any], StatementResult]
Expression = Callable[["Emitter", Any], Expr]

# What becomes a statement is laid out by `templates/NAME.j2`; an expression is named by `value.j2`, where it needs one.
statement = Rules[Statement]("emission of statements", lambda kind: lowered(kind) and not kind.EXPRESSION)
expression = Rules[Expression]("emission of expressions", lambda kind: lowered(kind) and kind.EXPRESSION)
