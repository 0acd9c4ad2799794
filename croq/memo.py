"""Lowered programs on disk, so that a text that was compiled before is not lowered, verified and emitted again.

An entry is what `compile_file` made of one text under one set of settings: hardware IR, diagnostics, emitted CUDA. Its
key covers the text, the settings, and every source file of croq itself, so that a changed compiler forgets what the old
one made. Entries are pickles of croq's own objects in the user's own cache folder; like the cubins beside them they are
written whole or not at all, and whatever cannot be read is made again.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from croq.driver.cache import default_folder

if TYPE_CHECKING:
    from croq.compiler import Settings
    from croq.diagnostics import Diagnostic
    from croq.ir.objects import Module
    from croq.source import SourceFile

SUFFIX = ".croqir"
COUNT_LIMIT = 256  # entries; the oldest go first


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
        data = (default_folder() / f"{key}{SUFFIX}").read_bytes()
        found = pickle.loads(data[32:]) if hashlib.sha256(data[32:]).digest() == data[:32] else None
    except Exception:  # of whatever an entry of another age may raise: it is made again
        return None
    return found if isinstance(found, Lowered) else None


def store(key: str, lowered: Lowered) -> None:
    """Remember an entry where that is possible: deep trees cannot be pickled, folders may be read-only."""
    temporary = ""
    try:
        body = pickle.dumps(lowered, protocol=pickle.HIGHEST_PROTOCOL)
        folder = default_folder()
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(body).digest() + body)
        Path(temporary).replace(folder / f"{key}{SUFFIX}")
        _prune(folder)
    except (OSError, RecursionError, pickle.PicklingError):
        if temporary:
            with suppress(OSError):
                Path(temporary).unlink()


def _prune(folder: Path) -> None:
    entries = sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime)
    for path in entries[:-COUNT_LIMIT]:
        with suppress(OSError):
            path.unlink()


@cache
def _fingerprint() -> str:
    """Of croq's own files: names, sizes and times."""
    package = Path(__file__).resolve().parent
    found = [(str(path), path.stat()) for path in sorted(package.rglob("*")) if path.suffix in (".py", ".j2", ".cuh")]
    return ";".join(f"{name}:{status.st_size}:{status.st_mtime_ns}" for name, status in found)
