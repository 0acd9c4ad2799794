"""The whole `.cu` file of one or several kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from croq.emit.kernel import EmittedKernel, emit_kernel
from croq.emit.templating import render
from croq.emit.text import Line, base_name, finish
from croq.ir.objects import Kernel
from croq.target.sm90.instructions import Wgmma, register_fence

# types of the prelude that the emitted code names without `croq::`, in the order of the using-declarations
PRELUDE_TYPES = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "bf16", "f16", "f8_e4m3", "f8_e5m2")


def emit_cuda(kernels: Sequence[Kernel], *, lineinfo: bool = False, why: bool = False) -> str:
    """The CUDA text of kernels in hardware IR, all of one `.co` file. It includes `croq.cuh` and nothing else.

    The same kernels give the same text everywhere. With `lineinfo`, `#line` directives make NVRTC, profilers and the
    sanitizer speak of the `.co` file's lines. With `why`, a comment beside each operation that orders names
    its rule and the line that it stands for. Raises KeyError for an operation that has no emission (a fault of croq).
    """
    source, own = _names(kernels)
    return finish(_lines(kernels, why), source, own, lineinfo=lineinfo)


def source_lines(kernels: Sequence[Kernel]) -> list[int | None]:
    """For each line of `emit_cuda(kernels)` the line of the `.co` file that it came from."""
    return [line.source for line in _lines(kernels)]


def _names(kernels: Sequence[Kernel]) -> tuple[str, str]:
    """Of the `.co` file, and of the one that it becomes."""
    source = base_name(kernels[0].file)
    return source, str(PurePosixPath(source).with_suffix(".cu"))


def _lines(kernels: Sequence[Kernel], why: bool = False) -> list[Line]:
    emitted = [emit_kernel(kernel, why) for kernel in kernels]
    source, own = _names(kernels)
    device = list(dict.fromkeys(text.strip("\n") for kernel in kernels for text in kernel.device_text))
    body = [line for kernel in emitted for line in kernel.lines]
    fields = {
        "own": own,
        "source": source,
        "target": kernels[0].target.name,
        "usings": _usings([*(line.text for line in body)]),
        "shared": any(kernel.uses_shared for kernel in emitted),
        "wrappers": _wrappers(emitted),
        "device": device,
        "kernels": body,
    }
    return _squeezed(render("file", fields))


def _usings(texts: Sequence[str]) -> str:
    code = "\n".join(re.sub(r"//.*$", "", text) for text in texts)
    found = [t for t in PRELUDE_TYPES if re.search(rf"(?<![\w:]){t}\b", code)]
    return ", ".join(f"croq::{t}" for t in found)


def _wrappers(emitted: Sequence[EmittedKernel]) -> list[str]:
    def order(wgmma: Wgmma) -> str:
        return wgmma.name

    instructions = sorted({i for kernel in emitted for i in kernel.instructions}, key=order)
    fences = sorted({f for kernel in emitted for f in kernel.fences})
    return [i.wrapper.rstrip("\n") for i in instructions] + [register_fence(n, k).rstrip("\n") for n, k in fences]


def _squeezed(lines: Sequence[Line]) -> list[Line]:
    """No two empty lines in a row, none after an opening brace."""
    kept: list[Line] = []
    for line in lines:
        if not line.text and (not kept or not kept[-1].text or kept[-1].text.endswith("{")):
            continue
        kept.append(line)
    return kept
