"""What reaches the terminal: results on standard output, everything else on standard error.

Plain text in a pipe; colour, tables and a spinner on a terminal. Rich is imported only when it draws something.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TextIO

from croq.diagnostics import Diagnostic, render_json

Format = Literal["text", "json"]
Color = Literal["auto", "always", "never"]

_COLORS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "note": "\x1b[1;36m"}
_BOLD, _BLUE, _CYAN, _END = "\x1b[1m", "\x1b[1;34m", "\x1b[36m", "\x1b[0m"
_GUTTER = re.compile(r"^(\s*\d*\s*(?:\||-->|=))(.*)$")


@dataclass
class Console:
    """One command's output. `verbose`: 1 timings and choices, 2 emitted CUDA, 3 IR after each pass."""

    format: Format = "text"
    quiet: bool = False
    verbose: int = 0
    color: Color = "auto"
    collected: list[Diagnostic] = field(default_factory=list)  # with `--format json`, printed as one array at the end

    @property
    def json(self) -> bool:
        return self.format == "json"

    # ---------------------------------------------------------------------------------------------- standard output
    def result(self, text: str) -> None:
        """A result as text, with exactly one line end."""
        sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def data(self, value: Any) -> None:
        """A result as JSON."""
        self.result(json.dumps(value, indent=2, ensure_ascii=False))

    def summary(self, text: str) -> None:
        """Lines that `-q` leaves out."""
        if not self.quiet and not self.json:
            self.result(text)

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
        """A drawn table on a terminal, aligned columns in a pipe."""
        if self._terminal(sys.stdout):
            from rich.console import Console as RichConsole
            from rich.table import Table

            table = Table(title=title or None, title_justify="left")
            for header in headers:
                table.add_column(header)
            for row in rows:
                table.add_row(*row)
            RichConsole(file=sys.stdout, no_color=not self._colored(sys.stdout), highlight=False).print(table)
            return
        widths = [max(len(row[i]) for row in (headers, *rows)) for i in range(len(headers))]
        if title:
            self.result(title)
        for row in (headers, *rows):
            self.result("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    # ----------------------------------------------------------------------------------------------- standard error
    def note(self, text: str, level: int = 0) -> None:
        """A remark about what goes on; `level` is how much `-v` it takes. Beside JSON only what `-v` asks for."""
        if self.verbose >= level and not ((self.quiet or self.json) and level == 0):
            sys.stderr.write(text.rstrip("\n") + "\n")

    def diagnostics(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Print diagnostics, or keep them for the JSON array. `-q` leaves warnings out."""
        for diagnostic in diagnostics:
            if self.quiet and diagnostic.severity != "error":
                continue
            if self.json:
                self.collected.append(diagnostic)
                continue
            text = diagnostic.render()
            painted = paint(text, diagnostic.severity) if self._colored(sys.stderr) else text
            sys.stderr.write(painted + "\n\n")

    def flush(self) -> None:
        """Print what was collected for JSON."""
        if self.collected:
            sys.stderr.write(render_json(self.collected) + "\n")
            self.collected.clear()

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """A spinner beside `what` on a terminal; in a pipe `what` is a remark for `-v`."""
        if self.quiet or self.json or not self._terminal(sys.stderr):
            self.note(what, level=1)
            yield
            return
        from rich.console import Console as RichConsole
        from rich.markup import escape

        with RichConsole(file=sys.stderr, no_color=not self._colored(sys.stderr)).status(escape(what)):
            yield

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """A bar beside `what` on a terminal, moved by calling what this gives with (done, total)."""
        if self.quiet or self.json or not self._terminal(sys.stderr):
            self.note(what, level=1)
            yield lambda done, total: self.note(f"{done} of {total}", level=1)
            return
        from rich.console import Console as RichConsole
        from rich.markup import escape
        from rich.progress import Progress

        console = RichConsole(file=sys.stderr, no_color=not self._colored(sys.stderr))
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task(escape(what), total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)

    # --------------------------------------------------------------------------------------------------------- colour
    def _terminal(self, stream: TextIO) -> bool:
        return stream.isatty() and os.environ.get("TERM") != "dumb"

    def _colored(self, stream: TextIO) -> bool:
        if self.color != "auto":
            return self.color == "always"
        return self._terminal(stream) and not os.environ.get("NO_COLOR")


def paint(text: str, severity: str) -> str:
    """A rendered diagnostic with colour: the header, the gutter, the carets, the help."""
    color = _COLORS[severity]
    lines = text.split("\n")
    kind, _, message = lines[0].partition(": ")
    painted = [f"{color}{kind}{_END}{_BOLD}: {message}{_END}"]
    for line in lines[1:]:
        match = _GUTTER.match(line)
        gutter, rest = (match[1], match[2]) if match else ("", line)
        marks = rest.strip()
        if marks.startswith("^"):
            rest = f"{color}{rest}{_END}"
        elif marks.startswith("-") and gutter.endswith("|"):
            rest = f"{_BLUE}{rest}{_END}"
        elif marks.startswith("help:"):
            rest = f"{_CYAN}{rest}{_END}"
        painted.append(f"{_BLUE}{gutter}{_END}{rest}")
    return "\n".join(painted)
