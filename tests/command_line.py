"""The `croq` command in this process, with what it writes."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

from croq.cli import main


@dataclass(frozen=True)
class Result:
    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


def croq(*words: object, input: str = "") -> Result:
    """Carry out a command line."""
    out, err = io.StringIO(), io.StringIO()
    given = io.TextIOWrapper(io.BytesIO(input.encode()), encoding="utf-8")
    with redirect_stdout(out), redirect_stderr(err), mock.patch.object(sys, "stdin", given):
        try:
            main([str(word) for word in words])
        except SystemExit as end:
            return Result(int(end.code or 0), out.getvalue(), err.getvalue())
    raise AssertionError("a command that does not end")
