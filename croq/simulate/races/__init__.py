"""The race detector: a watcher that keeps vector clocks and reports what nothing orders. docs/simulator.md."""

from croq.simulate.races.detector import Detector, Races

__all__ = ["Detector", "Races"]
