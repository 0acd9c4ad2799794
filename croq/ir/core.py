"""The machinery of the IR: values, named objects, blocks, operations.

An operation is a dataclass whose annotations declare what each field *is*; printer, walker, cloner and verifier are
derived from those declarations. The kinds a field may have:

    Value, Value | None, tuple[Value, ...]      operands (`result`/`results`/`iv`/`iterators` fields: values it defines)
    Block, Block | None                         regions
    Event, Buffer, Fragment, Param, Variable, TensorMap ... (anything in OBJECTS)   named objects
    View, EventRef, FragRef ... (any Composite), also optional or in tuples         objects together with operands
    int, str, bool, float, None and tuples of them, Dim                              attributes

Scalars and futures are SSA values. Buffers, fragments, events and mutable variables are named objects that operations
read and write; `Op.effects()` says which.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

from croq.ir.types import ThreadSet
from croq.sema.symbolic import Dim
from croq.source import Span


@dataclass(eq=False)
class Value:
    """An SSA value: a scalar of an element type, or a future. `name` is the source's name for it, if it has one.

    `bounds` is `[lo, hi)` where it is known statically.
    """

    type: str
    name: str | None = None
    bounds: tuple[int, int] | None = None
    op: Op | None = field(default=None, repr=False)  # what defines it; None for a region's own values


@dataclass(eq=False)
class Object:
    """A named thing that operations refer to. Names are unique in a kernel among objects of one class."""

    name: str
    span: Span | None = field(repr=False, kw_only=True, default=None)


class Composite:
    """An object reference together with operand values: a dataclass of Values, objects and attributes."""

    def values(self) -> Iterator[Value]:
        for f in fields(self):  # type: ignore[arg-type]
            yield from _values_in(getattr(self, f.name))

    def map_values(self, fn: Callable[[Value], Value]) -> Composite:
        """A copy with every operand replaced by `fn(operand)`."""
        new = {f.name: _map_in(getattr(self, f.name), fn) for f in fields(self)}  # type: ignore[arg-type]
        return type(self)(**new)


@dataclass(eq=False)
class Block:
    """A list of operations; every block is a scope of its own for names."""

    ops: list[Op] = field(default_factory=list)

    def walk(self) -> Iterator[Op]:
        """Every operation in the block, outermost first, in program order."""
        for op in list(self.ops):
            yield op
            for region in op.regions():
                yield from region.walk()


@dataclass(frozen=True)
class Effect:
    """`target` is touched; `until_wait` when the touch goes on after issue, until the operation's completion."""

    kind: Literal["read", "write"]
    target: Any  # Buffer | Fragment | Param | Variable | View | FragRef
    until_wait: bool = False


RESULT_FIELDS = frozenset({"result", "future", "iv", "iterators", "row_iterators"})


@dataclass(eq=False)
class Op:
    NAME: ClassVar[str] = ""
    TILE: ClassVar[bool] = False  # an operation of the tile vocabulary: none may be left after lowering
    PURE: ClassVar[bool] = False  # may be removed when unused, moved and duplicated

    span: Span | None = field(kw_only=True, default=None)
    threads: ThreadSet | None = field(kw_only=True, default=None)  # who executes it; None: not analysed or dynamic

    def results(self) -> Iterator[Value]:
        """Values that the operation defines for the operations after it, or for its regions."""
        for f in fields(self):
            if f.name in RESULT_FIELDS:
                yield from _values_in(getattr(self, f.name))

    def operands(self) -> Iterator[Value]:
        for f in fields(self):
            if f.name not in RESULT_FIELDS:
                yield from _values_in(getattr(self, f.name))

    def regions(self) -> Iterator[Block]:
        for f in fields(self):
            item = getattr(self, f.name)
            if isinstance(item, Block):
                yield item

    def effects(self) -> Iterable[Effect]:
        return ()

    def map_operands(self, fn: Callable[[Value], Value]) -> None:
        """Replace every operand in place (results and regions are untouched)."""
        for f in fields(self):
            if f.name not in RESULT_FIELDS and f.name != "threads":
                setattr(self, f.name, _map_in(getattr(self, f.name), fn))


_OpT = TypeVar("_OpT", bound=type[Op])
REGISTRY: dict[str, type[Op]] = {}
_ATTRIBUTES = (int, str, bool, float, NoneType, Dim, Span, ThreadSet)


@dataclass_transform(eq_default=False)
def operation(name: str, *, tile: bool = False, pure: bool = False) -> Callable[[_OpT], _OpT]:
    """Declare an operation class: makes it a dataclass, checks the kind of every field, registers its name."""

    def decorate(cls: _OpT) -> _OpT:
        made = dataclass(eq=False)(cls)
        made.NAME, made.TILE, made.PURE = name, tile, pure
        for field_name, hint in get_type_hints(made).items():
            if field_name not in ("NAME", "TILE", "PURE"):
                _check_kind(name, field_name, hint)
        if name in REGISTRY:
            raise TypeError(f"two operations are called {name}")
        REGISTRY[name] = made
        return typing.cast(_OpT, made)

    return decorate


def _check_kind(op: str, name: str, hint: Any) -> None:
    origin = get_origin(hint)
    if origin in (Union, UnionType, tuple):
        for arg in get_args(hint):
            if arg is not Ellipsis:
                _check_kind(op, name, arg)
    elif origin is Literal:
        return
    elif not (isinstance(hint, type) and issubclass(hint, (Value, Block, Object, Composite, *_ATTRIBUTES))):
        raise TypeError(f"{op}.{name}: no field kind for {hint!r}")


def _values_in(item: Any) -> Iterator[Value]:
    if isinstance(item, Value):
        yield item
    elif isinstance(item, Composite):
        yield from item.values()
    elif isinstance(item, tuple):
        for part in item:
            yield from _values_in(part)


def _map_in(item: Any, fn: Callable[[Value], Value]) -> Any:
    if isinstance(item, Value):
        return fn(item)
    if isinstance(item, Composite):
        return item.map_values(fn)
    if isinstance(item, tuple):
        return tuple(_map_in(part, fn) for part in item)
    return item
