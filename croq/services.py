"""What lower layers need of upper ones; set when `croq` is imported, so that imports point one way."""

from __future__ import annotations

from collections.abc import Callable


def _none(text: str) -> str:
    raise NotImplementedError


# CUDA text that may include `croq.cuh` to PTX. Raises CompileError E-3010, EnvironmentFault without NVRTC.
cuda_to_ptx: Callable[[str], str] = _none
