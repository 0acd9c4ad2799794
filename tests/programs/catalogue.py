"""The programs of this folder: arguments, references, sizes, variants, and what the compiler must derive for them."""

from __future__ import annotations

from attentions import ATTENTION
from basics import REST
from corners import CORNERS
from entries import Argument, Program, Variant
from gemms import GEMMS

__all__ = ["PROGRAMS", "Argument", "Program", "Variant"]

PROGRAMS: tuple[Program, ...] = (*GEMMS, *ATTENTION, *REST, *CORNERS)
