"""Errors of the CUDA compiler, with their places in the `.co` text: what it refuses can only be the user's C++."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from croq.diagnostics import CompileError, Diagnostic
from croq.driver.nvrtc import compile_cuda, compile_ptx, line_span
from croq.emit import emit_cuda
from croq.source import Span

if TYPE_CHECKING:
    from croq.stages import Stages

LINES = "--generate-line-info"
_CUDA_PLACE = re.compile(r"at [^:]+\.cu:(\d+)")  # the note of a message of the CUDA compiler


def placed(made: Stages, error: CompileError) -> CompileError:
    """Errors of the emitted CUDA with their places in the `.co` text, and a word on headers that are not read."""
    return _told_of_headers(made, _located(made, error))


def _located(made: Stages, error: CompileError) -> CompileError:
    """The compiler's errors with their places in the `.co` text: what it refuses can only be the user's C++."""
    found = [_by_text(made, d) for d in error.diagnostics]
    if all(d.span is not None for d in found):
        return CompileError(found)
    origin = replace(made.file, name=Path(made.file.name).name)  # what `#line` calls it
    try:
        text = emit_cuda(made.module.kernels, lineinfo=True)
        compile_cuda(text, arch=made.settings.arch, name=made.cuda_name, origins=(origin,))
    except CompileError as again:  # the same messages in the same order, of lines that came from the `.co` file
        located = [replace(d, span=d.span and replace(d.span, file=made.file)) for d in again.diagnostics]
        if [d.message for d in located] == [d.message for d in found]:
            located = [d if d.span is not None else by for d, by in zip(located, found, strict=True)]
        return CompileError(located)
    return CompileError(found)


def _told_of_headers(made: Stages, error: CompileError) -> CompileError:
    """With a word on the headers that the file includes and nobody reads: what is missing may stand there."""
    unread = [i.header for i in made.program.outside.includes if not i.is_of_host]
    if not unread:
        return error
    note = f"croq does not read {', '.join(unread)}: what they declare is unknown to device code"
    return CompileError([replace(d, notes=(*d.notes, note)) for d in error.diagnostics])


def _by_text(made: Stages, fault: Diagnostic) -> Diagnostic:
    """With the place of a line of device text, emitted as it was written, if the file has it only once."""
    match = next((m for note in fault.notes if (m := _CUDA_PLACE.match(note))), None)
    if fault.span is not None or match is None:
        return fault
    emitted = "".join(made.cuda.splitlines()[int(match[1]) - 1 :][:1]).strip()
    start = made.file.text.find(emitted)
    if not emitted or start < 0 or made.file.text.find(emitted, start + 1) >= 0:
        return fault
    span = Span(made.file, start, start + len(emitted))
    return replace(fault, span=span, notes=tuple(n for n in fault.notes if _CUDA_PLACE.match(n) is None))


# ------------------------------------------------------------------------------------------------------------- remarks

_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)(?:.*\binlined_at\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r"\s*\.file\s+(\d+)\s+\"(?:[^\"]*/)?([^\"/]+)\"", re.MULTILINE)


def span_of_ptx(made: Stages, line: int) -> Span | None:
    """The line of the `.co` file from which a line of the PTX came, if line tables tell.

    ptxas counts lines of the PTX that it was given. The tables are those of a second compile, in which the same
    instructions stand in the same order.
    """
    arch = made.settings.arch.replace("sm_", "compute_")
    traced = compile_ptx(made.cuda, arch=arch, options=[*made.settings.options, LINES], name=made.cuda_name)
    plain = traced if made.settings.lineinfo else made.ptx
    before = sum(map(_is_instruction, plain.splitlines()[:line]))
    names = dict(_FILE.findall(traced))
    emitted = None
    for text in traced.splitlines():
        if match := _LOC.match(text):
            number, at = (match[3], match[4]) if match[3] else (match[1], match[2])
            ours = names.get(number) in (made.cuda_name, Path(made.file.name).name)
            emitted = int(at) if ours else emitted
        before -= _is_instruction(text)
        if before == 0:
            break
    found = made.source_line(emitted) if emitted is not None else None
    return line_span(made.file, found) if found is not None else None


def _is_instruction(line: str) -> bool:
    text = line.strip()
    return text.endswith(";") and not text.startswith((".", "//"))
