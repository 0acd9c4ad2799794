"""A command line from its words to its exit status: the options that every command has, and the frame around each:
wrong usage, interrupts, closed pipes, own faults.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NoReturn

import croq
from croq.cli.console import Color, Console, Format
from croq.cli.options import HELP, CommandLine, Option, UsageFault, listed, parameters, refused, usage
from croq.diagnostics import CompileError, CroqError, Diagnostic, EnvironmentFault, InternalError, make
from croq.settings import Settings
from croq.source import SourceFile
from croq.target import DEFAULT
from croq.texts import close

INTERRUPTED, CLOSED_PIPE = 130, 141  # 128 + SIGINT, 128 + SIGPIPE: what a shell reports for a program ended by them
# What only an option can have said wrongly: an architecture, a pass, a function, a number or a dimension that is
# missing, a watchdog's time, a block, a schedule
OPTION_CODES = frozenset({"E-3100", "E-3103", "E-3104", "E-4190", "E-4191", "E-4200", "E-5006", "E-5007", "E-7003"})


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


def parse_define(text: str) -> tuple[str, str]:
    """`NAME=VALUE`, or `NAME` alone, which is `NAME=1`. Raises UsageFault."""
    name, given, value = text.partition("=")
    if not (name.isidentifier() and name.isascii()):
        raise refused("-D", f"`{text}`: write NAME=VALUE, with an identifier before the `=`")
    return name, value if given else "1"


def common(
    define: Annotated[
        list[str] | None, Option("-D --define", "Define a macro.", "NAME=VALUE", read=parse_define)
    ] = None,
    arch: Annotated[str, Option(help="Target.", metavar="NAME")] = DEFAULT.name,
    format_: Annotated[Format, Option(help="Form of results and diagnostics.")] = "text",
    quiet: Annotated[bool, Option("-q --quiet", "Results and errors only.")] = False,
    verbose: Annotated[
        int, Option("-v --verbose", "-v timings and choices, -vv emitted CUDA, -vvv IR after each pass.", counts=True)
    ] = 0,
    color: Annotated[Color, Option(help="Colour on standard error.")] = "auto",
) -> Session:
    """What the options say that every command has."""
    pairs: Any = define or []
    return Session(Console(format_, quiet, verbose, color), dict(pairs), arch)


COMMANDS: dict[str, Callable[..., int | None]] = {}


def command(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Make `function(session, ...)`, which returns the exit status (None is 0), a command of its name."""
    COMMANDS[function.__name__] = function
    return function


def main(words: Sequence[str]) -> NoReturn:
    """Carry out a command line, without the program's name."""
    first, rest = (words[0], words[1:]) if words else ("--help", ())
    shared = parameters(common, common=True)
    function = COMMANDS.get(first)
    own = parameters(function) if function is not None else []
    line = CommandLine(f"croq {first}" if function is not None else "croq", [*own, *shared])
    line.read(rest)
    session = common(**{p.name: line.values[p.name] for p in shared})

    def run() -> int | None:
        if first in (*HELP, "--version"):
            session.console.result(_overview() if first in HELP else f"croq {croq.__version__}")
            return 0 if words else UsageFault.exit_status
        if function is None:
            raise line.refused(f"has no command `{first}`", close(first, [*COMMANDS]))
        if line.help:
            session.console.result("\n".join(usage(line.command, function, line.parameters)))
            return 0
        if line.fault is not None:
            raise line.fault
        return function(session, **{p.name: line.values[p.name] for p in own})

    finish(session, run)


def _overview() -> str:
    """What `croq --help` prints."""
    title = "Compiles the .co tile language to Hopper kernels; runs them, or simulates them where there is no GPU."
    rows = listed((name, " ".join((function.__doc__ or "").split())) for name, function in COMMANDS.items())
    more = "`croq COMMAND -h` shows what a command takes, `croq --version` the version."
    return "\n".join(["usage: croq COMMAND [options]", "", title, "", "commands:", *rows, "", more])


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
    try:
        return run() or 0
    except InternalError as error:
        return _own(session, error)
    except CroqError as error:
        session.console.diagnostics(error.diagnostics)
        only_options = {diagnostic.code for diagnostic in error.diagnostics} <= OPTION_CODES
        return UsageFault.exit_status if only_options else error.exit_status
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):
        raise
    except Exception as error:
        lacking = _lacking(error)
        if lacking is None:
            return _own(session, error)
        session.console.diagnostics([lacking])
        if isinstance(error, OSError):
            _drop_output()
        return EnvironmentFault.exit_status


def _own(session: Session, error: Exception) -> int:
    from croq.cli.faults import own_fault

    source = session.source.text if session.source is not None else None
    before = error.diagnostics if isinstance(error, InternalError) else ()
    session.console.diagnostics([*before, own_fault(error, source)])
    return InternalError.exit_status


def _lacking(error: Exception) -> Diagnostic | None:
    """What the environment lacks, where that is what the error means."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO):
        message = f"the output cannot be written: {os.strerror(error.errno)}"
        return make("E-3122", None, message, hint="make room, or write elsewhere")
    if isinstance(error, MemoryError):
        message = f"the machine has not enough memory: {error or 'an allocation failed'}"
        return make("E-3121", None, message, hint="ask for smaller sizes")
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package in ("", "croq"):
        return None
    message = f"the Python package `{package}`, which croq needs, cannot be imported"
    hint = "install croq again, e.g. pip install --force-reinstall croq, in the environment that runs it"
    return make("E-3005", None, message, notes=[f"Python is {sys.executable}"], hint=hint)


def _drop_output() -> None:
    """Nobody reads any more: keep the interpreter's own flush at exit from failing."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            os.dup2(null, stream.fileno())
        except (OSError, ValueError):
            continue
