"""The command line: options, printing, exit statuses. What the commands do lies in the library, but for a few lines.

Exit status: 0 fine, 1 the input is wrong, 2 the command line is wrong, 3 the environment lacks something, 4 results are
wrong, 70 a fault of croq itself, 130 interrupted.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import NoReturn

SELDOM = 50_000  # objects made between two looks for unreachable ones: what a compilation makes, it mostly keeps


def main(words: Sequence[str] | None = None) -> NoReturn:
    """The `croq` command, or one with these words; never returns."""
    import croq.cli.app  # noqa: F401  the commands
    from croq.cli.session import main

    if words is None:  # a process of its own
        words = sys.argv[1:]
        gc.set_threshold(SELDOM)
    main(words)
