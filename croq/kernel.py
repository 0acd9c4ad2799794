"""A compiled kernel as users hold it: what was made, launching it on a GPU, executing it in the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from croq.compiler import compile_file
from croq.diagnostics import CompileError, CroqError, Diagnostic, LaunchError, make
from croq.protocol import judge
from croq.settings import Settings
from croq.source import SourceFile
from croq.stages import Stages
from croq.target import DEFAULT
from croq.texts import close, load, stem

if TYPE_CHECKING:
    from croq.binding import Scalar
    from croq.driver.arrays import ArrayView
    from croq.ir.objects import Kernel as DeviceKernel
    from croq.ir.objects import Param as DeviceParam
    from croq.launching import Launcher, Prepared
    from croq.simulate.explore import Exploration

PARTS = ("params", "buffers", "fragments", "events", "variables", "tensor_maps", "body")  # of printed IR


@dataclass(frozen=True)
class Param:
    """A parameter of the `__co__` function. `shape` holds integers and symbols; None for a scalar."""

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    is_global: bool


class Kernel:
    """One `__co__` function, compiled; or all of a file that has several, of which a launch must choose one."""

    def __init__(self, compilation: Stages, function: str | None = None) -> None:
        """Raises CompileError E-3104 when the file has no such function."""
        known = list(compilation.lowered.functions)
        if function is not None and function not in known:
            notes = [f"its functions are: {', '.join(known)}"]
            message = f"`{compilation.file.name}` has no `__co__` function `{function}` that launches anything"
            hint = close(function, known)
            raise CompileError([make("E-3104", None, message, notes=notes, hint=hint)])
        self.compilation = compilation
        self._functions = known if function is None else [function]

    # ------------------------------------------------------------------------------------------------- what was made
    @property
    def name(self) -> str:
        """The function's name; of several, the file's."""
        names = self._functions
        return names[0] if len(names) == 1 else stem(self.compilation.file)

    @cached_property
    def kernels(self) -> Mapping[str, Kernel]:
        """The functions of the file by name; one that stands alone maps to itself."""
        if len(self._functions) == 1:
            return dict.fromkeys(self._functions, self)
        return {name: Kernel(self.compilation, name) for name in self._functions}

    @cached_property
    def _devices(self) -> list[DeviceKernel]:
        return [device for name in self._functions for device in self.compilation.functions[name]]

    @cached_property
    def params(self) -> tuple[Param, ...]:
        """Parameters in the order of arguments. Raises LaunchError E-4065 when there are several functions."""
        return tuple(_public(param) for param in self.devices[0].params)

    @property
    def devices(self) -> Sequence[DeviceKernel]:
        """The lowered IR of each launch of the function. Raises LaunchError E-4065 when there are several functions."""
        names = list(self._functions)
        if not names:
            message = f"`{self.compilation.file.name}` has no function that launches anything"
            raise LaunchError([make("E-4069", None, message, hint="a launch is a `parallel` of level `block`")])
        if len(names) > 1:
            hint = f'choose one: croq.compile(..., kernel="{names[0]}"), or .kernels["{names[0]}"]'
            message = f"`{self.compilation.file.name}` has {len(names)} functions: {', '.join(names)}"
            raise LaunchError([make("E-4065", None, message, hint=hint)])
        return self._devices

    @cached_property
    def plan(self) -> list[dict[str, Any]]:
        """What was derived, an object a device kernel (docs/plan.md)."""
        mine = {kernel for name in self._functions for kernel in self.compilation.lowered.functions[name]}
        return [item for item in self.compilation.plan if item["kernel"] in mine]

    @property
    def cuda(self) -> str:
        return self.compilation.cuda

    @property
    def cubin(self) -> bytes:
        """Compiled on first use. Raises CompileError E-3010, EnvironmentFault when there is no NVRTC."""
        return self.compilation.cubin

    @property
    def ptx(self) -> str:
        return self.compilation.ptx

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return self.compilation.warnings

    def ir(self, part: str | None = None, *, after: str | None = None) -> str:
        """The printed IR after all passes, or after the pass `after`.

        `part` picks one part of the lowered kernels: "params", "buffers", "fragments", "events", "variables",
        "tensor_maps" or "body". Raises CompileError E-3103 for no such pass, E-3105 for no such part.
        """
        from croq.ir.printer import print_kernel

        if after is not None:
            return self.compilation.ir_after(after)
        if part is not None and part not in PARTS:
            message = f"the IR has no part `{part}`"
            raise CompileError([make("E-3105", None, message, hint=f"use one of {', '.join(PARTS)}")])
        return "\n".join(print_kernel(device, part) for device in self._devices)

    def __repr__(self) -> str:
        return f"<croq kernel {self.name} of {self.compilation.file.name}>"

    # --------------------------------------------------------------------------------------------------------- launch
    def __call__(self, *arguments: Any, stream: Any = None) -> Any:
        """Launch on `stream` with one argument a parameter: arrays on one GPU that speak DLPack, and numbers.

        Arrays of parameters that are not `global` lie on the host; they are copied to the device before the launch and
        back after it, which waits for the stream. Otherwise nothing is allocated and nothing waits, but for a kernel
        with a watchdog: its launch waits for the stream and raises LaunchError E-4201 or E-4202 when it hung, after
        which the process has lost its context. Raises LaunchError E-40xx before anything is launched; EnvironmentFault
        without GPU or NVRTC.
        """
        self._launcher(arguments, stream)

    def prepare(self, *arguments: Any) -> Prepared:
        """Everything that a launch with these arguments needs, made now: cubin, loading, tensor maps. Launches nothing.

        What is returned launches when it is called, on a `stream`, and keeps the arrays alive; their memory must stay
        where it is. Calls of the kernel with the same arguments are warm, too: CUDA graphs can capture the first of
        them. Raises what a launch raises, and LaunchError E-4061 where arrays on the host take part.
        """
        return self._launcher.prepare(arguments)

    @cached_property
    def _launcher(self) -> Launcher:
        from croq.launching import Launcher

        return Launcher(self.devices, self.compilation)

    def views(self, arguments: Sequence[Any]) -> list[ArrayView | Scalar]:
        """Arguments as `croq.binding.bind` takes them: views of arrays, and numbers. Raises LaunchError E-400x."""
        from croq.binding import views

        return views(self.devices[0].params, arguments)


def simulate(
    kernel: Kernel,
    *arguments: Any,
    schedule: str = "eager",
    blocks: int | Sequence[tuple[int, int, int]] | None = None,
    progress: Callable[[int, int], None] | None = None,
    races: bool = True,
    level: Literal["ir", "ptx"] = "ir",
) -> Any:
    """Execute `kernel` on the CPU with NumPy arrays (bf16 by `ml_dtypes`), writing its outputs in place.

    `schedule`: the order in which asynchronous operations complete, `eager`, `lazy`, `random:SEED`, `hostile:K`, or
    `hostile` for a set of those. `blocks`: None for the whole grid, a number of blocks spread over it, or their
    (x, y, z). `progress(done, total)` is called after each block. `races`: look for accesses that nothing orders, which
    takes up to three times as long. `level`: what is executed, the lowered IR or the PTX that NVRTC makes of the
    emitted CUDA (schedules `eager`, `lazy`, `random:SEED`; without races). Checks arguments as a launch does. Returns
    the simulator's report, a list of them where the function has several launches. Raises LaunchError E-40xx, and what
    the simulator finds (E-5xxx; of PTX, E-7xxx); of PTX, EnvironmentFault without NVRTC.
    """
    simulation = _Simulation(kernel, arguments, blocks)
    if level == "ptx":
        reports = simulation.run_ptx(schedule, simulation.arrays, progress)
    else:
        reports = simulation.run(schedule, simulation.arrays, progress=progress, races=races)
    return reports[0] if len(reports) == 1 else reports


def explore(
    kernel: Kernel,
    *arguments: Any,
    schedules: int = 200,
    blocks: int | Sequence[tuple[int, int, int]] | None = None,
    progress: Callable[[int, int], None] | None = None,
    races: bool = True,
    jobs: int | None = None,
) -> Exploration:
    """Execute `kernel` under many schedules, until one of them goes wrong: eager, lazy, hostile plans, random seeds.

    Arguments are those of `simulate`, and stay as they are. `jobs`: processes at once, two when left out. Results that
    differ between schedules are a fault (E-5052). Raises LaunchError E-40xx; what the simulator finds is in the result.
    """
    from croq.simulate.explore import choose_schedules, explore
    from croq.simulate.runner import HOSTILE

    simulation = _Simulation(kernel, arguments, blocks)
    if schedules < 1:
        message = f"{schedules} schedules cannot be simulated"
        raise LaunchError([make("E-4070", None, message, hint=f"1 or more; `{HOSTILE}` is a set of schedules, too")])
    chosen = choose_schedules(kernel.devices, schedules)

    def run(schedule: str, arrays: Mapping[str, Any]) -> object:
        return simulation.run(schedule, arrays, races=races)

    return explore(run, simulation.arrays, simulation.written, chosen, jobs=jobs, progress=progress)


class _Simulation:
    """Arguments that fit a kernel, for any number of simulations. Raises LaunchError E-40xx."""

    def __init__(
        self, kernel: Kernel, arguments: Sequence[Any], blocks: int | Sequence[tuple[int, int, int]] | None
    ) -> None:
        if not isinstance(kernel, Kernel):
            message = f"the first argument of `simulate` is a `{type(kernel).__name__}`, not a compiled kernel"
            raise LaunchError([make("E-4068", None, message, hint="make one by `croq.compile`")])
        import numpy as np

        from croq.binding import bind, is_number, written_params

        if isinstance(blocks, int) and blocks < 1:
            raise LaunchError([make("E-4070", None, f"{blocks} blocks cannot be simulated", hint="1 or more, or None")])
        names = [param.name for param in kernel.devices[0].params]
        numbers = {param.name for param in kernel.devices[0].params if param.shape is None}
        for name, argument in zip(names, arguments, strict=False):
            if name not in numbers and not is_number(argument) and not isinstance(argument, np.ndarray):
                message = f"argument `{name}` is a `{type(argument).__name__}`: the simulator takes NumPy arrays"
                raise LaunchError([make("E-4067", None, message)])
        self.compilation = kernel.compilation
        self.devices = kernel.devices
        self.bound = bind(kernel.devices, kernel.views(arguments))
        self.blocks = blocks
        self.arrays = {name: a for name, a in zip(names, arguments, strict=True) if isinstance(a, np.ndarray)}
        self.written = frozenset(name for device in self.devices for name in written_params(device))

    def run(self, schedule: str, arrays: Mapping[str, Any], **options: Any) -> list[Any]:
        """One simulation of each launch, in order; their reports."""
        from croq.simulate import run, spread_blocks

        reports = []
        for device, grid in zip(self.devices, self.bound.grids, strict=True):
            chosen = spread_blocks(grid, self.blocks) if isinstance(self.blocks, int) else self.blocks
            scalars = dict(self.bound.scalars)
            try:
                reports.append(run(device, arrays, scalars, schedule=schedule, blocks=chosen, **options))
            except CompileError as error:
                if any(diagnostic.code == "E-3010" for diagnostic in error.diagnostics):
                    _ = self.compilation.ptx  # holds the same device functions: refused with places in the `.co` file
                raise
        return reports

    def run_ptx(
        self, schedule: str, arrays: Mapping[str, Any], progress: Callable[[int, int], None] | None = None
    ) -> list[Any]:
        """The same of the PTX of the emitted CUDA."""
        from croq.execution import run_ptx

        return run_ptx(
            self.compilation, self.devices, self.bound, arrays, schedule=schedule, blocks=self.blocks, progress=progress
        )


def compile(  # named as users say it
    source: str | Path,
    defines: Mapping[str, Any] | None = None,
    kernel: str | None = None,
    *,
    arch: str = DEFAULT.name,
    lineinfo: bool = False,
    verify: bool = True,
    watchdog: float | None = None,
) -> Kernel:
    """Compile a path, a shipped kernel by bare name (`v4`) or program text (which has a line end or `__co__`).

    `defines`: macros, as `-D` gives them. `kernel`: which `__co__` function, where a file has several. The cubin is
    made at the first launch, or when asked for. `verify`: refuse a kernel whose lowered synchronisation the protocol
    verifier finds wrong. `watchdog`: seconds after which a wait that still blocks ends the launch, with a report of
    what it waited for (docs/watchdog.md); for finding hangs. Raises CompileError.
    """
    settings = Settings.of(defines, arch=arch, lineinfo=lineinfo, verify=verify, watchdog=watchdog)
    return Kernel(compile_file(load(source), settings), kernel)


def check(source: str | Path, defines: Mapping[str, Any] | None = None) -> list[Diagnostic]:
    """Every diagnostic of the static rules and of the protocol verifier; an empty list when there is nothing to say.

    A file that cannot be read is reported the same way. Raises nothing that is the program's fault.
    """
    try:
        return check_file(load(source), Settings.of(defines))
    except CroqError as error:
        return list(error.diagnostics)


def check_file(file: SourceFile, settings: Settings) -> list[Diagnostic]:
    """`check` for text that is loaded already."""
    try:
        compilation = compile_file(file, settings)
    except CroqError as error:
        return list(error.diagnostics)
    judgements = judge(compilation.module.kernels, compilation.written)
    return [*compilation.warnings, *(found for judgement in judgements for found in judgement.diagnostics())]


def _public(param: DeviceParam) -> Param:
    shape = None if param.shape is None else tuple(_extent(dim) for dim in param.shape)
    return Param(param.name, param.type, shape, param.is_global)


def _extent(dim: Any) -> int | str:
    known = dim.known
    return known if known is not None else str(dim)
