"""Executes lowered kernels on the CPU, with the chip's asynchrony. See docs/simulator.md."""

from croq.simulate.binding import bind_symbols, grid_of, spread_blocks
from croq.simulate.faults import SimulationFault
from croq.simulate.runner import STEP_LIMIT, Report, run
from croq.simulate.watch import Place, Units, Watcher

__all__ = [
    "STEP_LIMIT",
    "Place",
    "Report",
    "SimulationFault",
    "Units",
    "Watcher",
    "bind_symbols",
    "grid_of",
    "run",
    "spread_blocks",
]
