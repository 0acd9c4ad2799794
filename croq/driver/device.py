"""The GPU at hand: finding one, contexts, streams, timing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from croq.diagnostics import CroqError, EnvironmentFault, LaunchError, make
from croq.driver.bindings import driver
from croq.driver.errors import check, fault
from croq.target import DEFAULT

LEGACY_STREAM = 0


@dataclass(frozen=True)
class DeviceInfo:
    """A CUDA device. `clock_khz` is the maximum SM clock, `memory_bytes` all of the memory."""

    index: int
    name: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    clock_khz: int

    @property
    def is_hopper(self) -> bool:
        return self.compute_capability == DEFAULT.capability


def probe_gpu() -> tuple[DeviceInfo | None, str]:
    """The first Hopper GPU and an empty reason, or None and why there is none. Never raises."""
    try:
        count = int(check(driver().cuDeviceGetCount(), "cuDeviceGetCount"))
        devices = [device_info(i) for i in range(count)]
    except CroqError as error:
        first = error.diagnostics[0]
        return None, "; ".join((first.message, *first.notes))
    for device in devices:
        if device.is_hopper:
            return device, ""
    names = ", ".join(f"{d.name} (sm_{d.compute_capability[0]}{d.compute_capability[1]})" for d in devices)
    return None, f"no Hopper GPU among: {names}" if devices else "the driver reports no GPU"


def require_gpu() -> DeviceInfo:
    """The first Hopper GPU. Raises EnvironmentFault E-3202 with the reason when there is none."""
    device, reason = probe_gpu()
    if device is None:
        raise EnvironmentFault(
            [
                make(
                    "E-3202",
                    None,
                    "no Hopper GPU was found",
                    notes=[reason],
                    hint="`croq run` and `croq sim` execute a kernel on the CPU",
                )
            ]
        )
    return device


def device_info(index: int) -> DeviceInfo:
    """What the driver tells about device `index`. Raises EnvironmentFault."""
    cu = driver()
    handle = check(cu.cuDeviceGet(index), "cuDeviceGet")
    name = check(cu.cuDeviceGetName(96, handle), "cuDeviceGetName")

    def attribute(kind: str) -> int:
        which = getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{kind}")
        return int(check(cu.cuDeviceGetAttribute(which, handle), "cuDeviceGetAttribute"))

    return DeviceInfo(
        index,
        name.split(b"\0")[0].decode() if isinstance(name, bytes) else str(name),
        (attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")),
        attribute("MULTIPROCESSOR_COUNT"),
        int(check(cu.cuDeviceTotalMem(handle), "cuDeviceTotalMem")),
        attribute("CLOCK_RATE"),
    )


# ------------------------------------------------------------------------------------------------------------
# contexts

_primary: dict[int, Any] = {}  # primary contexts that this process retains, by device


def primary_context(index: int) -> Any:
    """The primary context of device `index`, which frameworks share; retained once and kept."""
    if index not in _primary:
        cu = driver()
        handle = check(cu.cuDeviceGet(index), "cuDeviceGet")
        _primary[index] = check(cu.cuDevicePrimaryCtxRetain(handle), "cuDevicePrimaryCtxRetain")
    return _primary[index]


def context_handle() -> int:
    """The handle of the calling thread's current context; 0 when there is none."""
    status, context = driver().cuCtxGetCurrent()
    if status:
        raise fault(status, "cuCtxGetCurrent")
    return int(context)


def current_context() -> tuple[int, int] | None:
    """(context handle, device index) of the calling thread's current context; None when there is none."""
    context = context_handle()
    if context == 0:
        return None
    return context, int(check(driver().cuCtxGetDevice(), "cuCtxGetDevice"))


def ensure_context(index: int) -> int:
    """Make sure that the calling thread has a context of device `index` current, and return its handle.

    A current context of that device stays; a thread without one gets the primary context. Raises LaunchError E-4031
    when the current context belongs to another device.
    """
    current = current_context()
    if current is None:
        context = primary_context(index)
        check(driver().cuCtxSetCurrent(context), "cuCtxSetCurrent")
        return int(context)
    if current[1] != index:
        raise LaunchError(
            [
                make(
                    "E-4031",
                    None,
                    f"the arrays lie on device {index}, but device {current[1]} is current in this thread",
                    hint=f"make it current first, for example by `torch.cuda.set_device({index})`",
                )
            ]
        )
    return current[0]


@contextmanager
def device_context(index: int) -> Iterator[int]:
    """A context of device `index`, current within the `with` block; the one before is restored."""
    current = current_context()
    if current is not None and current[1] == index:
        yield current[0]
        return
    context = primary_context(index)
    check(driver().cuCtxPushCurrent(context), "cuCtxPushCurrent")
    try:
        yield int(context)
    finally:
        driver().cuCtxPopCurrent()


def pointer_device(pointer: int) -> int | None:
    """The device that a device address belongs to; None when no driver knows the address."""
    try:
        cu = driver()
    except EnvironmentFault:
        return None
    which = cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    status, index = cu.cuPointerGetAttribute(which, pointer)
    return int(index) if int(status) == 0 and index is not None else None


# -------------------------------------------------------------------------------------------------- streams and
# timing


def stream_handle(stream: object) -> int:
    """The driver's handle of a stream: None (the legacy default stream), an int, or a stream object of a framework.

    Understands `.cuda_stream` (PyTorch, Numba; it takes the least time), `__cuda_stream__` (the protocol of cuda.core,
    CuPy, PyTorch), `.ptr` (CuPy) and the driver binding's own type. Raises LaunchError E-4030.
    """
    if stream is None:
        return LEGACY_STREAM
    handle = getattr(stream, "cuda_stream", None)
    if handle is not None:
        return int(handle)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        answer = protocol() if callable(protocol) else protocol
        return int(answer[1])
    address = getattr(stream, "ptr", None)
    if address is not None:
        return int(address)
    if hasattr(stream, "__int__") and not isinstance(stream, (bool, float)):
        return int(stream)
    raise LaunchError(
        [
            make(
                "E-4030",
                None,
                f"`stream` is a `{type(stream).__name__}`, not a CUDA stream",
                hint="pass an integer handle, a stream object of your framework, or None for the default stream",
            )
        ]
    )


def synchronize(stream: object = None) -> None:
    """Wait until the stream's work is done; with None, all of the current context's."""
    cu = driver()
    if stream is None:
        check(cu.cuCtxSynchronize(), "cuCtxSynchronize")
    else:
        check(cu.cuStreamSynchronize(stream_handle(stream)), "cuStreamSynchronize")


def time_launches(launch: Callable[[], object], *, warmup: int = 10, repeat: int = 50, stream: object = None) -> float:
    """Mean milliseconds of one call of `launch` on `stream`: `warmup` calls, then `repeat` between two events."""
    if repeat < 1:
        raise ValueError("`repeat` must be at least 1")
    cu = driver()
    handle = stream_handle(stream)
    for _ in range(warmup):
        launch()
    events = [check(cu.cuEventCreate(0), "cuEventCreate") for _ in range(2)]
    try:
        check(cu.cuEventRecord(events[0], handle), "cuEventRecord")
        for _ in range(repeat):
            launch()
        check(cu.cuEventRecord(events[1], handle), "cuEventRecord")
        check(cu.cuEventSynchronize(events[1]), "cuEventSynchronize")
        return float(check(cu.cuEventElapsedTime(events[0], events[1]), "cuEventElapsedTime")) / repeat
    finally:
        for event in events:
            cu.cuEventDestroy(event)
