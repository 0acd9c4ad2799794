"""Where the text of a program comes from: a path, the name of a shipped kernel, or the text itself."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from croq.diagnostics import CompileError, make
from croq.resources import resource
from croq.source import SourceFile

SUFFIX = ".co"
MAX_NAME = 255  # bytes of a file's name, on every file system
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def load(source: str | Path) -> SourceFile:
    """The text of a path, of a shipped kernel by bare name (`v4`), or `source` itself when it is program text.

    A string is program text when it has a line end or the word `__co__`. Raises CompileError E-2001..E-2006, E-2011 for
    an empty string; TypeError for what is neither text nor a path.
    """
    from croq.syntax import load_source, source_text

    if not isinstance(source, (str, os.PathLike)):
        hint = "; decode it first: `source.decode()`" if isinstance(source, (bytes, bytearray)) else ""
        raise TypeError(f"a path or program text is needed, not a `{type(source).__name__}`{hint}")
    if isinstance(source, str) and ("\n" in source or "__co__" in source):
        return source_text("<source>", source)
    name = os.fspath(source)
    if not isinstance(name, str):
        raise TypeError(f"a path of type `str` is needed, not `{type(name).__name__}`")
    if not name.strip():
        hint = "give the path of a `.co` file, the name of a shipped kernel, or the program's text"
        raise CompileError([make("E-2011", None, "the path is empty", hint=hint)])
    if _NAME.match(name) is None or len(name) > MAX_NAME or Path(name).exists():
        return _file(name)
    if name not in shipped_kernels():
        known = shipped_kernels()
        notes = [f"kernels that come with croq: {', '.join(known)}"]
        raise CompileError([make("E-2001", None, f"there is no file `{name}`", notes=notes, hint=close(name, known))])
    shipped = load_source(str(resource("kernels", f"{name}{SUFFIX}")))
    return source_text(f"{name}{SUFFIX}", shipped.text)


def _file(name: str) -> SourceFile:
    """The text of a path; a text that was taken for one is told so."""
    from croq.syntax import load_source

    try:
        return load_source(name)
    except CompileError as error:
        if not set(name) & set("(){};"):
            raise
        hint = "if this is program text: it needs a `__co__` function"
        raise CompileError([replace(d, hint=d.hint or hint) for d in error.diagnostics]) from None


def shipped_kernels() -> list[str]:
    """Bare names of the kernels that come with croq."""
    return sorted(path.stem for path in resource("kernels").glob(f"*{SUFFIX}"))


def stem(file: SourceFile) -> str:
    """What files made from this one are called."""
    return Path(file.name).stem if not file.name.startswith("<") else "kernel"


def close(name: str, known: Sequence[str]) -> str | None:
    found = difflib.get_close_matches(name, known, n=1)
    return f"did you mean `{found[0]}`?" if found else None
