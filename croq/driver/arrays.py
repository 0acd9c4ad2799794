"""Looks into any array that speaks DLPack, without its framework: address, shape, strides, type, device.

Three ways in, tried in this order: croq's own `DeviceArray`, NumPy arrays (with the types of `ml_dtypes`), the DLPack
protocol (PyTorch, CuPy, JAX and others), and `__cuda_array_interface__` for older libraries. Nothing is copied and
nothing waits for the device: ordering streams is the caller's business.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Literal

import ml_dtypes
import numpy as np

from croq.diagnostics import LaunchError, make
from croq.driver import dlpack
from croq.driver.device import pointer_device

DeviceKind = Literal["cpu", "cuda"]

# Element types by name, their bytes, and the NumPy type that holds them.
NUMPY_TYPES: dict[str, np.dtype[Any]] = {
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "s8": np.dtype(np.int8),
    "s16": np.dtype(np.int16),
    "s32": np.dtype(np.int32),
    "s64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "bool": np.dtype(np.bool_),
}
ELEMENT_BYTES = {name: dtype.itemsize for name, dtype in NUMPY_TYPES.items()}
_NAMES = {dtype: name for name, dtype in NUMPY_TYPES.items()}


@dataclass(frozen=True)
class ArrayView:
    """An array as a kernel sees it. `strides` count elements, not bytes. Valid while `owner` is alive."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: tuple[DeviceKind, int]
    writable: bool = True
    owner: Any = field(default=None, repr=False, compare=False)

    def croq_identity(self) -> tuple[Any, ...]:
        return self.pointer, self.shape, self.strides, self.dtype, self.device, self.writable

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def elem_bytes(self) -> int:
        return ELEMENT_BYTES[self.dtype]

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps; strides of dimensions of extent 1 do not matter."""
        if self.size == 0:
            return True
        expected = row_major(self.shape)
        return all(n == 1 or s == e for n, s, e in zip(self.shape, self.strides, expected, strict=True))


def identity(argument: Any) -> Hashable | None:
    """What an argument is known by: equal for two only where their views, or the numbers, are equal too, and where both
    can be viewed. None where that cannot be said at less than the price of a view."""
    return IDENTITIES[type(argument)](argument)


class _Identities(dict[Any, Callable[[Any], Hashable | None]]):
    """`identity` for each type of arguments."""

    def __missing__(self, kind: Any) -> Callable[[Any], Hashable | None]:
        torch = sys.modules.get("torch")  # whoever has a tensor has imported it
        own: Callable[[Any], Hashable | None] | None = getattr(kind, "croq_identity", None)
        if own is not None:
            found = own
        elif issubclass(kind, (int, float, np.number, np.bool_)):
            found = _number
        elif torch is not None and kind is torch.Tensor:  # subclasses may mean anything
            found = _torch_tensor
        else:
            found = _unknown
        return self.setdefault(kind, found)


IDENTITIES = _Identities()


def _unknown(argument: Any) -> None:
    return None


def _number(value: Any) -> Hashable:
    return type(value), value if value else repr(value)  # 0.0 equals -0.0, and is another number


def _torch_tensor(tensor: Any) -> Hashable | None:
    """All that its DLPack capsule would tell, and what it would be refused for."""
    try:
        return (
            tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad,
            tensor.is_neg(),
        )  # fmt: skip
    except (RuntimeError, NotImplementedError):  # without storage, sparse, inside of a transform: the view says why not
        return None


def view(array: object, name: str = "array") -> ArrayView:
    """The view of `array`; `name` is how messages call it.

    Raises LaunchError: E-4001 not an array, E-4002 its library refuses to export it, E-4003 an element type that croq
    does not have, E-4004 memory of an unknown kind of device.
    """
    if isinstance(array, np.ndarray):
        return _numpy_view(array, name)
    own = getattr(array, "croq_view", None)  # croq's `DeviceArray`, which this module cannot import
    if own is not None:
        found: ArrayView = own()
        return found
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        return _dlpack_view(array, name)
    interface = getattr(array, "__cuda_array_interface__", None)
    if isinstance(interface, dict):
        return _cuda_interface_view(array, interface, name)
    raise _fault(
        "E-4001",
        f"argument `{name}` is a `{type(array).__name__}`, not an array",
        hint="pass an array that speaks DLPack: PyTorch, CuPy, JAX, NumPy, or `croq.driver.device_array.DeviceArray`",
    )


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of a row-major array without gaps."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    return tuple(strides)


def dtype_name(dtype: np.dtype[Any], name: str = "array") -> str:
    """croq's name of a NumPy type. Raises LaunchError E-4003."""
    found = _NAMES.get(dtype)
    if found is None and dtype.newbyteorder("=") in _NAMES:
        message = f"argument `{name}` has elements of type {dtype} in the byte order of other machines"
        raise _fault("E-4003", message, hint=f"convert it: `{name}.astype({name}.dtype.newbyteorder('='))`")
    if found is None:
        raise _unknown_type(str(dtype), name)
    return found


def _numpy_view(array: np.ndarray[Any, Any], name: str) -> ArrayView:
    dtype = dtype_name(array.dtype, name)
    strides = _elements(array.strides, array.itemsize, name)
    pointer = int(array.__array_interface__["data"][0])  # `ctypes.data` is several times slower
    return ArrayView(pointer, array.shape, strides, dtype, ("cpu", 0), bool(array.flags.writeable), array)


def _dlpack_view(array: Any, name: str) -> ArrayView:
    try:
        tensor = dlpack.read(array)
    except dlpack.ExportRefused as error:
        raise _fault(
            "E-4002",
            f"argument `{name}` cannot be exported by DLPack",
            notes=[str(error)],
            hint="a PyTorch tensor that requires grad must be detached: `tensor.detach()`",
        ) from error
    dtype = dlpack.TYPE_NAMES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        raise _unknown_type(f"DLPack type {tensor.code} of {tensor.bits} bits, {tensor.lanes} lanes", name)
    kind: DeviceKind | None = dlpack.DEVICE_KINDS.get(tensor.device_type)
    if kind is None:
        raise _fault("E-4004", f"argument `{name}` lies in memory of DLPack device type {tensor.device_type}")
    strides = tensor.strides if tensor.strides is not None else row_major(tensor.shape)
    device: tuple[DeviceKind, int] = (kind, tensor.device_index if kind == "cuda" else 0)
    return ArrayView(
        tensor.pointer, tensor.shape, strides, dtype, device, not tensor.read_only, (array, tensor.capsule)
    )


def _cuda_interface_view(array: object, interface: dict[str, Any], name: str) -> ArrayView:
    try:
        pointer, read_only = interface["data"]
        shape = tuple(int(n) for n in interface["shape"])
        dtype = dtype_name(np.dtype(interface["typestr"]), name)
        byte_strides = interface.get("strides")
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        message = f"argument `{name}` has a `__cuda_array_interface__` that cannot be read"
        raise _fault("E-4002", message, notes=[reason]) from error
    strides = row_major(shape) if byte_strides is None else _elements(byte_strides, ELEMENT_BYTES[dtype], name)
    device = pointer_device(int(pointer)) if pointer else None  # the interface itself does not tell
    return ArrayView(int(pointer or 0), shape, strides, dtype, ("cuda", device or 0), not read_only, array)


def _elements(byte_strides: tuple[int, ...], elem_bytes: int, name: str) -> tuple[int, ...]:
    if any(stride % elem_bytes for stride in byte_strides):
        raise _fault(
            "E-4005",
            f"argument `{name}` has strides of {tuple(byte_strides)} bytes, no whole numbers of its elements",
            hint="copy it: a field of a structured array cannot be passed",
        )
    return tuple(int(stride) // elem_bytes for stride in byte_strides)


def _unknown_type(what: str, name: str) -> LaunchError:
    known = ", ".join(f"`{n}`" for n in NUMPY_TYPES)
    return _fault("E-4003", f"argument `{name}` has an element type that croq does not have: {what}", hint=known)


def _fault(code: str, message: str, *, notes: list[str] | None = None, hint: str | None = None) -> LaunchError:
    return LaunchError([make(code, None, message, notes=notes or (), hint=hint)])
