"""The suite's device: the GPU at hand, through croq's own driver layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from croq.bench.workload import Array
from croq.diagnostics import LaunchError, make
from croq.driver.arrays import NUMPY_TYPES, view
from croq.driver.bindings import driver
from croq.driver.device import DeviceInfo, ensure_context, synchronize, time_launches
from croq.driver.device_array import DeviceArray
from croq.driver.errors import check


class Gpu:
    """A GPU in its primary context, which frameworks share; all work goes to the default stream."""

    def __init__(self, info: DeviceInfo) -> None:
        self.info = info
        ensure_context(info.index)

    def upload(self, array: Array) -> DeviceArray:
        return DeviceArray.from_numpy(array, self.info.index)

    def download(self, array: Any) -> Array:
        """The host copy of a contiguous device array of any library, after all work issued before."""
        source = view(array)
        if not source.contiguous:
            raise LaunchError(
                [make("E-4181", None, "the result is a strided array, which cannot be fetched in one copy")]
            )
        host = np.empty(source.shape, NUMPY_TYPES[source.dtype])
        synchronize()
        check(driver().cuMemcpyDtoH(host.ctypes.data, source.pointer, host.nbytes), "cuMemcpyDtoH")
        return host

    def time(self, launch: Callable[[], Any], *, warmup: int, repeat: int) -> float:
        return time_launches(launch, warmup=warmup, repeat=repeat)

    def describe(self) -> Mapping[str, Any]:
        version = int(check(driver().cuDriverGetVersion(), "cuDriverGetVersion"))
        return {
            "name": self.info.name,
            "compute_capability": "{}.{}".format(*self.info.compute_capability),
            "multiprocessors": self.info.multiprocessors,
            "memory_bytes": self.info.memory_bytes,
            "max_clock_khz": self.info.clock_khz,
            "cuda_driver": f"{version // 1000}.{version % 1000 // 10}",
        }
