"""Names, types, shapes and static rules: from the AST to a `Model`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from croq.sema.model import Model
    from croq.sema.program import analyse

__all__ = ["Model", "analyse"]


def __getattr__(name: str) -> Any:
    """The rules are imported when a program is analysed: the IR needs no more than `croq.sema.symbolic`."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from croq.sema import model, program

    return getattr(program if name == "analyse" else model, name)
