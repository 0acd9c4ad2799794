"""Launches of one function on a GPU, remembered by everything that was checked of their arguments.

A launch that is not remembered takes the long way: views of all arrays, all checks (croq.binding), tensor maps, one
packed buffer of parameters. What an argument is known by afterwards (croq.driver.arrays.identity) says all that the
checks saw, so an equal one would pass them again; a library that has no cheap way to say so is asked for a view each
time. Nothing remembered keeps an array alive: where memory was given back and lies at the same address again, the
launch is the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from croq.binding import Bound, Scalar, bind, map_arguments, views, written_params
from croq.diagnostics import LaunchError, make
from croq.driver import launch, tensormap
from croq.driver.arrays import IDENTITIES, NUMPY_TYPES, ArrayView, identity
from croq.driver.device import context_handle, ensure_context, require_gpu, synchronize
from croq.driver.device_array import DeviceArray
from croq.driver.launch import PreparedLaunch
from croq.driver.watchdog import Watchdog, WatchedLaunch
from croq.emit.signature import signature
from croq.ir.objects import Kernel, Param
from croq.stages import Stages

Launch: TypeAlias = PreparedLaunch | WatchedLaunch
REMEMBERED = 256  # sets of arguments of one function; when there are more, all are forgotten


class Launcher:
    def __init__(self, devices: Sequence[Kernel], stages: Stages) -> None:
        """`devices`: the kernels of one function, in the order of their launches."""
        self._devices = devices
        self._stages = stages
        self._on_host = any(not param.is_global and param.shape is not None for param in devices[0].params)
        self._known: dict[tuple[Any, ...], dict[int, tuple[Launch, ...]]] = {}  # by arguments, then by context
        self._last: tuple[Any, int, tuple[Launch, ...]] = (None, 0, ())  # the last one of these: found without hashing

    def __call__(self, arguments: Sequence[Any], stream: Any) -> None:
        if self._on_host:
            self._with_copies(views(self._params, arguments), stream)
            return
        known = tuple([IDENTITIES[type(argument)](argument) for argument in arguments])
        last, context, launches = self._last
        if known != last or context != context_handle():
            launches = self._launches(arguments, known)
        for one in launches:
            one(stream)

    def prepare(self, arguments: Sequence[Any]) -> Prepared:
        """Raises LaunchError E-4061 where an array lies on the host, by declaration or in fact."""
        if self._on_host:
            message = "arrays of parameters that are not `global` are copied at each launch, which cannot be prepared"
            raise LaunchError([make("E-4061", None, message, hint="call the kernel, or declare them `global`")])
        return Prepared(self._launches(arguments, tuple(map(identity, arguments))), tuple(arguments))

    def _launches(self, arguments: Sequence[Any], known: tuple[Any, ...]) -> tuple[Launch, ...]:
        if None in known:
            return self._viewed(arguments)
        return self._recalled(known) or self._made(views(self._params, arguments), known)

    def _viewed(self, arguments: Sequence[Any]) -> tuple[Launch, ...]:
        """The launches for arguments of which some can be known by their views only."""
        values = views(self._params, arguments)
        known = tuple([identity(value) for value in values])
        if None in known:  # a number of a type that cannot be a key
            return self._prepare(self._bind(values))
        return self._recalled(known) or self._made(values, known)

    def _recalled(self, known: tuple[Any, ...]) -> tuple[Launch, ...] | None:
        """Asks for the context only where there is something to recall: arguments are checked without a driver, too."""
        contexts = self._known.get(known)
        if contexts is None:
            return None
        context = context_handle()
        launches = contexts.get(context)
        if launches is not None:
            self._last = known, context, launches
        return launches

    def _made(self, values: Sequence[ArrayView | Scalar], known: tuple[Any, ...]) -> tuple[Launch, ...]:
        made = self._prepare(self._bind(values))
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known.setdefault(known, {})[context_handle()] = made
        return made

    @property
    def _params(self) -> Sequence[Param]:
        return self._devices[0].params

    def _bind(self, values: Sequence[ArrayView | Scalar]) -> Bound:
        bound = bind(self._devices, values)
        if bound.device[0] != "cuda":
            hint = "copy the arrays to the GPU, or use `croq.simulate` for arrays on the CPU"
            message = "the arrays lie on the CPU, and a launch needs them on a GPU"
            raise LaunchError([make("E-4061", None, message, hint=hint)])
        return bound

    def _prepare(self, bound: Bound) -> tuple[Launch, ...]:
        ensure_context(bound.device[1])  # kernels are loaded and tensor maps encoded in the current context
        launches: list[Launch] = []
        for device, grid in zip(self._devices, bound.grids, strict=True):
            function = self._loaded.kernel(device.entry_name)
            params = parameter_bytes(device, bound)
            block = (device.threads, 1, 1)
            made = function.prepare(grid, block, device.shared_bytes, params, bound.device[1])
            launches.append(made if self._watchdog is None else self._watchdog.watch(made, device))
        return tuple(launches)

    @cached_property
    def _loaded(self) -> launch.Module:
        return launch.Module(self._stages.cubin)

    @cached_property
    def _watchdog(self) -> Watchdog | None:
        seconds = self._stages.settings.watchdog
        return None if seconds is None else Watchdog(self._loaded, seconds, self._stages.source_line)

    def _with_copies(self, values: Sequence[ArrayView | Scalar], stream: Any) -> None:
        placed = next((v.device[1] for v in values if isinstance(v, ArrayView) and v.device[0] == "cuda"), None)
        index = placed if placed is not None else require_gpu().index
        written = {name for device in self._devices for name in written_params(device)}
        moved: list[ArrayView | Scalar] = []
        back: list[tuple[DeviceArray, np.ndarray[Any, Any]]] = []
        for param, value in zip(self._params, values, strict=False):
            if isinstance(value, ArrayView) and not param.is_global and value.device[0] == "cpu":
                host = host_array(value)
                copy = DeviceArray.from_numpy(host, index)
                back += [(copy, host)] if param.name in written else []
                value = replace(copy.croq_view(), writable=value.writable)
            moved.append(value)
        moved += values[len(moved) :]
        for one in self._prepare(self._bind(moved)):
            one(stream)
        synchronize(stream)
        for copy, host in back:
            host[...] = copy.to_numpy()


class Prepared:
    """Launches whose arguments were checked and packed: a call is a driver call for each, and looks at no array.

    It holds the arrays. They must keep their memory: not be resized, nor set to other memory, in place.
    """

    def __init__(self, launches: tuple[Launch, ...], arguments: tuple[Any, ...]) -> None:
        self._launches = launches
        self.arguments = arguments

    def __call__(self, stream: Any = None) -> None:
        """Launch on `stream`. Raises what a launch raises."""
        for one in self._launches:
            one(stream)


def parameter_bytes(device: Kernel, bound: Bound) -> list[bytes]:
    """The kernel's parameters as the emitted function takes them (croq.emit.signature)."""
    result = []
    for argument in signature(device):
        if argument.map is not None:
            array = bound.arrays[argument.map.param.name]
            spec, dims, strides = map_arguments(argument.map, array, bound.symbols)
            result.append(tensormap.encode(spec, array.pointer, dims, strides, argument.map.param.name))
        elif argument.symbol is not None:
            result.append(launch.scalar(argument.type, bound.symbols[argument.symbol]))
        elif argument.kind == "pointer" and argument.param is not None:
            result.append(launch.pointer(bound.arrays[argument.param.name].pointer))
        elif argument.param is not None:
            result.append(launch.scalar(argument.type, bound.scalars[argument.param.name]))
    return result


def host_array(value: ArrayView) -> Any:
    """The host memory of a view as a NumPy array."""
    if isinstance(value.owner, np.ndarray):
        return value.owner
    dtype = NUMPY_TYPES[value.dtype]
    span = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.strides, strict=True))
    memory = (ctypes.c_byte * (span * dtype.itemsize)).from_address(value.pointer)
    return np.ndarray(value.shape, dtype, memoryview(memory), strides=tuple(s * dtype.itemsize for s in value.strides))
