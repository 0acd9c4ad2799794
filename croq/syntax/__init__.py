"""Text to syntax tree: preprocessor, parser, AST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from croq.syntax.load import load_source, source_text

if TYPE_CHECKING:
    from croq.syntax.parse import parse_program

__all__ = ["load_source", "parse_program", "source_text"]


def __getattr__(name: str) -> Any:
    """The parser is imported, and lark with it, when something is parsed: recalled compilations are not."""
    if name != "parse_program":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from croq.syntax.parse import parse_program

    return parse_program
