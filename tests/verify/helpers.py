"""Programs on their way to the verifier."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from croq.diagnostics import Sink
from croq.ir.build import build
from croq.ir.objects import Kernel
from croq.passes import pipeline
from croq.sema import analyse
from croq.source import SourceFile
from croq.syntax import parse_program

ROOT = Path(__file__).resolve().parents[2]


def kernels(text: str, name: str = "test.co", after: str | None = None, **defines: str) -> list[Kernel]:
    """The kernels of a program text, lowered (up to the pass `after`). Raises CompileError."""
    sink = Sink()
    program = parse_program(SourceFile(name, text), defines, sink)
    sink.check()
    model = analyse(program, sink)
    sink.check()
    module = build(model, sink)
    sink.check()
    pipeline.run(module, sink, after=after)
    sink.check()
    return module.kernels


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def source_mutants(text: str, *kinds: str) -> Iterator[tuple[str, str]]:
    """(what was done, text): each wait and trigger, `after`, `= ready` and `++` taken out, one at a time.

    `kinds` picks from "wait", "trigger", "after", "ready", "count"; none: all.
    """
    bare = re.sub(r"//[^\n]*", lambda m: " " * len(m.group()), text)
    patterns: Mapping[str, str] = {
        "wait": r"\bwait [^;]*;",
        "trigger": r"\btrigger [^;]*;",
        "after": r" after [\w, ]+(?=;)",
        "ready": r" = ready\b",
        "count": r"(?<=\w)\+\+",
    }
    for kind, pattern in patterns.items():
        if kinds and kind not in kinds:
            continue
        for match in re.finditer(pattern, bare):
            line = text.count("\n", 0, match.start()) + 1
            what = f"line {line}: no `{' '.join(match.group().split()).strip(' ;')}`"
            yield what, text[: match.start()] + (";" if kind in ("wait", "trigger") else "") + text[match.end() :]
