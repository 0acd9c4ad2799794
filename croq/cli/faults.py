"""The last resort: an exception that nobody expected becomes E-9001 and a report, never a traceback on the screen."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
import traceback
from pathlib import Path

import croq
from croq.diagnostics import Diagnostic, make

REPORTS_VARIABLE = "CROQ_REPORT_DIR"


def own_fault(error: BaseException, source: str | None) -> Diagnostic:
    """The diagnostic for a bug of croq; a report with everything that is needed to look into it has been written."""
    path = write_report(error, source)
    where = f"a report is in `{path}`" if path is not None else "no report could be written"
    return make(
        "E-9001",
        None,
        f"this is croq's bug, not a fault of your program: {type(error).__name__}: {_first_line(error)}",
        notes=[where],
        hint="send the report to croq's maintainers; it holds the kernel's text, so read it first",
    )


def write_report(error: BaseException, source: str | None) -> Path | None:
    """Write the report to a new file in $CROQ_REPORT_DIR or the temporary folder; None when that is impossible."""
    text = "\n".join(
        [
            f"croq {croq.__version__}, Python {sys.version.split()[0]}, {platform.platform()}",
            f"command: {sys.argv}",
            "",
            "".join(traceback.format_exception(error)),
            "source:",
            source if source is not None else "(not read yet)",
            "",
        ]
    )
    folder = os.environ.get(REPORTS_VARIABLE) or None
    try:
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        handle, path = tempfile.mkstemp(prefix=f"croq-report-{stamp}-", suffix=".txt", dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
        return Path(path)
    except OSError:
        return None


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else "no message"
