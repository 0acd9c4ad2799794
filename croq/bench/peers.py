"""Other implementations of the same attention, measured beside croq's kernels where they are installed.

A peer that is missing is reported as missing, with the reason; nothing ever stands in for it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Protocol

from croq.bench.workload import AttentionWorkload


class Peer(Protocol):
    """An implementation from outside. Detection imports it and needs no GPU."""

    @property
    def name(self) -> str: ...
    def missing(self, workload: AttentionWorkload) -> str | None:
        """Why it cannot run this workload here; `None` if it can."""
        ...

    def prepare(
        self, workload: AttentionWorkload, q: Any, k: Any, v: Any
    ) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """`(launch, output)` for BSHD device arrays that speak DLPack. `launch` issues one execution on the default
        stream of the device's primary context; `output` gives the last result as a DLPack device array."""
        ...

    def version(self) -> str: ...


@dataclass(frozen=True)
class FlashAttention3:
    """FlashAttention-3, from the PyPI package `fa3-fwd`; it works on PyTorch tensors."""

    name: str = "FA3"
    module: str = "fa3_fwd_interface"
    package: str = "fa3-fwd"

    def missing(self, workload: AttentionWorkload) -> str | None:
        if workload.dtype != "bf16":
            return f"the package has no {workload.dtype} kernels"
        for module, package in (("torch", "torch"), (self.module, self.package)):
            try:
                importlib.import_module(module)
            except ImportError as error:
                return f"`{module}` cannot be imported ({error}); install `{package}`"
            except (OSError, RuntimeError) as error:  # a shared library that does not load or does not fit
                return f"`{module}` does not load: {error}"
        if not importlib.import_module("torch").cuda.is_available():
            return "the installed PyTorch finds no CUDA device"
        return None

    def prepare(
        self, workload: AttentionWorkload, q: Any, k: Any, v: Any
    ) -> tuple[Callable[[], Any], Callable[[], Any]]:
        torch: Any = importlib.import_module("torch")
        attention: Any = importlib.import_module(self.module).flash_attn_func
        tensors = [torch.from_dlpack(array) for array in (q, k, v)]
        last: list[Any] = [None]

        def launch() -> None:
            result = attention(*tensors, softmax_scale=workload.scale, causal=workload.causal)
            last[0] = result[0] if isinstance(result, tuple) else result

        return launch, lambda: last[0]

    def version(self) -> str:
        return ", ".join(f"{package} {metadata.version(package)}" for package in (self.package, "torch"))


PEERS: tuple[Peer, ...] = (FlashAttention3(),)
