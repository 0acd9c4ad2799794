"""Loads a cubin and launches its kernels with low overhead: no allocation, no synchronisation, fit for CUDA graphs.

module = Module(compiled.cubin)
kernel = module.kernel("flash_atten")
launch = kernel.prepare(grid, block, shared_bytes, [tensor_map(bytes128), pointer(p), scalar("s32", n)])
launch(stream)                    # as often as wanted
launch.set(1, pointer(q))         # the next launch uses q
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from typing import Any

from croq.diagnostics import LaunchError, make
from croq.driver.bindings import driver
from croq.driver.device import ensure_context, stream_handle
from croq.driver.errors import check, fault
from croq.target import DEFAULT, cuda

Dim3 = tuple[int, int, int]
_INVALID_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT
_NOT_FOUND = 500  # CUDA_ERROR_NOT_FOUND
STREAMS = 64  # that a prepared launch remembers; when there are more, all are forgotten
_FORMATS = {
    "s8": "<b", "u8": "<B", "s16": "<h", "u16": "<H", "s32": "<i", "u32": "<I", "s64": "<q", "u64": "<Q",
    "f32": "<f", "f64": "<d", "bool": "<?",
}  # fmt: skip


def scalar(dtype: str, value: float) -> bytes:
    """A scalar kernel parameter of an element type's name. Raises LaunchError E-4020 when the value does not fit."""
    try:
        return struct.pack(_FORMATS[dtype], value if dtype in ("f32", "f64", "bool") else int(value))
    except (KeyError, struct.error, OverflowError, ValueError) as error:
        raise LaunchError([make("E-4020", None, f"{value!r} does not fit a parameter of type `{dtype}`")]) from error


def pointer(address: int) -> bytes:
    """A pointer parameter."""
    return scalar("u64", address)


class Module:
    """A loaded cubin. The driver loads it into each context when a kernel of it is first prepared there."""

    def __init__(self, cubin: bytes) -> None:
        """Raises EnvironmentFault E-3202 when the GPU cannot run it, E-3201 when there is no driver."""
        self._cubin = cubin  # the driver reads it in place while it loads
        self._library = check(driver().cuLibraryLoadData(cubin, None, None, 0, None, None, 0), "cuLibraryLoadData")
        self._kernels: dict[str, KernelFunction] = {}
        self._lock = threading.Lock()

    def kernel(self, name: str) -> KernelFunction:
        """The `extern "C"` kernel of that name. Raises LaunchError E-4021 when there is none."""
        with self._lock:
            if name not in self._kernels:
                answer = driver().cuLibraryGetKernel(self._library, name.encode())
                if int(answer[0]) == _NOT_FOUND:
                    raise LaunchError([make("E-4021", None, f"the module has no kernel `{name}`")])
                self._kernels[name] = KernelFunction(name, check(answer, "cuLibraryGetKernel"), self)
            return self._kernels[name]

    def set_variable(self, name: str, value: bytes) -> bool:
        """Write a `__device__` variable in the current context; False when the module has none of that name."""
        answer = driver().cuLibraryGetGlobal(self._library, name.encode())
        if int(answer[0]) == _NOT_FOUND:
            return False
        address, size = check(answer, "cuLibraryGetGlobal")
        if len(value) != int(size):
            raise ValueError(f"variable `{name}` has {int(size)} bytes, not {len(value)}")
        source = ctypes.create_string_buffer(value, len(value))
        check(driver().cuMemcpyHtoD(address, ctypes.addressof(source), len(value)), "cuMemcpyHtoD")
        return True


class KernelFunction:
    """One kernel of a module, and its functions in the contexts that it was used in."""

    def __init__(self, name: str, handle: Any, module: Module) -> None:
        self.name = name
        self._handle = handle
        self._module = module  # keeps the library alive
        self._functions: dict[int, Any] = {}
        self._shared: dict[int, int] = {}

    @property
    def parameter_bytes(self) -> tuple[int, ...] | None:
        """Sizes of the kernel's parameters, None when the driver is too old (before 12.4) to tell."""
        query = getattr(driver(), "cuKernelGetParamInfo", None)
        if query is None:
            return None
        sizes: list[int] = []
        while True:
            try:
                answer = query(self._handle, len(sizes))
            except RuntimeError:  # the binding has the call, the driver has not
                return None
            if int(answer[0]) != 0:
                return tuple(sizes)
            sizes.append(int(answer[2]))

    def function(self, context: int, shared_bytes: int) -> Any:
        """The function in the current context, allowed to use `shared_bytes` of dynamic shared memory."""
        cu = driver()
        if context not in self._functions:
            self._functions[context] = check(cu.cuKernelGetFunction(self._handle), "cuKernelGetFunction")
        function = self._functions[context]
        if shared_bytes > max(cuda.SHARED_WITHOUT_OPT_IN, self._shared.get(context, 0)):
            which = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            (status,) = cu.cuFuncSetAttribute(function, which, shared_bytes)
            if int(status) != 0:
                raise self._too_much_shared(shared_bytes)
            self._shared[context] = shared_bytes
        return function

    def prepare(
        self, grid: Dim3, block: Dim3, shared_bytes: int, params: Sequence[bytes], device: int = 0
    ) -> PreparedLaunch:
        """Check the configuration and pack the parameters once; the result launches as often as wanted.

        `grid`, `block`: extents in x, y, z. `params`: the bytes of each kernel parameter, in order. Device `device`
        must be current in the thread, or none. Raises LaunchError E-4022 (grid, block), E-4023 (shared memory),
        E-4024 (parameters), E-4031 (another device is current).
        """
        self._check_extents(grid, block)
        if shared_bytes > DEFAULT.shared_bytes:
            raise self._too_much_shared(shared_bytes)
        context = ensure_context(device)  # before the parameters: the driver tells their sizes in a context only
        self._check_parameters(params)
        return PreparedLaunch(self, self.function(context, shared_bytes), grid, block, shared_bytes, params, device)

    def launch(
        self,
        grid: Dim3,
        block: Dim3,
        shared_bytes: int,
        stream: object,
        params: Sequence[bytes],
        device: int = 0,
    ) -> None:
        """Launch once; `prepare` is for repeated launches."""
        self.prepare(grid, block, shared_bytes, params, device)(stream)

    def _check_extents(self, grid: Dim3, block: Dim3) -> None:
        for what, extents, most in (("grid", grid, cuda.MAX_GRID), ("block", block, cuda.MAX_BLOCK)):
            for axis, extent, limit in zip("xyz", extents, most, strict=True):
                if not 1 <= extent <= limit:
                    message = f"kernel `{self.name}` has a {what} of {extent} in {axis}; the limits are 1 and {limit}"
                    raise LaunchError([make("E-4022", None, message)])
        threads = block[0] * block[1] * block[2]
        if threads > cuda.MAX_THREADS:
            message = f"kernel `{self.name}` has {threads} threads in a block; the limit is {cuda.MAX_THREADS}"
            raise LaunchError([make("E-4022", None, message)])

    def _check_parameters(self, params: Sequence[bytes]) -> None:
        expected = self.parameter_bytes
        actual = tuple(len(param) for param in params)
        if expected is not None and actual != expected:
            message = f"kernel `{self.name}` takes parameters of {expected} bytes, but was given {actual}"
            raise LaunchError([make("E-4024", None, message)])

    def _too_much_shared(self, shared_bytes: int) -> LaunchError:
        most = DEFAULT.shared_bytes
        message = f"kernel `{self.name}` asks for {shared_bytes} bytes of shared memory; a CTA has {most}"
        return LaunchError([make("E-4023", None, message, hint="use smaller tiles or fewer stages")])


class PreparedLaunch:
    """A launch with everything packed: one driver call each time. Threads must not share one that `set` changes."""

    def __init__(
        self,
        kernel: KernelFunction,
        function: Any,
        grid: Dim3,
        block: Dim3,
        shared_bytes: int,
        params: Sequence[bytes],
        device: int,
    ) -> None:
        self.kernel = kernel
        self._device = device
        self._launch = driver().cuLaunchKernelEx
        self._parameters = Parameters(params)
        self._function, self._shape = function, (*grid, *block, shared_bytes)
        self._address = self._parameters.address
        self._on: dict[int, Any] = {}  # the configuration on each stream: made once, as the binding takes its time

    def set(self, index: int, value: bytes) -> None:
        """Replace one parameter by another of the same size; the driver copies parameters at each launch."""
        self._parameters.set(index, value)

    def __call__(self, stream: object = None) -> None:
        """Launch on `stream` (see `device.stream_handle`). Raises a coded error when the driver refuses."""
        handle = stream if type(stream) is int else stream_handle(stream)
        configuration = self._on.get(handle) or self._configured(handle)
        (status,) = self._launch(configuration, self._function, self._address, 0)
        if status:  # a thread that has no context yet is found out by failing, so that the rest pays nothing
            if status == _INVALID_CONTEXT:
                ensure_context(self._device)
                (status,) = self._launch(configuration, self._function, self._address, 0)
            if status:
                raise fault(status, f"launch of `{self.kernel.name}`")

    def _configured(self, stream: int) -> Any:
        if len(self._on) >= STREAMS:
            self._on.clear()
        made = driver().CUlaunchConfig()
        names = ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ", "sharedMemBytes")
        for name, value in zip((*names, "hStream", "numAttrs"), (*self._shape, stream, 0), strict=True):
            setattr(made, name, value)
        self._on[stream] = made
        return made


class Parameters:
    """Kernel parameters in one buffer, and the array of pointers to them that the driver wants."""

    ALIGNMENT = cuda.TENSOR_MAP_ALIGNMENT  # the strictest of the kinds

    def __init__(self, params: Sequence[bytes]) -> None:
        self.sizes = tuple(len(param) for param in params)
        offsets: list[int] = []
        end = 0
        for size in self.sizes:
            offsets.append(end)
            end += -(-size // self.ALIGNMENT) * self.ALIGNMENT
        self._buffer = ctypes.create_string_buffer(end + self.ALIGNMENT)
        base = -(-ctypes.addressof(self._buffer) // self.ALIGNMENT) * self.ALIGNMENT
        self._places = [base + offset for offset in offsets]
        self._pointers = (ctypes.c_void_p * max(len(params), 1))(*self._places)
        for i, param in enumerate(params):
            self.set(i, param)

    @property
    def address(self) -> int:
        """The address of the array of pointers."""
        return ctypes.addressof(self._pointers)

    def set(self, index: int, value: bytes) -> None:
        if len(value) != self.sizes[index]:
            raise ValueError(f"parameter {index} has {self.sizes[index]} bytes, not {len(value)}")
        ctypes.memmove(self._places[index], bytes(value), len(value))

    def get(self, index: int) -> bytes:
        return ctypes.string_at(self._places[index], self.sizes[index])
