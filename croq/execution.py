"""Executes the PTX of compiled kernels on the CPU: what NVRTC makes of the emitted CUDA, on the arguments of a launch.

Only the definition of the arguments is shared with the other levels (croq.emit.signature, croq.binding).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from croq.diagnostics import CompileError
from croq.stages import Stages
from croq.texts import stem

if TYPE_CHECKING:
    from croq.binding import Bound
    from croq.ir.objects import Kernel as DeviceKernel
    from croq.ptx.run import Argument, Launch, PtxReport
    from croq.ptx.syntax import Module

Block = tuple[int, int, int]

# Element types as tensor maps hold them: those that the copy engine only moves are integers (croq.driver.tensormap)
_MAP_TYPES = {"f8_e4m3": "u8", "f8_e5m2": "u8", "bool": "u8", "s8": "u8", "s16": "u16", "tf32": "f32"}


def ptx_text(compilation: Stages) -> str:
    """The PTX of all kernels of a file, with lines of the `.co` text. Raises CompileError E-3010, EnvironmentFault."""
    from croq.driver.cache import compile_ptx_cached
    from croq.emit import emit_cuda

    settings = compilation.settings
    text = emit_cuda(compilation.module.kernels, lineinfo=True)
    arch = settings.arch.replace("sm_", "compute_")
    name = f"{stem(compilation.file)}.cu"
    try:
        return compile_ptx_cached(text, arch=arch, options=settings.options, lineinfo=True, name=name)
    except CompileError:
        _ = compilation.ptx  # the same text without line tables: refused with places in the `.co` file
        raise


def ptx_module(compilation: Stages) -> Module:
    """The same, parsed; remembered by the compilation. Raises PtxFault E-7001 too."""
    from croq.ptx.parse import parse

    remembered: dict[str, Any] = compilation.__dict__
    if "_ptx_module" not in remembered:
        remembered["_ptx_module"] = parse(ptx_text(compilation))
    module: Module = remembered["_ptx_module"]
    return module


def launch_of(device: DeviceKernel, bound: Bound, grid: tuple[int, int, int], arrays: Mapping[str, Any]) -> Launch:
    """The launch of one kernel: its arguments in order, and the arrays that they are made of."""
    from croq.emit.signature import signature
    from croq.ptx.run import Launch

    arguments = tuple(argument for item in signature(device) for argument in _argument(item, bound))
    used = {p.name: arrays[p.name] for p in device.params if p.shape is not None}
    return Launch(device.entry_name, grid, (device.threads, 1, 1), device.shared_bytes, arguments, used)


def _argument(item: Any, bound: Bound) -> list[Argument]:
    from croq.binding import map_arguments
    from croq.driver import launch
    from croq.ptx.run import Map, Pointer

    if item.map is not None:
        name = item.map.param.name
        spec, dims, strides = map_arguments(item.map, bound.arrays[name], bound.symbols)
        kind = _MAP_TYPES.get(spec.dtype, spec.dtype)
        return [Map(name, kind, dims, strides, spec.box, spec.swizzle, spec.element_strides or (), spec.fill_nan)]
    if item.symbol is not None:
        return [launch.scalar(item.type, bound.symbols[item.symbol])]
    if item.kind == "pointer" and item.param is not None:
        return [Pointer(item.param.name)]
    return [launch.scalar(item.type, bound.scalars[item.param.name])] if item.param is not None else []


def run_ptx(
    compilation: Stages,
    devices: Sequence[DeviceKernel],
    bound: Bound,
    arrays: Mapping[str, Any],
    *,
    schedule: str = "eager",
    blocks: int | Sequence[Block] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[PtxReport]:
    """Execute each launch of a function, in order; what they write is in `arrays`.

    `blocks`: which of each grid, or how many spread over it; all when None. Raises PtxFault, with the place in the
    `.co` text.
    """
    from croq.ptx.faults import PtxFault
    from croq.ptx.run import execute
    from croq.simulate.binding import spread_blocks

    module = ptx_module(compilation)
    reports = []
    for device, grid in zip(devices, bound.grids, strict=True):
        launch = launch_of(device, bound, grid, arrays)
        chosen = spread_blocks(grid, blocks) if isinstance(blocks, int) else blocks
        try:
            reports.append(execute(module, launch, schedule=schedule, blocks=chosen, progress=progress))
        except PtxFault as fault:
            raise fault.in_source(compilation.file) from None
    return reports
