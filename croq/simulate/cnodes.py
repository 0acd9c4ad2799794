"""What device functions are read into: expressions, statements, functions."""

from __future__ import annotations

from dataclasses import dataclass


class Unsupported(Exception):
    """A construct that the subset does not have; the text names it."""


@dataclass(frozen=True)
class CType:
    """A scalar type by the IR's name (or a template parameter's), perhaps a pointer to it or an array of `length`."""

    base: str
    pointer: bool = False
    reference: bool = False
    length: Expression | None = None


@dataclass(frozen=True)
class Number:
    value: int | float | bool
    type: str


@dataclass(frozen=True)
class Name:
    name: str


@dataclass(frozen=True)
class Prefix:
    op: str  # - + ! ~ * & ++ --
    operand: Expression


@dataclass(frozen=True)
class Postfix:
    op: str  # ++ --
    operand: Expression


@dataclass(frozen=True)
class Infix:
    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Assign:
    op: str  # "" for plain =, else the operator
    target: Expression
    value: Expression


@dataclass(frozen=True)
class Conditional:
    test: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True)
class Subscript:
    array: Expression
    index: Expression


@dataclass(frozen=True)
class Convert:
    type: CType
    operand: Expression


@dataclass(frozen=True)
class CallOf:
    name: str
    template: tuple[CType | Expression, ...]
    args: tuple[Expression, ...]


Expression = Number | Name | Prefix | Postfix | Infix | Assign | Conditional | Subscript | Convert | CallOf


@dataclass(frozen=True)
class Declare:
    type: CType
    name: str
    init: Expression | tuple[Expression, ...] | None


@dataclass(frozen=True)
class Do:
    expression: Expression


@dataclass(frozen=True)
class Choose:
    test: Expression
    then: Statement
    otherwise: Statement | None


@dataclass(frozen=True)
class Loop:
    """`for` and `while`."""

    init: Statement | None
    test: Expression | None
    step: Expression | None
    body: Statement


@dataclass(frozen=True)
class Leave:
    kind: str  # return | break | continue
    value: Expression | None


@dataclass(frozen=True)
class Sequence:
    body: tuple[Statement, ...]
    scope: bool = True


Statement = Declare | Do | Choose | Loop | Leave | Sequence


@dataclass(frozen=True)
class CFunction:
    name: str
    template: tuple[str, ...]  # names of template parameters
    result: CType
    params: tuple[tuple[CType, str], ...]
    body: Sequence
