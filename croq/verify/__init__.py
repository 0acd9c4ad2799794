"""Synchronisation that is proved before it runs (docs/memory-model.md)."""

from croq.verify.blame import blame
from croq.verify.check import THOROUGH, Options, verify_protocol
from croq.verify.disagreement import disagreements
from croq.verify.verdict import Coverage, LoopCoverage, Verdict

__all__ = ["THOROUGH", "Coverage", "LoopCoverage", "Options", "Verdict", "blame", "disagreements", "verify_protocol"]
