"""Lowered programs on disk, so that a text that was compiled before is not lowered, verified and emitted again.

An entry is what `compile_file` made of one text under one set of settings: JSON with the printed IR, the diagnostics,
the plan and the emitted CUDA. Its key covers the text, the settings, and every source file of croq itself, so that a
changed compiler forgets what the old one made. Nothing in an entry is ever executed by Python, and whatever cannot be
read is made again. The IR is parsed when somebody asks for it: CUDA, plan and diagnostics do not need it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from croq.diagnostics import Diagnostic, Label
from croq.folder import Store
from croq.settings import Settings
from croq.source import SourceFile, Span

if TYPE_CHECKING:
    from croq.ir.core import Object, Op
    from croq.ir.objects import Module

SUFFIX = ".croqir"
SIZE_LIMIT = 64 * 1024 * 1024  # bytes
Place = list[Any]  # a span: file, start, end, and that of its expansion where it has one


@dataclass(frozen=True)
class Lowered:
    """What a text became. `functions`: the kernels of each `__co__` function that launches something, by name.
    `entries`: what each kernel is called in the cubin."""

    functions: dict[str, list[str]]
    entries: dict[str, str]
    diagnostics: tuple[Diagnostic, ...]
    plan: list[dict[str, Any]]
    cuda: str
    made: Callable[[], Module] = field(repr=False, compare=False)
    text: str | None = field(default=None, repr=False, compare=False)  # of the IR, where it was recalled

    @cached_property
    def module(self) -> Module:
        return self.made()

    @cached_property
    def ir(self) -> str:
        """The IR, printed."""
        if self.text is not None:
            return self.text
        from croq.ir.printer import print_module

        return print_module(self.module)


def key_of(file: SourceFile, settings: Settings) -> str:
    parts = (file.name, file.text, repr(settings), _fingerprint(), sys.version)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def load(key: str, file: SourceFile, again: Callable[[], Module]) -> Lowered | None:
    """The entry of `key`, made of `file`; None when there is none, or it cannot be read.

    `again` lowers the text anew, should the IR not be readable: what nests very deeply is not.
    """
    body = Store(SUFFIX, SIZE_LIMIT).get(key)
    try:
        return None if body is None else _decode(json.loads(body), file, again)
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


def store(key: str, lowered: Lowered) -> None:
    """Remember what was lowered, where that is possible."""
    with suppress(RecursionError):
        Store(SUFFIX, SIZE_LIMIT).put(key, json.dumps(_encode(lowered), separators=(",", ":")).encode())


# ------------------------------------------------------------------------------------------------------------- entries
def _encode(lowered: Lowered) -> dict[str, Any]:
    places = _Places([lowered.module.file])
    return {
        "functions": lowered.functions,
        "entries": lowered.entries,
        "diagnostics": [_flat(diagnostic, places) for diagnostic in lowered.diagnostics],
        "plan": lowered.plan,
        "cuda": lowered.cuda,
        "ir": lowered.ir,
        "spans": [places.write(item.span) for item in _spanned(lowered.module)],
        "files": [(file.name, file.text) for file in places.files[1:]],
    }


def _decode(entry: dict[str, Any], file: SourceFile, again: Callable[[], Module]) -> Lowered:
    places = _Places([file, *(SourceFile(name, text) for name, text in entry["files"])])

    def module() -> Module:
        try:
            return _module(entry["ir"], [places.read(place) for place in entry["spans"]], file)
        except Exception:  # whatever it is, the text itself is still there
            return again()

    diagnostics = tuple(_diagnostic(flat, places) for flat in entry["diagnostics"])
    functions, entries, plan, cuda = (entry[name] for name in ("functions", "entries", "plan", "cuda"))
    return Lowered(functions, entries, diagnostics, plan, cuda, module, entry["ir"])


def _module(text: str, spans: Sequence[Span | None], file: SourceFile) -> Module:
    from croq.ir.parser import parse_module

    module = parse_module(text)
    module.file = file
    for kernel in module.kernels:
        kernel.file = file
    for item, span in zip(_spanned(module), spans, strict=True):
        item.span = span
    return module


def _spanned(module: Module) -> Iterator[Object | Op]:
    """All that has a place in the source, in the order in which it is printed."""
    from croq.ir.notation import KEYWORDS

    for kernel in module.kernels:
        for group in KEYWORDS.values():
            yield from getattr(kernel, group)
        yield from kernel.walk()


@dataclass
class _Places:
    """Spans as numbers; of the files all but the first are written out."""

    files: list[SourceFile]

    def write(self, span: Span | None) -> Place | None:
        if span is None:
            return None
        if span.file not in self.files:
            self.files.append(span.file)
        place = [self.files.index(span.file), span.start, span.end]
        return place if span.expansion is None else [*place, self.write(span.expansion)]

    def read(self, place: Place | None) -> Span | None:
        if place is None:
            return None
        file, start, end, *expansion = place
        return Span(self.files[file], start, end, self.read(expansion[0]) if expansion else None)


def _flat(diagnostic: Diagnostic, places: _Places) -> list[Any]:
    labels = [(places.write(label.span), label.message) for label in diagnostic.labels]
    span = places.write(diagnostic.span)
    return [
        diagnostic.code, diagnostic.message, span, diagnostic.severity, labels, diagnostic.notes, diagnostic.hint
    ]  # fmt: skip


def _diagnostic(flat: list[Any], places: _Places) -> Diagnostic:
    code, message, span, severity, labels, notes, hint = flat
    places_of = tuple(Label(found, text) for place, text in labels if (found := places.read(place)) is not None)
    return Diagnostic(code, message, places.read(span), severity, places_of, tuple(notes), hint)


@cache
def _fingerprint() -> str:
    """Of croq's own files: names, sizes and times."""
    package = Path(__file__).resolve().parent
    found = [(str(path), path.stat()) for path in sorted(package.rglob("*")) if path.suffix in (".py", ".j2", ".cuh")]
    return ";".join(f"{name}:{status.st_size}:{status.st_mtime_ns}" for name, status in found)
