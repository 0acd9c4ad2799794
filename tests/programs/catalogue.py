"""The programs of this folder: arguments, references, sizes, variants, and what the compiler must derive for them."""

from __future__ import annotations

from tests.programs.attentions import ATTENTION
from tests.programs.basics import REST
from tests.programs.corners import CORNERS
from tests.programs.entries import Argument, Program, Variant
from tests.programs.gemms import GEMMS

__all__ = ["PROGRAMS", "Argument", "Program", "Variant"]

PROGRAMS: tuple[Program, ...] = (*GEMMS, *ATTENTION, *REST, *CORNERS)
