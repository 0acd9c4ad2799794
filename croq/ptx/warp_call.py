"""A kernel's program as a function that lanes of one warp call: arguments, memory and place are the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from croq.ptx import ops
from croq.ptx.asynchrony import SharedSegment
from croq.ptx.build import Builder, local_layout, param_layout, reachable, shared_layout
from croq.ptx.faults import PtxFault, unsupported
from croq.ptx.groups import Group
from croq.ptx.lanes import Lanes
from croq.ptx.machine import STEP_LIMIT, Machine
from croq.ptx.memory import LOCAL_START, LOCAL_WINDOW, LocalSegment, Memory, Segment, padded
from croq.ptx.registers import Specials
from croq.ptx.run import variables
from croq.ptx.schedule import schedule_of
from croq.ptx.syntax import Function, Module
from croq.target.cuda import WARP

Array = np.ndarray[Any, Any]
FAMILIES = ops.FAMILIES  # importing them registers the instructions

# What needs more than the warp that calls.
_BEYOND = frozenset({"bar", "barrier", "mbarrier", "cp", "wgmma", "setmaxnreg"})


class WarpCall:
    """`segments`: global memory by window. `own`: sizes of memory that each lane passes a pointer to (`memory`)."""

    def __init__(
        self, module: Module, name: str, segments: Mapping[int, Segment], shared: SharedSegment, own: Sequence[int]
    ) -> None:  # fmt: skip
        entry = module.functions[name]
        functions = reachable(module, entry)
        for function in functions:
            _check(function)
        if shared_layout(module, entry)[1]:
            raise unsupported("shared memory that a function declares for itself", entry.place)
        local, local_bytes = local_layout(functions)
        starts = np.cumsum([padded(local_bytes), *(padded(size) for size in own)])
        stack = LocalSegment(int(starts[-1]), WARP)
        places, param_bytes = param_layout(functions)
        params = np.zeros((WARP, param_bytes), np.uint8)
        self.specials = Specials((WARP, 1, 1), (1, 1, 1), (0, 0))
        every, addresses = variables(module, len(segments) + 1)
        nothing = Segment("the parameters", 0, 0, np.zeros(0, np.uint8), writable=False)
        memory = Memory({**segments, **every}, shared, stack, nothing)
        self.machine = Machine(module, memory, self.specials, schedule_of("eager"), STEP_LIMIT, {})
        found = {**addresses, **local}
        builder = Builder(module, functions, self.specials, memory, params, places, found, self.machine)
        code = builder.build()
        self.machine.take(code, code.entries[name])
        self._params = [params[:, a : a + n] for a, n in (places[f"{name}:{p.name}"] for p in entry.params)]
        rows = stack.data.reshape(WARP, -1)
        self.memory = [rows[:, a : a + n] for a, n in zip(starts.tolist(), own, strict=False)]
        assert stack.written is not None
        self._written = [
            stack.written.reshape(WARP, -1)[:, a : a + n] for a, n in zip(starts.tolist(), own, strict=False)
        ]
        self.pointers = [LOCAL_WINDOW + LOCAL_START + start for start in starts.tolist()[: len(own)]]

    def place(self, **rows: Any) -> None:
        """Where the warp is: special registers by name, dots as underscores (`tid_x`)."""
        for name, value in rows.items():
            self.specials.rows[f"%{name.replace('_', '.')}"][:] = value

    def __call__(self, active: Array, arguments: Sequence[Array]) -> str:
        """Run the lanes of a mask; `arguments`: for each parameter one value a lane. What they printed.

        Raises PtxFault.
        """
        for place, values in zip(self._params, arguments, strict=True):
            place[:] = np.ascontiguousarray(values).view(np.uint8).reshape(WARP, -1)
        machine = self.machine
        machine.reset()
        for marks in self._written:
            marks[:] = 1
        machine.groups = [Group(Lanes(np.flatnonzero(active), WARP), machine.entry)]
        with np.errstate(all="ignore"):
            machine.run_groups()
        printed, machine.output = "".join(machine.output), []
        return printed


def _check(function: Function) -> None:
    """Raises PtxFault E-7002 for what a single warp cannot do for itself."""
    for ins in function.body:
        if ins.name in _BEYOND and ins.modifiers[:1] != ("warp",):
            raise PtxFault("E-7002", f"`{ins.opcode}`, which concerns more than the warp that calls", ins.place)
