"""What a measurement was made with: machine, GPU, driver, versions, and the exact kernels."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

PACKAGES = (
    "croq",
    "numpy",
    "ml_dtypes",
    "cuda-bindings",
    "nvidia-cuda-nvrtc",
    "torch",
    "fa3-fwd",
    "matplotlib",
)


def environment(device: Mapping[str, Any], kernels: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """A JSON object. `device` is what the device says of itself; `kernels` maps a name to texts ("source", "cuda"),
    of which the SHA-256 is kept, so that a number can be tied to what it was measured with."""
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processor_cores": os.cpu_count(),
        "packages": dict(_versions(PACKAGES)),
        "device": dict(device),
        "variables": {name: value for name, value in sorted(os.environ.items()) if name.startswith("CROQ_")},
        "kernels": {
            name: {part: hashlib.sha256(text.encode()).hexdigest() for part, text in texts.items()}
            for name, texts in kernels.items()
        },
    }


def _versions(packages: Iterable[str]) -> Iterable[tuple[str, str | None]]:
    for package in packages:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            yield package, None
