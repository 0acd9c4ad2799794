"""Reads a `.co` file, and refuses what is no text with a coded error."""

from __future__ import annotations

import os
import re
from pathlib import Path

from croq.diagnostics import CompileError, make
from croq.source import SourceFile, Span
from croq.syntax import codes


def load_source(path: str) -> SourceFile:
    """The text of `path`: UTF-8, a byte order mark and CRLF line ends accepted.

    Raises `CompileError`: E-2001 no such file, E-2002 unreadable or no regular file, E-2003 not UTF-8, E-2004 NUL
    bytes, E-2006 larger than 4 MiB.
    """
    shown = printable(path)
    data = _read(path)
    if len(data) > codes.MAX_FILE_BYTES:
        raise _too_large(shown)
    zero = data.find(b"\0")
    if zero >= 0:
        raise _no_text(shown, zero)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise _not_utf8(shown, data, fault.start) from None
    return source_text(shown, text)


def source_text(name: str, text: str) -> SourceFile:
    """A `SourceFile` of text that came from elsewhere, with its line ends made `\\n`.

    Raises `CompileError` for what no file could hold: E-2003 half of a surrogate pair, E-2004 NUL, E-2006 more than
    4 MiB.
    """
    if len(text) > codes.MAX_FILE_BYTES:
        raise _too_large(name)
    zero = text.find("\0")
    if zero >= 0:
        raise _no_text(name, zero)
    half = _SURROGATE.search(text)
    if half is not None:
        clean = SourceFile(name, _SURROGATE.sub("\ufffd", text))
        message = f"U+{ord(half[0]):04X} is half of a character: this text was decoded wrongly"
        hint = "decode the file as UTF-8, or give its path"
        raise CompileError([make(codes.NOT_UTF8, Span(clean, half.start(), half.end()), message, hint=hint)])
    return SourceFile(name, text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))


def printable(text: str) -> str:
    """`text` as any terminal and file can hold it: what cannot be encoded becomes an escape."""
    return text.encode("utf-8", "backslashreplace").decode()


_SURROGATE = re.compile("[\ud800-\udfff]")


def _too_large(name: str) -> CompileError:
    return _refused(codes.TOO_LARGE, f"`{name}` is larger than {codes.MAX_FILE_BYTES >> 20} MiB", "split it")


def _no_text(name: str, zero: int) -> CompileError:
    message = f"`{name}` is not text: byte {zero} is NUL"
    return _refused(codes.BINARY, message, "give the `.co` source, not a compiled file; save it as UTF-8")


def _read(path: str) -> bytes:
    file = Path(path)
    try:
        if os.path.exists(path) and not file.is_file():  # noqa: PTH110  # false for a name that no system takes
            kind = "a folder" if file.is_dir() else "not a regular file"
            raise _refused(codes.UNREADABLE, f"`{printable(path)}` is {kind}", "give a `.co` file")
        with file.open("rb") as stream:
            return stream.read(codes.MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise _refused(codes.NO_SUCH_FILE, f"there is no file `{printable(path)}`", _nearby(file)) from None
    except OSError as fault:
        raise _refused(codes.UNREADABLE, f"`{printable(path)}` cannot be read: {fault.strerror}", None) from None
    except ValueError:  # a NUL in the path
        raise _refused(codes.NO_SUCH_FILE, f"{path!r} is not a path", None) from None


def _nearby(file: Path) -> str | None:
    """A file of nearly that name in the same folder."""
    import difflib

    try:
        names = [entry.name for entry in file.parent.iterdir() if entry.suffix == ".co"]
    except OSError:
        return None
    close = difflib.get_close_matches(file.name, names, n=1)
    return f"did you mean `{file.parent / close[0]}`?" if close else None


def _not_utf8(path: str, data: bytes, at: int) -> CompileError:
    text = data[:at].decode("utf-8", errors="replace").replace("\r\n", "\n") + "\ufffd"
    file = SourceFile(path, text)
    message = f"byte 0x{data[at]:02x} is not UTF-8"
    span = Span(file, len(text) - 1, len(text))
    return CompileError([make(codes.NOT_UTF8, span, message, hint="save the file as UTF-8")])


def _refused(code: str, message: str, hint: str | None) -> CompileError:
    return CompileError([make(code, None, message, hint=hint)])
