"""Compiled cubins on disk, keyed by everything that shapes them.

A cache never makes a run fail: an entry that is damaged is rebuilt, a folder that cannot be written is passed over.
Entries are written to a temporary file and renamed, so that readers in other processes see whole ones only.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import platformdirs

from croq.driver.bindings import nvrtc_version
from croq.driver.nvrtc import Compiled, command_line, compile_cuda, prelude
from croq.source import SourceFile

MAGIC = b"croq-cubin-1\n"  # changes with the form of an entry
SUFFIX = ".croqbin"
SIZE_LIMIT = 256 * 1024 * 1024  # bytes; the oldest entries go first
FOLDER_VARIABLE = "CROQ_CACHE_DIR"


class CubinCache:
    """Entries in one folder, created when first written."""

    def __init__(self, folder: Path | None = None, size_limit: int = SIZE_LIMIT) -> None:
        """`folder`: None takes $CROQ_CACHE_DIR, or else the user's cache folder."""
        self.folder = folder if folder is not None else default_folder()
        self.size_limit = size_limit

    def path(self, key: str) -> Path:
        return self.folder / f"{key}{SUFFIX}"

    def get(self, key: str) -> Compiled | None:
        """The entry of `key`; None when there is none, or it is damaged or unreadable."""
        try:
            data = self.path(key).read_bytes()
        except OSError:
            return None
        return _decode(data)

    def put(self, key: str, compiled: Compiled) -> bool:
        """Store an entry; False when the folder cannot be written."""
        temporary: str | None = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=".new-")
            with os.fdopen(handle, "wb") as file:
                file.write(_encode(compiled))
            Path(temporary).replace(self.path(key))
        except OSError:
            if temporary is not None:
                with suppress(OSError):
                    Path(temporary).unlink()
            return False
        self._prune(keep=key)
        return True

    def _prune(self, keep: str) -> None:
        entries: list[tuple[float, int, Path]] = []
        with suppress(OSError):
            for path in self.folder.glob(f"*{SUFFIX}"):
                with suppress(OSError):
                    status = path.stat()
                    entries.append((status.st_mtime, status.st_size, path))
        excess = sum(size for _, size, _ in entries) - self.size_limit
        for _, size, path in sorted(entries):
            if excess <= 0:
                return
            if path != self.path(keep):
                with suppress(OSError):
                    path.unlink()
                excess -= size


def default_folder() -> Path:
    """$CROQ_CACHE_DIR, or the user's cache folder."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("croq", appauthor=False))


def cache_key(
    source: str,
    *,
    arch: str = "sm_90a",
    options: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    lineinfo: bool = False,
    name: str = "kernel.cu",
) -> str:
    """A hash over all that shapes the cubin: text, headers, options, architecture, compiler, croq."""
    parts = {
        "source": source,
        "name": name,
        "headers": sorted((prelude() if headers is None else headers).items()),
        "command_line": command_line(arch, options, lineinfo),
        "nvrtc": nvrtc_version(),
        "folder": str(Path.cwd()) if lineinfo else "",  # line tables hold absolute names
        "croq": _croq_version(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def compile_cached(
    source: str,
    *,
    arch: str = "sm_90a",
    options: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    lineinfo: bool = False,
    name: str = "kernel.cu",
    origins: Iterable[SourceFile] = (),
    cache: CubinCache | None = None,
) -> Compiled:
    """`compile_cuda`, through a cache (the default one when None). Same parameters, result and errors."""
    store = cache if cache is not None else CubinCache()
    key = cache_key(source, arch=arch, options=options, headers=headers, lineinfo=lineinfo, name=name)
    found = store.get(key)
    if found is not None:
        return found
    compiled = compile_cuda(
        source, arch=arch, options=options, headers=headers, lineinfo=lineinfo, name=name, origins=origins
    )
    store.put(key, compiled)
    return compiled


def _croq_version() -> str:
    try:
        return metadata.version("croq")
    except metadata.PackageNotFoundError:
        return "unpackaged"


# Form of an entry: MAGIC, SHA-256 of the rest (32 bytes), length of the header (8 bytes, little endian), header
# (JSON), cubin.


def _encode(compiled: Compiled) -> bytes:
    header = json.dumps({"log": compiled.log, "ptx": compiled.ptx}).encode()
    body = len(header).to_bytes(8, "little") + header + compiled.cubin
    return MAGIC + hashlib.sha256(body).digest() + body


def _decode(data: bytes) -> Compiled | None:
    digest_end = len(MAGIC) + 32
    if not data.startswith(MAGIC) or len(data) < digest_end + 8:
        return None
    body = data[digest_end:]
    if hashlib.sha256(body).digest() != data[len(MAGIC) : digest_end]:
        return None
    length = int.from_bytes(body[:8], "little")
    header = json.loads(body[8 : 8 + length])
    return Compiled(body[8 + length :], header["log"], header["ptx"])
