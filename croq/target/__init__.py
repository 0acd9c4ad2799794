"""Facts of the chips that croq makes code for: those of CUDA, and one `Target` for each architecture."""

from __future__ import annotations

from croq.target.base import Target
from croq.target.sm90 import SM_90A

__all__ = ["DEFAULT", "TARGETS", "Target"]

DEFAULT = SM_90A
TARGETS: dict[str, Target] = {SM_90A.name: SM_90A}
