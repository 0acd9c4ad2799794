"""Binds the arguments of a launch to a kernel's parameters, and refuses what the kernel was not compiled for.

Nothing is launched before every rule here holds: a wrong extent or stride would otherwise be a wrong number or a fault
of the device. Works on views of arrays, wherever they lie, so that a launch and a simulation obey the same rules.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from croq.diagnostics import Diagnostic, LaunchError, make
from croq.driver.arrays import ArrayView, view
from croq.driver.tensormap import TensorMapSpec, array_faults, spec_faults
from croq.emit.signature import signature
from croq.ir.objects import Kernel, Param, TensorMap
from croq.ir.types import BYTES, FLOATS
from croq.numbers import MAX_EXTENT
from croq.sema.symbolic import Dim
from croq.target.cuda import MAX_GRID, TMA_STRIDE_MULTIPLE

Device = tuple[str, int]  # ("cuda", 0); ("cpu", 0)
INT32_MAX = 2**31 - 1
INTEGER_RANGES = {
    "s64": (-(2**63), 2**63 - 1), "u64": (0, 2**64 - 1), "s32": (-(2**31), INT32_MAX), "u32": (0, 2**32 - 1),
    "s16": (-(2**15), 2**15 - 1), "u16": (0, 2**16 - 1), "s8": (-128, 127), "u8": (0, 255),
}  # fmt: skip
SAME_STORAGE = {"tf32": "f32"}  # element types whose arrays are those of another type


Scalar = int | float | bool


@dataclass(frozen=True)
class Bound:
    """Arguments that fit. `symbols` holds the dimensions and the integer scalars by name."""

    symbols: Mapping[str, int]
    arrays: Mapping[str, ArrayView]
    scalars: Mapping[str, Scalar]
    grids: tuple[tuple[int, int, int], ...]  # one a kernel
    device: Device


@dataclass
class _State:
    faults: list[Diagnostic] = field(default_factory=list)
    symbols: dict[str, int] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)  # what gave a symbol its value, in words
    arrays: dict[str, ArrayView] = field(default_factory=dict)
    scalars: dict[str, Scalar] = field(default_factory=dict)

    def fault(self, code: str, param: Param | None, message: str, *notes: str, hint: str | None = None) -> None:
        self.faults.append(make(code, param.span if param else None, message, notes=notes, hint=hint))

    def check(self) -> None:
        if self.faults:
            raise LaunchError(self.faults)


def bind(kernels: Sequence[Kernel], arguments: Sequence[ArrayView | Scalar]) -> Bound:
    """Bind one argument a parameter, in order, for the kernels of one function. Raises LaunchError with all faults.

    The first parameter that carries a symbol gives its value; every other occurrence is checked against it.
    """
    params = kernels[0].params
    state = _State()
    if len(arguments) != len(params):
        raise LaunchError([_count_fault(kernels[0], len(arguments))])
    for index, (param, argument) in enumerate(zip(params, arguments, strict=True), 1):
        if param.shape is None:
            _bind_scalar(state, param, argument, index)
        elif isinstance(argument, ArrayView):
            state.arrays[param.name] = argument
            _check_array(state, param, argument, index)
        else:
            state.fault("E-4051", param, f"argument {index} (`{param.name}`) must be an array, not {_kind(argument)}")
    state.check()
    _bind_extents(state, params)
    state.check()
    _check_requirements(state, kernels[0])
    state.check()
    device = _one_device(state, params)
    for kernel in kernels:
        _check_access(state, kernel)
    state.check()
    grids = tuple(_grid(state, kernel) for kernel in kernels)
    state.check()
    return Bound(state.symbols, state.arrays, state.scalars, grids, device)


def views(params: Sequence[Param], arguments: Sequence[Any]) -> list[ArrayView | Scalar]:
    """Arguments as `bind` takes them: views of arrays, and numbers. Raises LaunchError E-400x."""
    names = [param.name for param in params] + [f"{i + 1}" for i in range(len(params), len(arguments))]
    for param, argument in zip(params, arguments, strict=False):
        if param.shape is None and not is_number(argument) and not _is_array(argument):
            message = f"argument `{param.name}` is a `{type(argument).__name__}`, not a number of type `{param.type}`"
            raise LaunchError([make("E-4062", param.span, message)])
    return [a if is_number(a) else view(a, n) for a, n in zip(arguments, names, strict=False)]


def is_number(value: Any) -> bool:
    """A number, Python's or NumPy's; an array of rank 0 of another library is not one."""
    return isinstance(value, (int, float, np.generic))


def _is_array(value: Any) -> bool:
    return any(hasattr(value, name) for name in ("croq_view", "__dlpack__", "__cuda_array_interface__"))


def written_params(kernel: Kernel) -> set[str]:
    """Names of the parameters whose data the kernel may write."""
    return {param.name for kind, param in _param_effects(kernel) if kind == "write"}


def read_params(kernel: Kernel) -> set[str]:
    """Names of the parameters whose data the kernel may read."""
    return {param.name for kind, param in _param_effects(kernel) if kind == "read"}


# ------------------------------------------------------------------------------------------------- one argument
def _count_fault(kernel: Kernel, given: int) -> Diagnostic:
    names = ", ".join(param.name for param in kernel.params)
    message = f"`{kernel.name}` takes {len(kernel.params)} arguments, and {given} were given"
    return make("E-4050", None, message, notes=[f"its parameters are, in order: {names}"])


def _bind_scalar(state: _State, param: Param, argument: ArrayView | Scalar, index: int) -> None:
    where = f"argument {index} (`{param.name}`)"
    if isinstance(argument, ArrayView):
        state.fault("E-4062", param, f"{where} must be a number of type `{param.type}`, not an array")
        return
    value = _scalar(param.type, argument)
    if value is None:
        state.fault("E-4062", param, f"{where} must be a number of type `{param.type}`, not {argument!r}")
        return
    state.scalars[param.name] = value
    if isinstance(value, int):
        state.symbols[param.name] = int(value)
        state.origins[param.name] = where


def _scalar(kind: str, value: Any) -> Scalar | None:
    """The value as the parameter's type holds it; None when it does not."""
    if kind == "bool":
        return bool(value) if isinstance(value, bool) or type(value).__name__ == "bool_" else None
    if kind in FLOATS:
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            return None
    try:
        number = operator.index(value)
    except TypeError:
        return None
    low, high = INTEGER_RANGES[kind]
    return number if low <= number <= high else None


def _check_array(state: _State, param: Param, array: ArrayView, index: int) -> None:
    assert param.shape is not None
    where = f"argument {index} (`{param.name}`)"
    wanted = SAME_STORAGE.get(param.type, param.type)
    if array.dtype != wanted:
        state.fault("E-4052", param, f"{where} has elements of type `{array.dtype}`, and the kernel reads `{wanted}`")
    if len(array.shape) != len(param.shape):
        dims = ", ".join(map(str, param.shape))
        state.fault(
            "E-4053", param, f"{where} has {len(array.shape)} dimensions, and the kernel declares {len(param.shape)}",
            f"declared [{dims}], given {list(array.shape)}",
        )  # fmt: skip
    for axis, extent in enumerate(array.shape):
        if extent < 1:
            state.fault("E-4056", param, f"{where} has extent {extent} in dimension {axis}: extents are positive")
        elif extent > MAX_EXTENT:
            state.fault(
                "E-4057", param, f"{where} has extent {extent} in dimension {axis}, beyond the {MAX_EXTENT} of a size"
            )


# ------------------------------------------------------------------------------------------------------ dimensions
def _bind_extents(state: _State, params: Sequence[Param]) -> None:
    pending: list[tuple[Param, int, int, Dim]] = []
    for index, param in enumerate(params, 1):
        for axis, dim in enumerate(param.shape or ()):
            symbol = _bare_symbol(dim)
            extent = state.arrays[param.name].shape[axis]
            if symbol is not None and symbol not in state.symbols:
                state.symbols[symbol] = extent
                state.origins[symbol] = f"dimension {axis} of argument {index} (`{param.name}`)"
            else:
                pending.append((param, index, axis, dim))
    for param, index, axis, dim in pending:
        _check_extent(state, param, index, axis, dim)


def _bare_symbol(dim: Dim) -> str | None:
    """The name, when the dimension is nothing but one symbol."""
    names = dim.symbols()
    if len(names) != 1:
        return None
    (name,) = names
    return name if dim == Dim.symbol(name) else None


def _check_extent(state: _State, param: Param, index: int, axis: int, dim: Dim) -> None:
    extent = state.arrays[param.name].shape[axis]
    unbound = sorted(dim.symbols() - state.symbols.keys())
    where = f"argument {index} (`{param.name}`)"
    if unbound:
        state.fault("E-4066", param, f"no argument says what `{unbound[0]}` is in the shape of {where}")
        return
    wanted = dim.evaluate(state.symbols)
    if wanted == extent:
        return
    if dim.known is not None:
        state.fault(
            "E-4054", param, f"{where} has extent {extent} in dimension {axis}, and the kernel is compiled for {wanted}"
        )
        return
    notes = [f"`{name}` = {state.symbols[name]} comes from {state.origins[name]}" for name in sorted(dim.symbols())]
    state.fault(
        "E-4055", param, f"{where} has extent {extent} in dimension {axis}, where `{dim}` is {wanted}", *notes
    )  # fmt: skip


def _check_requirements(state: _State, kernel: Kernel) -> None:
    """What the function asserts of its arguments."""
    for rule in kernel.requirements:
        if rule.holds(state.symbols):
            continue
        names = sorted(rule.left.symbols() | rule.right.symbols())
        notes = [f"`{name}` = {state.symbols[name]} comes from {state.origins[name]}" for name in names]
        if rule.message:
            notes.append(rule.message)
        message = f"`{kernel.name}` takes only arguments with {rule}"
        state.faults.append(make("E-4071", rule.span, message, notes=notes, hint="pass arguments of fitting shapes"))


# ---------------------------------------------------------------------------------------------- memory and devices
def _one_device(state: _State, params: Sequence[Param]) -> Device:
    """The device of all arrays that the device reaches directly."""
    found: dict[Device, str] = {}
    for index, param in enumerate(params, 1):
        if param.shape is not None and param.is_global:
            found.setdefault(state.arrays[param.name].device, f"argument {index} (`{param.name}`)")
    if len(found) > 1:
        places = ", ".join(f"{where} is on {device_name(device)}" for device, where in found.items())
        state.fault("E-4061", None, f"the arrays are on different devices: {places}", hint="move them to one device")
    return next(iter(found), ("cpu", 0))


def device_name(device: Device) -> str:
    return f"cuda:{device[1]}" if device[0] == "cuda" else "the CPU"


def _check_access(state: _State, kernel: Kernel) -> None:
    alignments = {a.param.name: a.alignment for a in signature(kernel) if a.kind == "pointer" and a.param is not None}
    written = written_params(kernel)
    for index, param in enumerate(kernel.params, 1):
        if param.shape is None:
            continue
        array = state.arrays[param.name]
        where = f"argument {index} (`{param.name}`)"
        if not array.writable and param.name in written:
            state.fault("E-4064", param, f"{where} is read-only, and the kernel writes it", hint="pass a copy")
        maps = [tensor_map for tensor_map in kernel.tensor_maps if tensor_map.param is param]
        if maps:
            _check_tma(state, param, array, where, maps)
        if param.name in alignments:
            _check_pointer(state, param, array, where, alignments[param.name])


def _check_tma(state: _State, param: Param, array: ArrayView, where: str, maps: Sequence[TensorMap]) -> None:
    """The rules of tensor maps: the copy engine walks real strides, but only in steps of 16 bytes."""
    if array.shape[-1] > 1 and array.strides[-1] != 1:
        state.fault(
            "E-4058", param,
            f"{where} has stride {array.strides[-1]} in its last dimension: the copy engine needs 1 there",
            hint="pass a contiguous copy",
        )  # fmt: skip
        return
    for tensor_map in maps:
        spec, dims, strides = map_arguments(tensor_map, array, state.symbols)
        axes = [_axis(param, axis) for axis in tensor_map.axes]
        found = [*spec_faults(spec, param.name, axes)]
        found += array_faults(spec, array.pointer, dims, strides, param.name, axes)
        for fault in found:
            state.faults.append(replace(fault, span=param.span))


def _axis(param: Param, axis: int) -> str:
    """A dimension as the kernel's author and the array's owner count it, with its name in the declaration."""
    assert param.shape is not None
    return f"dimension {axis} (`{param.shape[axis]}`)"


def map_arguments(
    tensor_map: TensorMap, array: ArrayView, symbols: Mapping[str, int]
) -> tuple[TensorMapSpec, tuple[int, ...], tuple[int, ...]]:
    """What `croq.driver.tensormap.encode` takes: spec, extents in elements, outer strides in bytes, innermost first.

    The map walks the array's real strides. Along a dimension of extent 1 nobody steps, so its stride is free, and the
    array's own may be one that the copy engine refuses.
    """
    size = BYTES[tensor_map.param.type]
    dims = tuple(dim.evaluate(symbols) for dim in tensor_map.dims)
    strides = []
    for k, axis in enumerate(tensor_map.axes[1:], 1):
        if axis == tensor_map.axes[0] and tensor_map.split is not None:
            stride = tensor_map.split * size  # the same dimension again, a slab a step
        else:
            stride = array.strides[axis] * size
        strides.append(stride if dims[k] > 1 else -(-size // TMA_STRIDE_MULTIPLE) * TMA_STRIDE_MULTIPLE)
    spec = TensorMapSpec(tensor_map.param.type, tensor_map.box, tensor_map.swizzle)
    return spec, dims, tuple(strides)


def _check_pointer(state: _State, param: Param, array: ArrayView, where: str, alignment: int) -> None:
    if not array.contiguous:
        state.fault(
            "E-4059", param, f"{where} is not contiguous: strides {list(array.strides)} for shape {list(array.shape)}",
            "the kernel reaches this array by plain pointers, row after row", hint="pass a contiguous copy",
        )  # fmt: skip
    if array.pointer % alignment:
        _misaligned(state, param, array, where, alignment)
    if prod(array.shape) > INT32_MAX:
        state.fault(
            "E-4057", param, f"{where} has {prod(array.shape)} elements, beyond the {INT32_MAX} of a 32-bit index"
        )


def _misaligned(state: _State, param: Param, array: ArrayView, where: str, alignment: int) -> None:
    message = f"{where} starts at an address that is no multiple of {alignment} bytes (0x{array.pointer:x})"
    state.fault("E-4060", param, message, hint="pass an array that starts an allocation, or a copy")


def _grid(state: _State, kernel: Kernel) -> tuple[int, int, int]:
    sizes = []
    for axis, (dim, limit) in enumerate(zip(kernel.grid, MAX_GRID, strict=True)):
        try:
            size = dim.evaluate(state.symbols)
        except ZeroDivisionError:
            state.fault("E-4063", None, f"the grid of `{kernel.name}` divides by zero: `{dim}`")
            size = 1
        if not 1 <= size <= limit:
            state.fault(
                "E-4063", None, f"the grid of `{kernel.name}` would have {size} blocks along {'xyz'[axis]} (`{dim}`)",
                f"the device takes 1 to {limit} there",
            )  # fmt: skip
        sizes.append(size)
    return sizes[0], sizes[1], sizes[2]


# -------------------------------------------------------------------------------------------------------- effects
def _param_effects(kernel: Kernel) -> Iterator[tuple[str, Param]]:
    return ((e.kind, e.root) for e in kernel.effects() if isinstance(e.root, Param))


def _kind(value: Any) -> str:
    return f"{value!r}" if isinstance(value, (int, float, bool)) else f"a `{type(value).__name__}`"
