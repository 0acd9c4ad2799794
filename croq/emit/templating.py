"""The Jinja templates: `templates/OPERATION.j2`, compiled when first used.

A template gets its fields as text and lays them out; it decides nothing. A field may also be a list of lines (the
emitted body of a region): it must stand alone on its line of the template, whose indentation the body takes over.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from croq.emit.text import Line, indented

TEMPLATES = Path(__file__).resolve().parent / "templates"
_MARK, _DROP = "\x00", "\x01"

Fields = dict[str, Any]


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES, encoding="utf-8"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=-1,
    )


@cache
def _template(name: str) -> Template:
    return _environment().get_template(f"{name}.j2")


class _Nothing(list[Line]):
    """An empty body: no items to loop over, and its line of the template goes."""

    def __str__(self) -> str:
        return _DROP


def render(name: str, fields: Fields, source: int | None = None) -> list[Line]:
    """The lines that template `name` makes of `fields`, attributed to line `source`."""
    bodies: list[list[Line]] = []
    texts: Fields = {}
    for key, value in fields.items():
        if value == []:
            texts[key] = _Nothing()
        elif isinstance(value, list) and isinstance(value[0], Line):
            texts[key] = f"{_MARK}{len(bodies)}{_MARK}"
            bodies.append(value)
        else:
            texts[key] = value
    lines: list[Line] = []
    for text in _template(name).render(texts).splitlines():
        if _MARK in text:
            prefix, number, _ = text.split(_MARK)
            lines += indented(bodies[int(number)], prefix)
        elif _DROP not in text:
            lines.append(Line(text.rstrip(), source))
    return lines
