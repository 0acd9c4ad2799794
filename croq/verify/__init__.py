"""Synchronisation that is proved before it runs (docs/memory-model.md)."""

from croq.verify.check import Options, verify_protocol
from croq.verify.verdict import Coverage, LoopCoverage, Verdict

__all__ = ["Coverage", "LoopCoverage", "Options", "Verdict", "verify_protocol"]
