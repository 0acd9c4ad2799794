"""The folder in which croq remembers between processes: the parser's tables, lowered programs, cubins.

What lies there is believed: tables are unpickled, CUDA is compiled, cubins run. So a folder that belongs to somebody
else, or in which others can write, is passed over, and nothing is remembered; `refusal` says why. Nor does a folder
that cannot be made or written ever fail a run. Entries are written whole or not at all, so that other processes see
whole ones only.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

VARIABLE = "CROQ_CACHE_DIR"


def chosen() -> Path:
    """$CROQ_CACHE_DIR, or the user's cache folder."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_cache_dir("croq", appauthor=False))


def usable() -> Path | None:
    """The folder, made where there is none; None where it cannot be had or must not be trusted."""
    folder = chosen()
    return folder if _fault(folder) is None else None


def refusal() -> str | None:
    """Why nothing is remembered, in words; None when there is a folder for it."""
    folder = chosen()
    fault = _fault(folder)
    return None if fault is None else f"nothing is remembered between runs: the cache folder `{folder}` {fault}"


class Store:
    """Entries of one kind, found by a key. A damaged entry is none; the oldest go when all are too large together."""

    def __init__(self, suffix: str, limit: int, place: Path | None = None) -> None:
        """`limit`: bytes. `place`: the usable folder when None."""
        self.place = place if place is not None else usable()
        self.suffix = suffix
        self.limit = limit

    def path(self, key: str) -> Path | None:
        return None if self.place is None else self.place / f"{key}{self.suffix}"

    def get(self, key: str) -> bytes | None:
        """What was put; None when there is nothing, or it is damaged or cannot be read."""
        path = self.path(key)
        try:
            data = path.read_bytes() if path is not None else b""
        except OSError:
            return None
        digest, body = data[:_DIGEST], data[_DIGEST:]
        return body if digest == _digest(body) else None

    def put(self, key: str, body: bytes) -> bool:
        """Replace the entry of `key`; False when that cannot be done."""
        path = self.path(key)
        if path is None or not _write(path, _digest(body) + body):
            return False
        self._prune(path)
        return True

    def _prune(self, keep: Path) -> None:
        entries: list[tuple[float, int, Path]] = []
        for path in keep.parent.glob(f"*{self.suffix}"):
            with suppress(OSError):
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
        excess = sum(size for _, size, _ in entries) - self.limit
        for _, size, path in sorted(entries):
            if excess <= 0:
                return
            if path != keep:
                with suppress(OSError):
                    path.unlink()
                excess -= size


_DIGEST = 32  # bytes in front of an entry


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()


def _write(path: Path, data: bytes) -> bool:
    temporary: Path | None = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        temporary = Path(made)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except OSError:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()
        return False
    return True


def _fault(folder: Path) -> str | None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        return f"cannot be used ({error.strerror})"
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by others; take that away with `chmod go-w`"
    return None
