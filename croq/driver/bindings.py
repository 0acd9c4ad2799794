"""The two CUDA libraries that croq calls, imported when first needed: NVRTC (no GPU required) and the driver.

Both come from the `cuda-bindings` package, which loads the shared libraries on the first call. Whatever is missing
turns into an `EnvironmentFault` that says what to install; nothing in croq imports `cuda` anywhere else.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from importlib import metadata
from typing import Any

from croq.diagnostics import EnvironmentFault, make

NVRTC_INSTALL = "pip install cuda-bindings nvidia-cuda-nvrtc"
DRIVER_INSTALL = "pip install cuda-bindings, on a machine with an NVIDIA driver"


@lru_cache(maxsize=1)
def nvrtc() -> Any:
    """The module `cuda.bindings.nvrtc`, with libnvrtc loaded. Raises EnvironmentFault E-3001."""
    try:
        module = importlib.import_module("cuda.bindings.nvrtc")
        module.nvrtcVersion()
    except Exception as error:  # the package is absent, or its loader found no library: its own kinds of error
        reason = _first_line(error)
        raise EnvironmentFault(
            [make("E-3001", None, "the CUDA compiler NVRTC was not found", notes=[reason], hint=NVRTC_INSTALL)]
        ) from error
    return module


@lru_cache(maxsize=1)
def driver() -> Any:
    """The module `cuda.bindings.driver`, initialised by cuInit. Raises EnvironmentFault E-3201."""
    try:
        module = importlib.import_module("cuda.bindings.driver")
        (status,) = module.cuInit(0)
    except Exception as error:
        reason = _first_line(error)
        raise EnvironmentFault(
            [make("E-3201", None, "the CUDA driver was not found", notes=[reason], hint=DRIVER_INSTALL)]
        ) from error
    if int(status) != 0:
        name = getattr(status, "name", str(status))
        raise EnvironmentFault(
            [
                make(
                    "E-3201",
                    None,
                    "the CUDA driver cannot be used",
                    notes=[f"cuInit answered `{name}`"],
                    hint="look at `nvidia-smi`: is there a GPU, and does the driver see it?",
                )
            ]
        )
    return module


@lru_cache(maxsize=1)
def nvrtc_version() -> tuple[int, int]:
    """(major, minor) of the NVRTC in use, which is the CUDA release that it belongs to."""
    status, major, minor = nvrtc().nvrtcVersion()
    if int(status) != 0:
        raise EnvironmentFault([make("E-3001", None, f"NVRTC does not tell its version (status {int(status)})")])
    return int(major), int(minor)


@lru_cache(maxsize=1)
def nvrtc_release() -> str:
    """Which NVRTC compiles: the version of the pip wheel, which is loaded where it is installed, or what NVRTC says.

    The wheel is asked without loading the library, which would take most of the time of a recalled compilation.
    """
    try:
        return metadata.version("nvidia-cuda-nvrtc")
    except metadata.PackageNotFoundError:
        return ".".join(map(str, nvrtc_version()))


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no reason given'}"
