"""Timelines are of programs that the simulator runs: its tests' fixtures."""

from tests.simulate.conftest import cases, draw, ir, lower

__all__ = ["cases", "draw", "ir", "lower"]
