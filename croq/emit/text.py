"""Lines of emitted text that remember the source line they came from, and the comments that quote it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from croq.source import SourceFile, Span

CALL_WIDTH = 84  # characters of a call that stays on one line
QUOTE_WIDTH = 100  # characters of a quoted statement; a longer one is cut


@dataclass(frozen=True)
class Line:
    """One line of output; `source` is the 1-based line of the `.co` file that it came from."""

    text: str
    source: int | None = None


def indented(lines: Iterable[Line], prefix: str) -> list[Line]:
    return [Line(prefix + line.text, line.source) if line.text else line for line in lines]


def base_name(file: SourceFile) -> str:
    """The file's name without folders: the same on every machine."""
    return PurePosixPath(file.name.replace("\\", "/")).name


def statement_text(span: Span, *, header_only: bool) -> str:
    """What to quote of a statement: its line, or all of it folded into one line; without `;`, `{` and comments.

    `header_only` is for statements with a body, of which the first line is enough.
    """
    first = _strip(span.file.line_text(span.line))
    last_line = span.file.line_of(max(span.start, span.end - 1))
    if header_only or last_line == span.line:
        return _cut(first)
    folded = " ".join(_strip(span.file.line_text(n)) for n in range(span.line, last_line + 1))
    return _cut(re.sub(r"\s+", " ", folded))


def call_text(function: str, groups: Sequence[str]) -> str:
    """A call on one line if it is short, else with each group of arguments on a line of its own."""
    line = f"{function}({', '.join(groups)})"
    if len(line) <= CALL_WIDTH:
        return line
    return f"{function}(" + (",\n" + " " * (len(function) + 1)).join(groups) + ")"


def _strip(line: str) -> str:
    return re.sub(r"//.*$", "", line).strip().removeprefix("} ").removesuffix("{").rstrip().removesuffix(";").rstrip()


def _cut(text: str) -> str:
    text = text.removesuffix("{").removesuffix(";").rstrip()
    return text if len(text) <= QUOTE_WIDTH else text[: QUOTE_WIDTH - 3].rstrip() + "..."


def finish(lines: Sequence[Line], source_name: str, own_name: str, *, lineinfo: bool) -> str:
    """The text of the file. With `lineinfo` every line is attributed to the source line that it came from."""
    if not lineinfo:
        return "\n".join(line.text for line in lines) + "\n"
    out: list[str] = []
    here = (own_name, 1)  # what the compiler believes about the next line
    for line in lines:
        if _needs_place(line.text):
            wanted = (source_name, line.source) if line.source is not None else (own_name, len(out) + 1)
            if here != wanted:
                if line.source is None:
                    wanted = (own_name, len(out) + 2)
                out.append(f'#line {wanted[1]} "{wanted[0]}"')
                here = wanted
        out.append(line.text)
        here = (here[0], here[1] + 1)
    return "\n".join(out) + "\n"


def _needs_place(text: str) -> bool:
    bare = text.strip()
    return bool(bare) and not bare.startswith(("//", "#pragma", "}"))
