"""Which function emits which operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from croq.emit.expressions import Expr
from croq.emit.templating import Fields
from croq.emit.text import Line
from croq.ir.core import Op

if TYPE_CHECKING:
    from croq.emit.emitter import Emitter

# A statement's fields for its template, or its lines, where operations share a template; None: it leaves no text.
StatementResult = Fields | list[Line] | None
Statement = Callable[["Emitter", Any], StatementResult]
Expression = Callable[["Emitter", Any], Expr]

STATEMENTS: dict[type[Op], Statement] = {}
EXPRESSION_EMITTERS: dict[type[Op], Expression] = {}

_F = TypeVar("_F", bound=Callable[..., Any])


def statement(*ops: type[Op]) -> Callable[[_F], _F]:
    """Register the emission of operations that become statements, laid out by `templates/NAME.j2`."""

    def register(fn: _F) -> _F:
        for op in ops:
            STATEMENTS[op] = fn
        return fn

    return register


def expression(*ops: type[Op]) -> Callable[[_F], _F]:
    """Register the emission of operations that become expressions; `value.j2` names one where it needs a name."""

    def register(fn: _F) -> _F:
        for op in ops:
            EXPRESSION_EMITTERS[op] = fn
        return fn

    return register


def covered() -> set[type[Op]]:
    return set(STATEMENTS) | set(EXPRESSION_EMITTERS)
