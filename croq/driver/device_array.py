"""Device memory with a shape and a type: enough to run a kernel where no framework is installed."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from croq.diagnostics import LaunchError, make
from croq.driver import dlpack
from croq.driver.arrays import ELEMENT_BYTES, NUMPY_TYPES, ArrayView, dtype_name, row_major
from croq.driver.bindings import driver
from croq.driver.device import device_context
from croq.driver.errors import check


class DeviceArray:
    """A row-major array on one GPU, freed with the object. Make it by `empty` or `from_numpy`.

    Other libraries take it by DLPack or, but for the types that it cannot spell, by `__cuda_array_interface__`.
    """

    def __init__(self, pointer: int, shape: tuple[int, ...], dtype: str, device: int) -> None:
        """Takes over device memory at `pointer`, which must come from cuMemAlloc."""
        self.pointer = pointer
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self._free = weakref.finalize(self, _free_memory, pointer, device)

    @classmethod
    def empty(cls, shape: Sequence[int], dtype: str, device: int = 0) -> DeviceArray:
        """Uninitialised memory. Raises EnvironmentFault E-3203 without enough memory, LaunchError for a bad shape."""
        extents = tuple(int(n) for n in shape)
        if dtype not in ELEMENT_BYTES:
            raise LaunchError([make("E-4003", None, f"`{dtype}` is no element type of croq")])
        if any(n < 0 for n in extents):
            raise LaunchError([make("E-4005", None, f"a shape of {extents} has a negative extent")])
        size = ELEMENT_BYTES[dtype]
        for n in extents:
            size *= n
        with device_context(device):
            pointer = int(check(driver().cuMemAlloc(max(size, 1)), "cuMemAlloc"))
        return cls(pointer, extents, dtype, device)

    @classmethod
    def from_numpy(cls, array: npt.NDArray[Any], device: int = 0) -> DeviceArray:
        """A copy of `array` on the device, complete when this returns."""
        result = cls.empty(array.shape, dtype_name(array.dtype), device)
        result.copy_from(array)
        return result

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * ELEMENT_BYTES[self.dtype]

    def copy_from(self, array: npt.NDArray[Any]) -> None:
        """Overwrite with the elements of `array`, whose shape and type must be the same (LaunchError E-4006)."""
        if array.shape != self.shape or dtype_name(array.dtype) != self.dtype:
            have, want = f"{array.dtype}{list(array.shape)}", f"{self.dtype}{list(self.shape)}"
            raise LaunchError([make("E-4006", None, f"an array of {have} cannot be copied into {want}")])
        source = np.ascontiguousarray(array)
        if self.nbytes:
            with device_context(self.device):
                check(driver().cuMemcpyHtoD(self.pointer, source.ctypes.data, self.nbytes), "cuMemcpyHtoD")

    def to_numpy(self) -> npt.NDArray[Any]:
        """A copy on the host, after all work of the default stream before it."""
        result = np.empty(self.shape, dtype=NUMPY_TYPES[self.dtype])
        if self.nbytes:
            with device_context(self.device):
                check(driver().cuMemcpyDtoH(result.ctypes.data, self.pointer, self.nbytes), "cuMemcpyDtoH")
        return result

    def fill_bytes(self, value: int) -> None:
        """Set every byte to `value` (0..255) on the default stream."""
        with device_context(self.device):
            check(driver().cuMemsetD8(self.pointer, value, self.nbytes), "cuMemsetD8")

    def free(self) -> None:
        """Give the memory back now; the array must not be used any more."""
        self._free()

    def croq_identity(self) -> tuple[Any, ...]:
        return self.pointer, self.shape, self.dtype, self.device

    def croq_view(self) -> ArrayView:
        return ArrayView(self.pointer, self.shape, row_major(self.shape), self.dtype, ("cuda", self.device), True, self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.KIND_CUDA, self.device

    def __dlpack__(self, *, stream: object = None, max_version: object = None, **_: object) -> Any:
        """A capsule for other libraries; `stream` needs no ordering, for copies here are complete when they return."""
        strides = row_major(self.shape)
        return dlpack.make_capsule(self, self.pointer, self.shape, strides, self.dtype, self.__dlpack_device__())

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        kind = NUMPY_TYPES[self.dtype]
        if kind.kind not in "biuf" or self.dtype.startswith(("bf", "f8")):
            raise AttributeError(f"`__cuda_array_interface__` cannot spell {self.dtype}; use DLPack")
        return {"shape": self.shape, "typestr": kind.str, "data": (self.pointer, False), "version": 3, "strides": None}

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)}, cuda:{self.device})"


def _free_memory(pointer: int, device: int) -> None:
    """Best effort: at interpreter exit the driver may be gone, and then so is the memory."""
    try:
        with device_context(device):
            driver().cuMemFree(pointer)
    except Exception:
        return
