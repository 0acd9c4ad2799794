"""croq compiles the `.co` tile language to Hopper kernels, launches them, and executes them on machines without a GPU.

    k = croq.compile("v4")                        # a path, a shipped kernel, or program text
    k(q, k_, v, o)                                # any DLPack arrays on the GPU
    croq.simulate(k, q, k_, v, o, blocks=2)       # NumPy arrays on the CPU
    croq.check("kernels/v4.co")                   # diagnostics only

Everything is imported when it is first used, so that `import croq` costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from croq import services

if TYPE_CHECKING:
    from croq.diagnostics import (
        CompileError,
        CroqError,
        Diagnostic,
        EnvironmentFault,
        Label,
        LaunchError,
        WrongResult,
    )
    from croq.driver.device_array import DeviceArray
    from croq.kernel import Kernel, check, compile, simulate
    from croq.source import SourceFile, Span

__all__ = [
    "CompileError",
    "CroqError",
    "DeviceArray",
    "Diagnostic",
    "EnvironmentFault",
    "Kernel",
    "Label",
    "LaunchError",
    "SourceFile",
    "Span",
    "WrongResult",
    "check",
    "compile",
    "simulate",
]

_HOMES = {
    "croq.diagnostics": (
        "CompileError", "CroqError", "Diagnostic", "EnvironmentFault", "Label", "LaunchError", "WrongResult"
    ),
    "croq.driver.device_array": ("DeviceArray",),
    "croq.kernel": ("Kernel", "check", "compile"),
    "croq.source": ("SourceFile", "Span"),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "simulate":
        return importlib.import_module("croq.simulate")
    if name == "__version__":
        return _version()
    if name not in _HOME:
        raise AttributeError(f"module 'croq' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("croq")
    except metadata.PackageNotFoundError:
        return "0+unpackaged"


def _cuda_to_ptx(text: str) -> str:
    from croq.driver.cache import compile_ptx_cached

    return compile_ptx_cached(text, name="functions.cu")


services.cuda_to_ptx = _cuda_to_ptx


class _CallableModule(ModuleType):
    """`croq.simulate` is a package, and called it is the function `croq.kernel.simulate`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from croq.kernel import simulate

        return simulate(*args, **kwargs)


class _Package(ModuleType):
    """The import system stores a sub-package as an attribute of its parent: here that one gets its second nature."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "simulate" and isinstance(value, ModuleType):
            value.__class__ = _CallableModule
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
