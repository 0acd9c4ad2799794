"""Compiled cubins, remembered by everything that shapes them. A cache never makes a run fail (croq.folder)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from croq.driver.bindings import nvrtc_release
from croq.driver.nvrtc import Compiled, command_line, compile_cuda, compile_ptx, prelude
from croq.folder import Store
from croq.source import SourceFile
from croq.target import DEFAULT

SUFFIX = ".croqbin"
SIZE_LIMIT = 256 * 1024 * 1024  # bytes


class CubinCache:
    """Cubins in one folder: a line of JSON with the compiler's log, then the cubin."""

    def __init__(self, folder: Path | None = None, size_limit: int = SIZE_LIMIT) -> None:
        """`folder`: None takes the usable one."""
        self.store = Store(SUFFIX, size_limit, folder)

    def get(self, key: str) -> Compiled | None:
        """The entry of `key`; None when there is none, or it is damaged or unreadable."""
        head, _, cubin = (self.store.get(key) or b"").partition(b"\n")
        try:
            return Compiled(cubin, **json.loads(head))
        except (ValueError, TypeError):
            return None

    def put(self, key: str, compiled: Compiled) -> bool:
        """Store an entry; False when the folder cannot be written."""
        head = json.dumps({"log": compiled.log, "ptx": compiled.ptx}).encode()
        return self.store.put(key, head + b"\n" + compiled.cubin)


def cache_key(
    source: str,
    *,
    arch: str = DEFAULT.name,
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
        "nvrtc": nvrtc_release(),
        "folder": str(Path.cwd()) if lineinfo else "",  # line tables hold absolute names
        "croq": _croq_version(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def compile_cached(
    source: str,
    *,
    arch: str = DEFAULT.name,
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


def compile_ptx_cached(
    source: str,
    *,
    arch: str = "compute_90a",
    options: Sequence[str] = (),
    lineinfo: bool = False,
    name: str = "kernel.cu",
    origins: Iterable[SourceFile] = (),
    cache: CubinCache | None = None,
) -> str:
    """`compile_ptx`, through a cache (the default one when None). Same parameters, result and errors."""
    store = cache if cache is not None else CubinCache()
    every = (*options, *(("--generate-line-info",) if lineinfo else ()))
    key = cache_key(source, arch=arch, options=every, name=name)
    found = store.get(key)
    if found is not None and found.ptx is not None:
        return found.ptx
    text = compile_ptx(source, arch=arch, options=every, name=name, origins=origins)
    store.put(key, Compiled(b"", "", text))
    return text


def _croq_version() -> str:
    try:
        return metadata.version("croq")
    except metadata.PackageNotFoundError:
        return "unpackaged"
