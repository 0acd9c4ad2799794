"""Lowered programs on disk, so that a text that was compiled before is not lowered, verified and emitted again.

An entry is what `compile_file` made of one text under one set of settings: hardware IR, diagnostics, emitted CUDA. Its
key covers the text, the settings, and every source file of croq itself, so that a changed compiler forgets what the old
one made. Entries are pickles of croq's own objects in the user's own cache folder; like the cubins beside them they are
written whole or not at all, and whatever cannot be read is made again.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from croq.folder import Store

if TYPE_CHECKING:
    from croq.compiler import Settings
    from croq.diagnostics import Diagnostic
    from croq.ir.objects import Module
    from croq.source import SourceFile

SUFFIX = ".croqir"
SIZE_LIMIT = 64 * 1024 * 1024  # bytes


@dataclass(frozen=True)
class Lowered:
    """What is remembered. `functions`: the kernels of each `__co__` function that launches something, by name."""

    module: Module
    functions: dict[str, list[str]]
    diagnostics: tuple[Diagnostic, ...]
    cuda: str


def key_of(file: SourceFile, settings: Settings) -> str:
    parts = (file.name, file.text, repr(settings), _fingerprint(), sys.version)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def load(key: str) -> Lowered | None:
    """The entry of `key`; None when there is none, or it cannot be read."""
    try:
        found = pickle.loads(Store(SUFFIX, SIZE_LIMIT).get(key) or b"")
    except Exception:  # of whatever an entry of another age may raise: it is made again
        return None
    return found if isinstance(found, Lowered) else None


def store(key: str, lowered: Lowered) -> None:
    """Remember an entry where that is possible: deep trees cannot be pickled, folders may be read-only."""
    with suppress(RecursionError, pickle.PicklingError):
        Store(SUFFIX, SIZE_LIMIT).put(key, pickle.dumps(lowered, protocol=pickle.HIGHEST_PROTOCOL))


@cache
def _fingerprint() -> str:
    """Of croq's own files: names, sizes and times."""
    package = Path(__file__).resolve().parent
    found = [(str(path), path.stat()) for path in sorted(package.rglob("*")) if path.suffix in (".py", ".j2", ".cuh")]
    return ";".join(f"{name}:{status.st_size}:{status.st_mtime_ns}" for name, status in found)
