"""The options that every command has, and the frame around each: exit statuses, interrupts, closed pipes, own faults.

`command` turns a function `f(session, ...)` into one that Typer registers: `session` is replaced by the common options.
"""

from __future__ import annotations

import errno
import functools
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, NoReturn

import typer

from croq.cli.console import Color, Console, Format
from croq.diagnostics import CompileError, CroqError, EnvironmentFault, InternalError, make
from croq.settings import Settings
from croq.source import SourceFile
from croq.target import DEFAULT, TARGETS

INTERRUPTED, CLOSED_PIPE = 130, 141  # 128 + SIGINT, 128 + SIGPIPE: what a shell reports for a program ended by them
WRONG_COMMAND_LINE = 2
# What only an option can have said wrongly: a pass, a function, a number or a dimension that is missing, a watchdog's
# time, a block, a schedule
OPTION_CODES = frozenset({"E-3103", "E-3104", "E-4190", "E-4191", "E-4200", "E-5006", "E-5007", "E-7003"})


@dataclass
class Session:
    """What the common options say. `source` is the text at hand, for the report of a fault of croq's own."""

    console: Console
    defines: dict[str, str]
    arch: str
    source: SourceFile | None = field(default=None)

    def load(self, file: str) -> SourceFile:
        """The text of a path, a shipped kernel, or standard input (`-`)."""
        from croq.texts import load

        if file == "-":
            self.source = _standard_input()
        else:
            self.source = load(_as_path(file))
        return self.source

    def settings(self, *, lineinfo: bool = False, verify: bool = False, **more: Any) -> Settings:
        return Settings.of({**more, **self.defines}, arch=self.arch, lineinfo=lineinfo, verify=verify)


def _standard_input() -> SourceFile:
    """Standard input as a file. Raises CompileError E-2003 when it is not UTF-8."""
    from croq.syntax import source_text

    data = sys.stdin.buffer.read()
    try:
        return source_text("<stdin>", data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        message = f"standard input is not UTF-8 text: byte 0x{data[error.start]:02x} at {error.start}"
        raise CompileError([make("E-2003", None, message)]) from error


def _as_path(file: str) -> Any:
    """A name on the command line is never program text, whatever characters it has."""
    from pathlib import Path

    return Path(file) if "\n" in file or "__co__" in file else file


def parse_defines(values: list[str]) -> dict[str, str]:
    """`NAME=VALUE`, or `NAME` alone, which is `NAME=1`. Raises typer.BadParameter."""
    result = {}
    for value in values:
        name, given, text = value.partition("=")
        if not (name.isidentifier() and name.isascii()):
            raise typer.BadParameter(f"`{value}`: write NAME=VALUE, with an identifier before the `=`")
        result[name] = text if given else "1"
    return result


def _known_arch(value: str) -> str:
    if value not in TARGETS:
        raise typer.BadParameter(f"croq makes no code for `{value}`; it knows {', '.join(TARGETS)} (E-3100)")
    return value


PANEL = "Common options"
Defines = Annotated[
    list[str] | None,
    typer.Option("-D", "--define", metavar="NAME=VALUE", help="Define a macro.", rich_help_panel=PANEL),
]
Arch = Annotated[str, typer.Option(help="Target.", callback=_known_arch, rich_help_panel=PANEL)]
Formats = Annotated[Format, typer.Option("--format", help="Form of results and diagnostics.", rich_help_panel=PANEL)]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Results and errors only.", rich_help_panel=PANEL)]
Verbose = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        count=True,
        help="-v timings and choices, -vv emitted CUDA, -vvv IR after each pass.",
        rich_help_panel=PANEL,
    ),
]
Colors = Annotated[Color, typer.Option("--color", help="Colour on standard error.", rich_help_panel=PANEL)]

_COMMON = {
    "define": (Defines, None),
    "arch": (Arch, DEFAULT.name),
    "format_": (Formats, "text"),
    "quiet": (Quiet, False),
    "verbose": (Verbose, 0),
    "color": (Colors, "auto"),
}


def command(function: Callable[..., int | None]) -> Callable[..., None]:
    """A Typer command around `function(session, ...)`, which returns the exit status (None is 0)."""
    signature = inspect.signature(function, eval_str=True)
    own = [p for name, p in signature.parameters.items() if name != "session"]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in _COMMON.items()
    ]
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]

    @functools.wraps(function)
    def wrapper(**values: Any) -> None:
        shared = {name: values.pop(name) for name in _COMMON}
        console = Console(shared["format_"], shared["quiet"], shared["verbose"], shared["color"])
        session = Session(console, parse_defines(shared["define"] or []), shared["arch"])
        finish(session, lambda: function(session, **values))

    wrapper.__signature__ = inspect.Signature([*own, *common])  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in (*own, *common)}
    return wrapper


def finish(session: Session, run: Callable[[], int | None]) -> NoReturn:
    """Run a command and exit with its status; every way in which it may end is decided here."""
    console = session.console
    try:
        status = _guarded(session, run)
        console.flush()
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        status = CLOSED_PIPE
    except KeyboardInterrupt:
        status = INTERRUPTED
    raise SystemExit(status)


def _guarded(session: Session, run: Callable[[], int | None]) -> int:
    from croq.cli.faults import STATUS, own_fault

    def text() -> str | None:
        return session.source.text if session.source is not None else None

    try:
        return run() or 0
    except InternalError as error:
        session.console.diagnostics([*error.diagnostics, own_fault(error, text())])
        return STATUS
    except CroqError as error:
        session.console.diagnostics(error.diagnostics)
        only_options = {diagnostic.code for diagnostic in error.diagnostics} <= OPTION_CODES
        return WRONG_COMMAND_LINE if only_options else error.exit_status
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except (BrokenPipeError, SystemExit, typer.Exit, typer.BadParameter):
        raise
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO):
            session.console.diagnostics([own_fault(error, text())])
            return STATUS
        message = f"the output cannot be written: {os.strerror(error.errno)}"
        session.console.diagnostics([make("E-3122", None, message, hint="make room, or write elsewhere")])
        _drop_output()
        return EnvironmentFault.exit_status
    except MemoryError as error:
        message = f"the machine has not enough memory: {error or 'an allocation failed'}"
        session.console.diagnostics([make("E-3121", None, message, hint="ask for smaller sizes")])
        return EnvironmentFault.exit_status
    except Exception as error:
        session.console.diagnostics([own_fault(error, text())])
        return STATUS


def _drop_output() -> None:
    """Nobody reads any more: keep the interpreter's own flush at exit from failing."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            os.dup2(null, stream.fileno())
        except (OSError, ValueError):
            continue
