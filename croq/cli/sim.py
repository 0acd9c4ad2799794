"""`sim`: executes any kernel on the CPU, with random or given arguments, and says what came out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from croq.binding import bind, read_params, written_params
from croq.cli import output
from croq.cli.compiling import compile_session
from croq.cli.session import Session
from croq.compiler import close
from croq.diagnostics import LaunchError, make
from croq.driver.arrays import NUMPY_TYPES, view
from croq.ir.types import FLOATS
from croq.kernel import Kernel, simulate, spread_blocks

if TYPE_CHECKING:
    from croq.ir.objects import Param

Array = np.ndarray[Any, Any]


def simulate_and_show(
    session: Session,
    file: str,
    function: str | None,
    shapes: Sequence[str],
    given: Sequence[str],
    saves: Sequence[str],
    *,
    schedule: str,
    tiles: int | None,
    seed: int,
) -> int:
    symbols = _numbers(shapes)
    texts, targets = _pairs(given, "--arg"), _pairs(saves, "--save")
    kernel = Kernel(compile_session(session, file), function)
    arguments = make_arguments(kernel, symbols, texts, seed)
    names = [param.name for param in kernel.params]
    _known_names([*targets], [n for n, a in zip(names, arguments, strict=True) if isinstance(a, np.ndarray)], "--save")
    bound = bind(
        kernel.devices, [view(a, n) if isinstance(a, np.ndarray) else a for n, a in zip(names, arguments, strict=True)]
    )
    grid = bound.grids[0]
    blocks = spread_blocks(grid, tiles) if tiles is not None else None
    total = grid[0] * grid[1] * grid[2]
    described = (
        f"all {total} blocks"
        if blocks is None or len(blocks) == total
        else f"{len(blocks)} of {total} blocks: " + "; ".join(map(str, blocks[:8]))
    )
    before = {
        n: a.copy()
        for n, a in zip(names, arguments, strict=True)
        if isinstance(a, np.ndarray) and n in _outputs(kernel)
    }
    started = time.perf_counter()
    with session.console.busy(f"simulating {described}"):
        simulate(kernel, *arguments, schedule=schedule, blocks=blocks)
    seconds = time.perf_counter() - started
    results = {n: _describe(dict(zip(names, arguments, strict=True))[n], old) for n, old in before.items()}
    for name, target in targets.items():
        _save(Path(target), dict(zip(names, arguments, strict=True))[name])
    _show(session, kernel, bound.symbols, described, schedule, seconds, results)
    return 0


def make_arguments(kernel: Kernel, symbols: Mapping[str, int], given: Mapping[str, str], seed: int) -> list[Any]:
    """An argument a parameter: what `--arg` gives, else uniform in [-1, 1) (integers: 0); outputs start as NaN.

    Raises LaunchError E-4190 for a parameter that needs a value, E-4191 for a dimension without one.
    """
    params = kernel.devices[0].params
    _known_names([*given], [param.name for param in params], "--arg")
    arrays = {
        param.name: _load(given[param.name], param)
        for param in params
        if param.shape is not None and param.name in given
    }
    bindings = {**_from_arrays(params, arrays), **symbols}
    needed = {
        name for param in params if param.name not in arrays for dim in param.shape or () for name in dim.symbols()
    }
    missing = sorted(needed - bindings.keys())
    if missing:
        hint = " ".join(f"--shape {name}=N" for name in missing)
        raise LaunchError([make("E-4191", None, f"no value is given for `{'`, `'.join(missing)}`", hint=hint)])
    unknown = sorted(set(symbols) - {name for param in params for dim in param.shape or () for name in dim.symbols()})
    if unknown:
        raise typer.BadParameter(f"the kernel has no dimension `{unknown[0]}`", param_hint="--shape")
    outputs = _outputs(kernel) - {name for device in kernel.devices for name in read_params(device)}
    generator = np.random.default_rng(seed)
    result: list[Any] = []
    for param in params:
        if param.shape is None:
            result.append(_scalar(param, given))
        elif param.name in arrays:
            result.append(arrays[param.name])
        else:
            shape = tuple(dim.evaluate(bindings) for dim in param.shape)
            result.append(_filled(param, shape, generator, poison=param.name in outputs))
    return result


def _outputs(kernel: Kernel) -> set[str]:
    return {name for device in kernel.devices for name in written_params(device)}


def _filled(param: Param, shape: tuple[int, ...], generator: np.random.Generator, *, poison: bool) -> Array:
    dtype = NUMPY_TYPES["f32" if param.type == "tf32" else param.type]
    if any(extent < 1 for extent in shape):
        raise LaunchError([make("E-4056", param.span, f"`{param.name}` would have the shape {list(shape)}")])
    if param.type not in FLOATS:
        return np.zeros(shape, dtype)
    if poison:
        return np.full(shape, np.nan, np.float32).astype(dtype)
    return (2 * generator.random(shape, np.float32) - 1).astype(dtype)


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
        raise LaunchError([make("E-4062", param.span, message)]) from error


def _load(text: str, param: Param) -> Array:
    """An array from a .npy file. 16-bit integers stand for bf16, which the format cannot name."""
    try:
        array: Array = np.load(text, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        message = f"`{text}` is no .npy file that can be read: {error}"
        raise LaunchError([make("E-4192", param.span, message)]) from error
    dtype = NUMPY_TYPES["f32" if param.type == "tf32" else param.type]
    unnamed = array.dtype.kind in "Vu" and array.dtype.itemsize == dtype.itemsize and dtype.kind == "V"
    return (
        array.view(dtype)
        if unnamed or (dtype.name.startswith(("bfloat", "float8")) and array.dtype.kind in "Vu")
        else array
    )


def _from_arrays(params: Sequence[Param], arrays: Mapping[str, Array]) -> dict[str, int]:
    """Dimensions that loaded arrays decide."""
    from croq.sema.symbolic import Dim

    found: dict[str, int] = {}
    for param in params:
        if param.name in arrays:
            for dim, extent in zip(param.shape or (), arrays[param.name].shape, strict=False):
                for name in dim.symbols():
                    if dim == Dim.symbol(name):
                        found.setdefault(name, extent)
    return found


def _save(path: Path, array: Array) -> None:
    """Write a .npy file at once; element types that the format cannot name are stored as unsigned integers."""
    import io

    stream = io.BytesIO()
    plain = array if array.dtype.isbuiltin == 1 else array.view(np.dtype(f"u{array.dtype.itemsize}"))
    np.save(stream, plain, allow_pickle=False)
    output.write(path, stream.getvalue())


def _describe(array: Array, before: Array) -> dict[str, Any]:
    """What became of an output: how much of it changed, and the range of what is finite."""
    raw = [np.ascontiguousarray(a).view(np.dtype(f"u{a.dtype.itemsize}")) for a in (array, before)]
    values = array.astype(np.float64)
    finite = values[np.isfinite(values)]
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "changed": int((raw[0] != raw[1]).sum()),
        "not_finite": int(values.size - finite.size),
        "min": float(finite.min()) if finite.size else None,
        "max": float(finite.max()) if finite.size else None,
        "mean": float(finite.mean()) if finite.size else None,
    }


def _show(
    session: Session, kernel: Kernel, symbols: Mapping[str, int], described: str, schedule: str, seconds: float,
    results: Mapping[str, dict[str, Any]],
) -> None:  # fmt: skip
    console = session.console
    if console.json:
        console.data(
            {"kernel": kernel.name, "symbols": dict(symbols), "part": described, "schedule": schedule}
            | {"seconds": round(seconds, 3), "outputs": dict(results)}
        )
        return
    shown = ", ".join(f"{name}={value}" for name, value in symbols.items())
    console.result(f"{kernel.compilation.file.name} ({kernel.name}): {shown}")
    console.result(f"  simulated {described}, schedule {schedule}, in {seconds:.1f} s; nothing went wrong")
    for name, facts in results.items():
        size = int(np.prod(facts["shape"]))
        numbers = (
            "nothing finite"
            if facts["min"] is None
            else f"min {facts['min']:.6g}, max {facts['max']:.6g}, mean {facts['mean']:.6g}"
        )
        console.result(
            f"  {name}: {facts['changed']} of {size} elements changed, {facts['not_finite']} not finite, {numbers}"
        )


# ------------------------------------------------------------------------------------------------------- command line
def _pairs(values: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name or not text:
            raise typer.BadParameter(f"`{value}`: write NAME=VALUE", param_hint=option)
        pairs[name] = text
    return pairs


def _numbers(values: Sequence[str]) -> dict[str, int]:
    numbers = {}
    for name, text in _pairs(values, "--shape").items():
        if not text.isdecimal() or int(text) < 1:
            raise typer.BadParameter(f"`{name}={text}`: a dimension is a positive whole number", param_hint="--shape")
        numbers[name] = int(text)
    return numbers


def _known_names(names: Sequence[str], known: Sequence[str], option: str) -> None:
    for name in names:
        if name not in known:
            hint = close(name, known)
            raise typer.BadParameter(
                f"the kernel has no parameter `{name}`{', ' + hint if hint else ''}", param_hint=option
            )
