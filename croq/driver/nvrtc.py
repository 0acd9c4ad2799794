"""CUDA text to cubin or PTX by NVRTC: no GPU, no driver, no toolkit, no CUDA headers.

The emitted file includes nothing but `croq.cuh`, which is handed to NVRTC as text (`prelude`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from croq.diagnostics import CompileError, Diagnostic, EnvironmentFault, make
from croq.driver.bindings import NVRTC_INSTALL, nvrtc
from croq.driver.ptxas_log import KernelUsage, parse_usage, parse_warnings
from croq.resources import resource
from croq.source import SourceFile, Span
from croq.target import DEFAULT

MAX_ERRORS = 10  # of NVRTC that one failure shows
LANGUAGE = ("--std=c++17", "--fmad=false")  # what is fused is said by the pass `contract`
BASE_OPTIONS = (*LANGUAGE, "--ptxas-options=-v")


@dataclass(frozen=True)
class Compiled:
    """A compiled program. `log` is the compiler's whole output; `usage` and `warnings` are read from it."""

    cubin: bytes = field(repr=False)
    log: str = field(repr=False)
    ptx: str | None = field(default=None, repr=False)
    seconds: float = 0.0  # the compiler's time; 0 when the result came out of the cache

    @property
    def usage(self) -> tuple[KernelUsage, ...]:
        return parse_usage(self.log)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return parse_warnings(self.log)


@lru_cache(maxsize=1)
def prelude() -> Mapping[str, str]:
    """The headers that emitted CUDA includes, by name."""
    return {"croq.cuh": resource("runtime", "croq.cuh").read_text(encoding="utf-8")}


def compile_cuda(
    source: str,
    *,
    arch: str = DEFAULT.name,
    options: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    lineinfo: bool = False,
    name: str = "kernel.cu",
    origins: Iterable[SourceFile] = (),
) -> Compiled:
    """Compile CUDA text to a cubin.

    `headers`: texts by the name in `#include`; the prelude when None. `lineinfo` keeps line tables for profilers, and
    changes no instruction. `origins`: the files that `#line` directives may name, so that an error points into them.
    Raises CompileError E-3010 with the compiler's messages, EnvironmentFault E-3001..E-3003 when NVRTC is missing or
    does not know the architecture.
    """
    started = time.perf_counter()
    with _program(source, name, prelude() if headers is None else headers) as program:
        log = _compile(program, command_line(arch, options, lineinfo), name, origins)
        cubin = _fetch(program, "CUBIN")
    return Compiled(cubin, log, seconds=time.perf_counter() - started)


def compile_ptx(
    source: str,
    *,
    arch: str = "compute_90a",
    options: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    name: str = "kernel.cu",
    origins: Iterable[SourceFile] = (),
) -> str:
    """Compile CUDA text to PTX. Parameters and errors as for `compile_cuda`."""
    flags = [f"--gpu-architecture={arch}", *LANGUAGE, *options]
    with _program(source, name, prelude() if headers is None else headers) as program:
        _compile(program, flags, name, origins)
        return _fetch(program, "PTX").rstrip(b"\0").decode()


def command_line(arch: str = DEFAULT.name, options: Sequence[str] = (), lineinfo: bool = False) -> list[str]:
    """The options that `compile_cuda` gives to NVRTC."""
    return [f"--gpu-architecture={arch}", *BASE_OPTIONS, *(["--generate-line-info"] if lineinfo else []), *options]


@contextmanager
def _program(source: str, name: str, headers: Mapping[str, str]) -> Iterator[Any]:
    lib = nvrtc()
    texts = [text.encode() for text in headers.values()]
    names = [header.encode() for header in headers]
    status, program = lib.nvrtcCreateProgram(source.encode(), name.encode(), len(texts), texts, names)
    _expect(status, "nvrtcCreateProgram")
    try:
        yield program
    finally:
        lib.nvrtcDestroyProgram(program)


def _compile(program: Any, flags: Sequence[str], name: str, origins: Iterable[SourceFile]) -> str:
    lib = nvrtc()
    (status,) = lib.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
    log = _fetch(program, "ProgramLog").rstrip(b"\0 \n").decode(errors="replace")
    if status == lib.nvrtcResult.NVRTC_SUCCESS:
        return log
    if status == lib.nvrtcResult.NVRTC_ERROR_COMPILATION:
        raise CompileError(_compile_errors(log, name, origins))
    if status == lib.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
        major, minor = lib.nvrtcVersion()[1:]
        raise EnvironmentFault(
            [
                make(
                    "E-3002",
                    None,
                    f"NVRTC {major}.{minor} refuses an option: {log.strip() or ' '.join(flags)}",
                    hint=f"sm_90a needs NVRTC 12.0 or newer: {NVRTC_INSTALL}",
                )
            ]
        )
    _expect(status, "nvrtcCompileProgram", log)
    return log


def _fetch(program: Any, what: str) -> bytes:
    """One of the program's results: `CUBIN`, `PTX` or `ProgramLog`."""
    lib = nvrtc()
    status, size = getattr(lib, f"nvrtcGet{what}Size")(program)
    _expect(status, f"nvrtcGet{what}Size")
    data = bytearray(size)
    (status,) = getattr(lib, f"nvrtcGet{what}")(program, data)
    _expect(status, f"nvrtcGet{what}")
    return bytes(data)


def _expect(status: Any, call: str, log: str = "") -> None:
    if int(status) == 0:
        return
    name = getattr(status, "name", str(status))
    notes = [log.strip()] if log.strip() else []
    raise EnvironmentFault([make("E-3003", None, f"`{call}` failed with `{name}`", notes=notes)])


# --------------------------------------------------------------------------------------------------------- messages

_MESSAGE = re.compile(r"^(?P<file>[^():\n]+)\((?P<line>\d+)\): (?P<kind>catastrophic error|error)[^:]*: (?P<text>.*)$")
_PTXAS = re.compile(r"^ptxas\s.*?(?:error|fatal)\s*:\s*(?P<text>.*)$")


def _compile_errors(log: str, name: str, origins: Iterable[SourceFile]) -> list[Diagnostic]:
    """One diagnostic a message; those that `#line` maps into an origin file carry a span there."""
    files = {file.name: file for file in origins}
    found: list[Diagnostic] = []
    lines = log.splitlines()
    for i, line in enumerate(lines):
        if match := _MESSAGE.match(line):
            found.append(_message(match, _quoted_source(lines, i + 1), files))
        elif match := _PTXAS.match(line):
            found.append(make("E-3010", None, f"ptxas refuses the emitted code: {match['text']}"))
        if len(found) >= MAX_ERRORS:
            break
    if found:
        return found
    return [make("E-3010", None, f"NVRTC does not compile `{name}`", notes=[log.strip() or "it gives no reason"])]


def _message(match: re.Match[str], quoted: str, files: Mapping[str, SourceFile]) -> Diagnostic:
    file, line, text = match["file"], int(match["line"]), match["text"].strip()
    origin = files.get(file)
    if origin is None:
        notes = [f"at {file}:{line}{': `' + quoted + '`' if quoted else ''}"]
        return make("E-3010", None, f"the CUDA compiler says: {text}", notes=notes)
    notes = [f"in the CUDA of this line: `{quoted}`"] if quoted else []
    return make("E-3010", line_span(origin, line), f"the CUDA compiler says: {text}", notes=notes)


def _quoted_source(lines: Sequence[str], index: int) -> str:
    """The source line that NVRTC quotes under a message, if the next line is its caret."""
    has_caret = index + 1 < len(lines) and lines[index + 1].strip() == "^"
    return lines[index].strip() if has_caret else ""


def line_span(file: SourceFile, line: int) -> Span | None:
    """A line without its indentation; None: the file has no such line."""
    text = file.line_text(line)
    if not 1 <= line <= len(file.line_starts):
        return None
    start = file.line_starts[line - 1]
    indent = len(text) - len(text.lstrip())
    return Span(file, start + indent, max(start + len(text.rstrip()), start + indent))
