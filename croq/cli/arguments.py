"""The arguments of a simulation from the command line: numbers, `.npy` files, and what is drawn at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from croq.binding import Scalar, read_params, written_params
from croq.cli.options import refused
from croq.diagnostics import LaunchError, make
from croq.driver.arrays import NUMPY_TYPES, ArrayView, row_major, view
from croq.ir.objects import Param
from croq.ir.types import FLOATS
from croq.kernel import Kernel
from croq.sema.symbolic import Dim
from croq.texts import close

Array = np.ndarray[Any, Any]
_EXAMPLES = {"bool": "true"}
ANYWHERE = 4096  # an address as good as any: what is not made yet will be aligned


@dataclass(frozen=True)
class Planned:
    """An array that will be drawn at random."""

    param: Param
    shape: tuple[int, ...]


def plan_arguments(
    kernel: Kernel, symbols: Mapping[str, int], given: Mapping[str, str]
) -> list[Scalar | Array | Planned]:
    """An argument a parameter: a number, an array from a file, or the shape of one to be made.

    Raises LaunchError E-4190 for a missing number, E-4191 for a dimension without a value, E-4192 for a bad file.
    """
    params = kernel.devices[0].params
    known_names([*given], [param.name for param in params], "--arg")
    known_names(
        [*symbols], sorted({name for p in params for dim in p.shape or () for name in dim.symbols()}), "--shape"
    )
    arrays = {p.name: _load(given[p.name], p) for p in params if p.shape is not None and p.name in given}
    bindings = {**_from_arrays(params, arrays), **symbols}
    needed = {name for p in params if p.name not in arrays for dim in p.shape or () for name in dim.symbols()}
    missing = sorted(needed - bindings.keys())
    if missing:
        hint = " ".join(f"--shape {name}=N" for name in missing)
        raise LaunchError([make("E-4191", None, f"no value is given for `{'`, `'.join(missing)}`", hint=hint)])
    return [_planned(param, arrays, bindings, given) for param in params]


def _planned(
    param: Param, arrays: Mapping[str, Array], bindings: Mapping[str, int], given: Mapping[str, str]
) -> Scalar | Array | Planned:
    if param.shape is None:
        return _scalar(param, given)
    if param.name in arrays:
        return arrays[param.name]
    return Planned(param, tuple(dim.evaluate(bindings) for dim in param.shape))


def view_of(item: Scalar | Array | Planned) -> ArrayView | Scalar:
    """The argument as `croq.binding.bind` takes it, before it is made."""
    if isinstance(item, Planned):
        return ArrayView(ANYWHERE, item.shape, row_major(item.shape), _storage(item.param), ("cpu", 0))
    return view(item) if isinstance(item, np.ndarray) else item


def fill_arguments(kernel: Kernel, planned: Sequence[Scalar | Array | Planned], seed: int) -> list[Any]:
    """Make the planned arrays: uniform in [-1, 1), integers 0, what is only written NaN."""
    only_written = outputs_of(kernel) - {name for device in kernel.devices for name in read_params(device)}
    generator = np.random.default_rng(seed)
    return [_filled(p, generator, only_written) if isinstance(p, Planned) else p for p in planned]


def _filled(planned: Planned, generator: np.random.Generator, only_written: set[str]) -> Array:
    dtype = NUMPY_TYPES[_storage(planned.param)]
    if planned.param.type not in FLOATS:
        return np.zeros(planned.shape, dtype)
    if planned.param.name in only_written:
        return np.full(planned.shape, np.nan, np.float32).astype(dtype)
    return (2 * generator.random(planned.shape, np.float32) - 1).astype(dtype)


def _storage(param: Param) -> str:
    return "f32" if param.type == "tf32" else param.type


def outputs_of(kernel: Kernel) -> set[str]:
    """Names of the parameters that some launch of the function writes."""
    return {name for device in kernel.devices for name in written_params(device)}


def _scalar(param: Param, given: Mapping[str, str]) -> int | float | bool:
    text = given.get(param.name)
    if text is None:
        hint = f"--arg {param.name}=VALUE"
        raise LaunchError([make("E-4190", param.span, f"the number `{param.name}` needs a value", hint=hint)])
    try:
        if param.type == "bool":
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        return float(text) if param.type in FLOATS else int(text, 0)
    except (KeyError, ValueError) as error:
        message = f"`{text}` is no value of type `{param.type}` for `{param.name}`"
        hint = f"--arg {param.name}={_EXAMPLES.get(param.type, '1.5' if param.type in FLOATS else '3')}"
        raise LaunchError([make("E-4062", param.span, message, hint=hint)]) from error


def _load(text: str, param: Param) -> Array:
    """An array from a .npy file. Unsigned integers stand for types that the format cannot name, such as bf16."""
    try:
        array: Array = np.load(text, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"`{text}` is no .npy file that can be read: {reason}"
        hint = f"`{param.name}` is an array: --arg {param.name}=FILE.npy, or leave it out for random values"
        raise LaunchError([make("E-4192", param.span, message, hint=hint)]) from error
    dtype = NUMPY_TYPES[_storage(param)]
    bare = array.dtype.kind in "Vu" and array.dtype.itemsize == dtype.itemsize
    return array.view(dtype) if bare and dtype.isbuiltin != 1 else array


def _from_arrays(params: Sequence[Param], arrays: Mapping[str, Array]) -> dict[str, int]:
    """Dimensions that loaded arrays decide."""
    found: dict[str, int] = {}
    for param in params:
        if param.name in arrays:
            for dim, extent in zip(param.shape or (), arrays[param.name].shape, strict=False):
                for name in dim.symbols():
                    if dim == Dim.symbol(name):
                        found.setdefault(name, extent)
    return found


def known_names(names: Sequence[str], known: Sequence[str], option: str) -> None:
    """Refuse a name on the command line that the kernel does not have."""
    what = "dimension" if option == "--shape" else "parameter"
    for name in names:
        if name not in known:
            hint = close(name, known)
            raise refused(option, f"the kernel has no {what} `{name}`{', ' + hint if hint else ''}")
