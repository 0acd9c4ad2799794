"""The names that C++, CUDA and croq's runtime have taken: facts about the compiler that reads what croq emits.

`cuda_names.txt` was asked of NVRTC, name by name (tools/cuda_names.py; a test asks again): the functions that device
code can call, and the other names that cannot be a kernel's or a variable's. What C++ reserves by its form (two
underscores, or one and a capital, in front) is a rule here, not a list.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from croq.resources import resource

# What emitted code itself means by a name without `croq::` in front: the words of the file and of the kernels' heads.
_EMITTED_WORDS = """
    threadIdx blockIdx blockDim gridDim croq croq_smem register_fence
    s8 s16 s32 s64 u8 u16 u32 u64 f32 f64 bf16 f16 f8_e4m3 f8_e5m2
"""
_EMITTED = frozenset(_EMITTED_WORDS.split())
_EMITTED_FORM = re.compile(r"wgmma_m\d|croq_watchdog_")
_FORM = re.compile(r"__|_[A-Z]")
OF_THE_COMPILER = ("__builtin_", "__nv", "__atomic_", "__sync_")  # callable, too many to list
_RUNTIME_NAME = re.compile(r"^(?:CROQ_FN|struct|#define)\b.*?\b(\w+)\s*(?:[({]|$)", re.MULTILINE)


@lru_cache(maxsize=1)
def _table() -> dict[str, frozenset[str]]:
    found = {}
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        kind, _, names = line.partition(":")
        if not line.startswith("#"):
            found[kind] = frozenset(names.split())
    return found


def functions() -> frozenset[str]:
    """CUDA's own functions that device code can call without a header."""
    return _table()["function"]


@lru_cache(maxsize=1)
def runtime() -> frozenset[str]:
    """What runtime/croq.cuh declares."""
    return frozenset(_RUNTIME_NAME.findall(resource("runtime", "croq.cuh").read_text(encoding="utf-8")))


@lru_cache(maxsize=1)
def _runtime_macros() -> frozenset[str]:
    """Macros that runtime/croq.cuh defines or asks for."""
    text = resource("runtime", "croq.cuh").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^#\s*(?:define|ifdef|ifndef)\s+(\w+)", text, re.MULTILINE))


def callable_from_device(name: str) -> bool:
    """Whether CUDA or the runtime declares the function `name`, which may be qualified."""
    *spaces, last = name.split("::")
    if spaces == ["croq"]:
        return last in runtime()
    return spaces in ([], [""]) and (last in functions() or last.startswith(OF_THE_COMPILER))


def taken_for_variables(name: str) -> bool:
    """Whether C++ refuses `name` for a local variable, or emitted code means something else by it."""
    emitted = name in _EMITTED or name in _runtime_macros() or _EMITTED_FORM.match(name) is not None
    return emitted or reserved_by_form(name) or name in _table()["taken"]


def taken_for_kernels(name: str) -> bool:
    """Whether C++ refuses `name` for a kernel."""
    return taken_for_variables(name) or name in functions()


def reserved_by_form(name: str) -> bool:
    return _FORM.match(name) is not None


def plain(name: str) -> str:
    """`name`, or where its form is what reserves it, one that any suffix makes free."""
    if _EMITTED_FORM.match(name) is not None:
        return f"own_{name}"
    return (name.lstrip("_") or "name") if reserved_by_form(name) else name


def kernel_name(wanted: str, taken: Collection[str]) -> str:
    """`wanted`, or the first of `wanted_2`, .. that C++ takes for a kernel and that is not `taken`."""
    base = plain(wanted)
    candidate, n = base, 1
    while taken_for_kernels(candidate) or candidate in taken:
        n += 1
        candidate = f"{base}_{n}"
    return candidate
