"""Finds the data that ships with croq: the grammar, the device prelude, the kernels.

In a checkout they lie beside the package; in a wheel the build puts them into `croq/_data`.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource(*parts: str) -> Path:
    """The path of a shipped file or folder, e.g. `resource("grammar", "croq.lark")`."""
    installed = _PACKAGE / "_data"
    root = installed if installed.is_dir() else _PACKAGE.parent
    return root.joinpath(*parts)
