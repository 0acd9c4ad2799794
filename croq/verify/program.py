"""A kernel made ready to be followed many times."""

from __future__ import annotations

from typing import Any

from croq.ir import scalar
from croq.ir.core import Value
from croq.ir.objects import Kernel
from croq.target.cuda import WARP
from croq.verify.assumptions import written
from croq.verify.coder import Coder, Level
from croq.verify.device_text import DeviceText
from croq.verify.intervals import FAR, Intervals
from croq.verify.leaves import Expressions
from croq.verify.rounds import steps
from croq.verify.sites import Decision, Load, Loop, Site
from croq.verify.slicing import Lanes, Slice, consulted


class Program:
    def __init__(self, kernel: Kernel, level: Level) -> None:
        self.kernel = kernel
        self.level = level
        self.warps = -(-kernel.threads // WARP)
        self.slice = Slice(kernel, level.protocol, level.operands)
        self.lanes = Lanes(self.slice)
        self.expressions = Expressions(self.slice)
        self.intervals = Intervals(kernel, self.lanes, self.expressions)
        self.widths = Intervals(kernel, self.lanes, self.expressions, most=FAR)
        self.sites: list[Site] = []
        self.loops: list[Loop] = []
        self.loads: list[Load] = []
        self.counts = [op.count for op in self.slice.ordered() if isinstance(op, scalar.For)]
        self.decisions: list[Decision] = []
        self.slots: dict[Value, int] = {}  # where a warp keeps each value that is followed
        self.written = written(kernel)
        self.consulted = consulted(self.slice)
        self.steps = steps(self.slice)
        self.device_text = DeviceText(kernel.device_text)
        coder = Coder(self)
        self.follow = coder.block(kernel.body).as_blocking()
        self.size = coder.size  # of a warp's values
        self.facts: dict[str, Any] = {}  # what a level finds out once
        self.cache: dict[Any, int] = {}  # element sets, shared by all runs
        self.boxes: dict[tuple[tuple[int, ...], ...], int] = {}
