"""Text to syntax tree: preprocessor, parser, AST."""

from __future__ import annotations

from croq.syntax.load import load_source, source_text
from croq.syntax.parse import parse_program

__all__ = ["load_source", "parse_program", "source_text"]
