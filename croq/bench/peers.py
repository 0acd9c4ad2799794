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


Attention = Callable[[Any, Any, Any], Any]  # of tensors [batch, sequence, heads, dim]


@dataclass(frozen=True)
class TorchPeer:
    """A function on PyTorch tensors: what `bound` makes of its module for a workload of one of the element types."""

    name: str
    module: str
    package: str
    dtypes: tuple[str, ...]
    bound: Callable[[Any, AttentionWorkload], Attention]

    def missing(self, workload: AttentionWorkload) -> str | None:
        if workload.dtype not in self.dtypes:
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
        attention = self.bound(importlib.import_module(self.module), workload)
        tensors = [torch.from_dlpack(array) for array in (q, k, v)]
        last: list[Any] = [None]

        def launch() -> None:
            last[0] = attention(*tensors)

        return launch, lambda: last[0]

    def version(self) -> str:
        return ", ".join(f"{p} {metadata.version(p)}" for p in dict.fromkeys((self.package, "torch")))


def _flash_attention_3(module: Any, workload: AttentionWorkload) -> Attention:
    def attention(q: Any, k: Any, v: Any) -> Any:
        result = module.flash_attn_func(q, k, v, softmax_scale=workload.scale, causal=workload.causal)
        return result[0] if isinstance(result, tuple) else result

    return attention


PEERS: tuple[Peer, ...] = (TorchPeer("FA3", "fa3_fwd_interface", "fa3-fwd", ("bf16",), _flash_attention_3),)
