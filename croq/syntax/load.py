"""Reads a `.co` file, and refuses what is no text with a coded error."""

from __future__ import annotations

from pathlib import Path

from croq.diagnostics import CompileError, make
from croq.source import SourceFile, Span
from croq.syntax import codes


def load_source(path: str) -> SourceFile:
    """The text of `path`: UTF-8, a byte order mark and CRLF line ends accepted.

    Raises `CompileError`: E-2001 no such file, E-2002 unreadable or no regular file, E-2003 not UTF-8, E-2004 NUL
    bytes, E-2006 larger than 4 MiB.
    """
    data = _read(path)
    if len(data) > codes.MAX_FILE_BYTES:
        limit = codes.MAX_FILE_BYTES >> 20
        raise _refused(codes.TOO_LARGE, f"`{path}` is larger than {limit} MiB", "split it")
    zero = data.find(b"\0")
    if zero >= 0:
        message = f"`{path}` is not text: byte {zero} is NUL"
        raise _refused(codes.BINARY, message, "give the `.co` source, not a compiled file; save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise _not_utf8(path, data, fault.start) from None
    return source_text(path, text)


def source_text(name: str, text: str) -> SourceFile:
    """A `SourceFile` of text that came from elsewhere, with its line ends made `\\n`."""
    return SourceFile(name, text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))


def _read(path: str) -> bytes:
    file = Path(path)
    try:
        if file.exists() and not file.is_file():
            kind = "a folder" if file.is_dir() else "not a regular file"
            raise _refused(codes.UNREADABLE, f"`{path}` is {kind}", "give a `.co` file")
        with file.open("rb") as stream:
            return stream.read(codes.MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise _refused(codes.NO_SUCH_FILE, f"there is no file `{path}`", _nearby(file)) from None
    except OSError as fault:
        raise _refused(codes.UNREADABLE, f"`{path}` cannot be read: {fault.strerror}", None) from None
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
