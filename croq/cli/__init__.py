"""The command line: options, printing, exit statuses. What the commands do lies in the library, but for a few lines.

Exit status: 0 fine, 1 the input is wrong, 2 the command line is wrong, 3 the environment lacks something, 4 results are
wrong, 70 a fault of croq itself, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(words: Sequence[str] | None = None) -> NoReturn:
    """The `croq` command, or one with these words; never returns."""
    import croq.cli.app  # noqa: F401  the commands
    from croq.cli.session import main

    main(sys.argv[1:] if words is None else words)
