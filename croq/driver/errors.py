"""Turns a status of the CUDA driver into a coded diagnostic."""

from __future__ import annotations

from typing import Any

from croq.diagnostics import CroqError, EnvironmentFault, LaunchError, make
from croq.driver.bindings import driver
from croq.target import DEFAULT

# What the common ones mean for a user; everything else is reported by name.
_ADVICE = {
    "CUDA_ERROR_OUT_OF_MEMORY": ("E-3203", "free device memory, or use smaller inputs"),
    "CUDA_ERROR_NO_BINARY_FOR_GPU": (
        "E-3202",
        f"kernels are built for {DEFAULT.name}: Hopper (H100, H200)",
    ),
    "CUDA_ERROR_ILLEGAL_ADDRESS": (
        "E-4040",
        "an earlier kernel read or wrote outside its arrays; see `compute-sanitizer`",
    ),
    "CUDA_ERROR_LAUNCH_FAILED": ("E-4040", "an earlier kernel failed on the device; see `compute-sanitizer`"),
    "CUDA_ERROR_LAUNCH_TIMEOUT": ("E-4040", "the kernel ran into the display watchdog of this GPU"),
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": ("E-4040", "an earlier kernel failed on the device; see `compute-sanitizer`"),
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": ("E-4041", "the kernel takes more registers or shared memory than a CTA has"),
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": (
        "E-4042",
        "call `kernel.prepare` with the arguments before the capture, so that it is loaded already",
    ),
}
_ENVIRONMENT = frozenset({"E-3202", "E-3203", "E-3204"})


def check(result: tuple[Any, ...], call: str) -> Any:
    """The value of a driver call: None, the one value, or a tuple. Raises EnvironmentFault or LaunchError."""
    status = result[0]
    if int(status) != 0:
        raise fault(status, call)
    values = result[1:]
    if not values:
        return None
    return values[0] if len(values) == 1 else values


def fault(status: Any, call: str) -> CroqError:
    """The error of a failed driver call, not raised."""
    name = getattr(status, "name", str(status))
    code, hint = _ADVICE.get(name, ("E-3204", None))
    message = f"`{call}` failed with `{name}`"
    notes = [text] if (text := _description(status)) else []
    diagnostic = make(code, None, message, notes=notes, hint=hint)
    return EnvironmentFault([diagnostic]) if code in _ENVIRONMENT else LaunchError([diagnostic])


def _description(status: Any) -> str:
    try:
        answer, text = driver().cuGetErrorString(status)
    except Exception:  # the description is a courtesy; the name has been given
        return ""
    if int(answer) != 0 or text is None:
        return ""
    return text.decode() if isinstance(text, bytes) else str(text)
