"""The arguments of an emitted kernel, in order: what the launcher passes and what the function's head declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from croq.emit.names import Names, outside_names
from croq.ir.core import Op
from croq.ir.hw import CopyTile, RegStore
from croq.ir.objects import Kernel, Param, TensorMap, View
from croq.ir.scalar import Symbol
from croq.ir.types import BYTES
from croq.target.cuda import VECTOR

ArgumentKind = Literal["tensor_map", "pointer", "scalar", "symbol"]


@dataclass(frozen=True)
class Argument:
    """One argument. `type`: the element type behind a pointer or map, or the type of a scalar; symbols are s32.

    `param`: the parameter that a pointer or scalar is, or that a map covers. `map`: the map. `symbol`: the dimension.
    `writable`: the kernel may write through the pointer. `alignment`: bytes that divide the pointer's address.
    """

    kind: ArgumentKind
    name: str
    type: str
    param: Param | None = None
    map: TensorMap | None = None
    symbol: str | None = None
    writable: bool = False
    alignment: int = 1


@dataclass(frozen=True)
class Arguments:
    """The arguments of one kernel and how to find them."""

    items: tuple[Argument, ...]

    def names(self) -> tuple[str, ...]:
        return tuple(argument.name for argument in self.items)

    def of_map(self, tensor_map: TensorMap) -> Argument:
        return next(a for a in self.items if a.map is tensor_map)

    def of_param(self, param: Param) -> Argument:
        return next(a for a in self.items if a.kind == "pointer" and a.param is param)

    def of_symbol(self, symbol: str) -> Argument:
        """A symbolic dimension, or a scalar parameter by name."""
        for argument in self.items:
            if argument.symbol == symbol:
                return argument
            if argument.kind == "scalar" and argument.param is not None and argument.param.name == symbol:
                return argument
        raise KeyError(symbol)


def signature(kernel: Kernel) -> tuple[Argument, ...]:
    """The kernel's arguments in order: tensor maps, pointers, scalar parameters, symbolic dimensions that it uses."""
    names = Names(outside_names(kernel))
    ops = list(kernel.walk())
    addressed = [e for e in kernel.effects() if isinstance(e.target, View) and isinstance(e.root, Param)]
    pointers = {id(e.root) for e in addressed}
    written = {id(e.root) for e in addressed if e.kind == "write"}
    vectors = {id(v.root) for op in ops if isinstance(op, (CopyTile, RegStore)) for v in _views(op)}
    used = _used_symbols(ops)
    arguments: list[Argument] = []
    for tensor_map in kernel.tensor_maps:
        cpp = tensor_map.name if tensor_map.name.endswith("_map") else f"{tensor_map.name}_map"
        arguments.append(
            Argument("tensor_map", names.declare(cpp), tensor_map.param.type, tensor_map.param, tensor_map)
        )
    for param in kernel.params:
        if param.shape is not None and ("pointer" in param.access or id(param) in pointers):
            alignment = VECTOR if id(param) in vectors else BYTES[param.type]
            arguments.append(
                Argument(
                    "pointer",
                    names.declare(param.name),
                    param.type,
                    param,
                    writable=id(param) in written,
                    alignment=alignment,
                )
            )
    scalars = [p for p in kernel.params if p.shape is None and p.name in used]
    arguments += [Argument("scalar", names.declare(p.name), p.type, p) for p in scalars]
    dimensions = [s for s in _symbol_order(kernel, used) if s not in {p.name for p in scalars}]
    arguments += [Argument("symbol", names.declare(s), "s32", symbol=s) for s in dimensions]
    return tuple(arguments)


def _views(op: Op) -> Iterator[View]:
    for item in vars(op).values():
        for part in item if isinstance(item, tuple) else (item,):
            if isinstance(part, View):
                yield part


def _used_symbols(ops: list[Op]) -> set[str]:
    """Symbols read by name, and those in the extents that addresses and guards are computed from."""
    used = {op.symbol for op in ops if isinstance(op, Symbol)}
    for op in ops:
        guarded = isinstance(op, (CopyTile, RegStore))
        for view in _views(op):
            if isinstance(view.root, Param) and view.root.shape is not None:
                for d, dim in enumerate(view.root.shape):
                    if d > 0 or (guarded and d in view.kept):
                        used |= dim.symbols()
    return used


def _symbol_order(kernel: Kernel, used: set[str]) -> list[str]:
    known = kernel.symbols()
    return [s for s in known if s in used] + sorted(used - set(known))
