"""Fits arrays to a kernel's parameters: element types, ranks, extents, and the symbols that they bind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from croq.diagnostics import Diagnostic, make
from croq.ir.objects import Kernel, Param
from croq.sema.symbolic import Dim
from croq.simulate.dtypes import DTYPES
from croq.simulate.faults import argument_fault

Block = tuple[int, int, int]


def bind_symbols(kernel: Kernel, arrays: Mapping[str, Any]) -> dict[str, int]:
    """The symbolic dimensions' values, from the shapes of arrays by parameter name.

    The first parameter that has a symbol as an extent gives its value; all other extents are checked. Raises
    LaunchError E-5001 (missing or unknown array), E-5002 (element type), E-5003 (rank), E-5004 (extent), E-5005
    (symbol).
    """
    data = [p for p in kernel.params if p.shape is not None]
    faults = list(_presence(data, arrays))
    bound: dict[str, int] = {}
    origin: dict[str, str] = {}
    for param in data:
        if param.name in arrays and param.shape is not None:
            array = arrays[param.name]
            wrong = list(_array_faults(param, array))
            faults += wrong
            if not wrong:
                _bind(param, array.shape, bound, origin)
    if not faults:
        faults = [f for p in data for f in _extent_faults(p, arrays[p.name].shape, bound, origin)]
    if faults:
        raise argument_fault(faults)
    return bound


def _presence(data: list[Param], arrays: Mapping[str, Any]) -> Iterator[Diagnostic]:
    names = [p.name for p in data]
    for param in data:
        if param.name not in arrays:
            yield make("E-5001", param.span, f"argument `{param.name}` is missing", hint="give an array for it")
    for name in arrays:
        if name not in names:
            yield make(
                "E-5001",
                None,
                f"the kernel has no data parameter `{name}`",
                notes=["it has " + (", ".join(f"`{n}`" for n in names) or "none")],
            )


def _array_faults(param: Param, array: Any) -> Iterator[Diagnostic]:
    if not isinstance(array, np.ndarray):
        kind = type(array).__name__
        yield make("E-5001", param.span, f"argument `{param.name}` is a {kind}, not a NumPy array")
        return
    assert param.shape is not None
    dtype = DTYPES[param.type]
    if array.dtype != dtype:
        yield make(
            "E-5002",
            param.span,
            f"argument `{param.name}` has elements of type {array.dtype}, the kernel says `{param.type}`",
            hint=f"convert it with `.astype({_spelling(dtype)})`",
        )
    if array.ndim != len(param.shape):
        yield make(
            "E-5003",
            param.span,
            f"argument `{param.name}` has {array.ndim} dimensions, the kernel says {len(param.shape)}",
        )


def _spelling(dtype: np.dtype[Any]) -> str:
    return f"ml_dtypes.{dtype.name}" if dtype.type.__module__.startswith("ml_dtypes") else f"numpy.{dtype.name}"


def _sole_symbol(dim: Dim) -> str | None:
    symbols = dim.symbols()
    if len(symbols) == 1 and dim == Dim.symbol(next(iter(symbols))):
        return next(iter(symbols))
    return None


def _bind(param: Param, shape: tuple[int, ...], bound: dict[str, int], origin: dict[str, str]) -> None:
    assert param.shape is not None
    for d, (dim, extent) in enumerate(zip(param.shape, shape, strict=True)):
        name = _sole_symbol(dim)
        if name is not None and name not in bound:
            bound[name] = extent
            origin[name] = f"dimension {d} of `{param.name}`"


def _extent_faults(
    param: Param, shape: tuple[int, ...], bound: Mapping[str, int], origin: Mapping[str, str]
) -> Iterator[Diagnostic]:
    assert param.shape is not None
    for d, (dim, extent) in enumerate(zip(param.shape, shape, strict=True)):
        where = f"dimension {d} of argument `{param.name}`"
        if extent < 1:
            yield make("E-5004", param.span, f"{where} is {extent}; extents are positive")
            continue
        unknown = dim.symbols() - bound.keys()
        if unknown:
            yield make("E-5005", param.span, f"nothing gives a value to `{sorted(unknown)[0]}` in {where}")
            continue
        wanted = dim.evaluate(bound)
        if wanted != extent:
            name = _sole_symbol(dim)
            known = name is not None and name in origin
            note = f"`{name}` is {wanted} from {origin[str(name)]}" if known else f"the kernel says `{dim}`"
            yield make("E-5004", param.span, f"{where} is {extent}, not {wanted}", notes=[note])


def check_scalars(kernel: Kernel, scalars: Mapping[str, int | float]) -> None:
    """Every scalar parameter has a value, and nothing else does. Raises LaunchError E-5001."""
    names = [p.name for p in kernel.params if p.shape is None]
    faults = [make("E-5001", None, f"scalar argument `{name}` is missing") for name in names if name not in scalars]
    faults += [
        make("E-5001", None, f"the kernel has no scalar parameter `{name}`") for name in scalars if name not in names
    ]
    if faults:
        raise argument_fault(faults)


def grid_of(kernel: Kernel, symbols: Mapping[str, int]) -> Block:
    """The grid's extents. Raises LaunchError E-5005 for an unbound symbol, E-5006 for an empty grid."""
    try:
        x, y, z = (dim.evaluate(symbols) for dim in kernel.grid)
    except KeyError as error:
        raise argument_fault([make("E-5005", None, f"symbol `{error.args[0]}` of the grid has no value")]) from None
    except ZeroDivisionError:
        raise argument_fault([make("E-5006", None, "the grid divides by zero")]) from None
    if min(x, y, z) < 1:
        text = " x ".join(str(dim) for dim in kernel.grid)
        raise argument_fault([make("E-5006", None, f"the grid {text} is empty: ({x}, {y}, {z})")])
    return x, y, z


def spread_blocks(grid: Block, count: int) -> list[Block]:
    """`count` blocks spread evenly over the grid in linear order (x fastest): the first, the last, and between.

    All of them when the grid has no more. Raises ValueError for a count below 1.
    """
    if count < 1:
        raise ValueError(f"{count} blocks")
    x, y, z = grid
    total = x * y * z
    if count >= total:
        numbers = list(range(total))
    elif count == 1:
        numbers = [0]
    else:
        numbers = [i * (total - 1) // (count - 1) for i in range(count)]
    return [(n % x, n // x % y, n // (x * y)) for n in numbers]


def check_blocks(blocks: Sequence[Block], grid: Block) -> list[Block]:
    """Raises LaunchError E-5006 for a block outside the grid."""
    for block in blocks:
        if len(block) != 3 or not all(0 <= b < g for b, g in zip(block, grid, strict=True)):
            raise argument_fault([make("E-5006", None, f"block {tuple(block)} lies outside the grid {grid}")])
    return [(int(b[0]), int(b[1]), int(b[2])) for b in blocks]
