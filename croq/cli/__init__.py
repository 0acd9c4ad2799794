"""The command line: options, printing, exit statuses. What the commands do lies in the library, but for a few lines.

Exit status: 0 fine, 1 the input is wrong, 2 the command line is wrong, 3 the environment lacks something, 4 results are
wrong, 70 a fault of croq itself, 130 interrupted.
"""

from __future__ import annotations


def main() -> None:
    """The `croq` command; never returns."""
    from croq.cli.app import app

    app(prog_name="croq")
