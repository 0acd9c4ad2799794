"""The registers of matrix products: who may touch them when. PTX ISA, "wgmma.mma_async", "wgmma.fence".

An access of an accumulator before `wgmma.wait_group` has covered its product is undefined, and so is a change of a
register that holds A. Between an ordinary access of a register and a product that uses it a warp must execute
`wgmma.fence`, and once before its first product. Products that follow one another on the same accumulators need
neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from croq.ptx.definite import inputs, is_accumulation, registers_of, results
from croq.ptx.faults import PtxFault
from croq.ptx.lanes import Lanes
from croq.ptx.syntax import Function, Instruction, Vec
from croq.target.cuda import WARP

Slots = tuple[int, ...]
FIELD = 24  # bits of a warp
ALL = (1 << FIELD) - 1


@dataclass(frozen=True)
class Names:
    """Of one function: registers that are accumulators of products, and those that hold A."""

    accumulators: frozenset[str]
    operands: frozenset[str]


def names_of(function: Function) -> Names:
    products = [ins for ins in function.body if is_accumulation(ins)]
    accumulators = frozenset(n for ins in products for n in registers_of(ins.operands[:1]))
    a = [ins.operands[1] for ins in products if isinstance(ins.operands[1], Vec)]
    return Names(accumulators, frozenset(registers_of(a)))


class MmaRegisters:
    """By slot, a register of some function: warps, as fields of FIELD bits of an integer.

    A field counts the products of its warp in flight, or is all ones, or nothing.
    """

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self.reset()

    def slot(self, key: str) -> int:
        """The number of a register, by its function and name; the same for every question about it."""
        if key not in self._slots:
            self._slots[key] = len(self._slots)
            self.reset()
        return self._slots[key]

    def reset(self) -> None:
        count = len(self._slots)
        self.busy = 0  # products in flight
        self.fenced = 0  # warps that have executed a fence
        self.written = [0] * count  # by a product in flight
        self.read = [0] * count
        self.touched = [0] * count  # by an ordinary instruction, with no fence since

    # ---------------------------------------------------------------------------------------------- what products do
    def issue(self, accumulators: Slots, a: Slots, warps: list[int], ins: Instruction) -> Callable[[list[int]], None]:
        """A product of some warps begins; the result is called with those that have waited for it.

        Raises PtxFault E-7024.
        """
        bits = _fields(warps)
        if self.fenced & bits != bits:
            raise PtxFault("E-7024", "the first wgmma of a warp without a wgmma.fence before it", ins.place)
        self._check_fence((*accumulators, *a), bits, ins)
        if any(self.written[s] & bits for s in a) or any(self.read[s] & bits for s in accumulators):
            raise PtxFault("E-7024", f"`{ins.opcode}` uses a register of another wgmma in flight", ins.place)

        def count(which: list[int], sign: int) -> None:
            ones = sign * (_fields(which) // ALL)
            for slot in accumulators:
                self.written[slot] += ones
            for slot in a:
                self.read[slot] += ones
            self.busy += sign * len(which)

        count(warps, 1)
        return lambda which: count(which, -1)

    def fence(self, warps: list[int]) -> None:
        bits = _fields(warps)
        self.fenced |= bits
        self.touched = [t & ~bits for t in self.touched]

    def _check_fence(self, slots: Slots, bit: int, ins: Instruction) -> None:
        bare = [s for s in slots if self.touched[s] & bit]
        if bare:
            name = self._name(bare[0])
            message = f"`{ins.opcode}` uses `{name}`, which other instructions touched with no wgmma.fence since"
            raise PtxFault("E-7024", message, ins.place)

    # ------------------------------------------------------------------------------------------ what all others may do
    def guarded(self, function: str, names: Names, ins: Instruction, step: Any) -> Any:
        """A step of an ordinary instruction that touches registers of products, with its checks; else as it is."""
        touch = self._touch(function, names, ins)
        if touch is None:
            return step

        def run(lanes: Lanes) -> None:
            touch(lanes)
            step(lanes)

        return run

    def guarded_end(self, function: str, names: Names, ins: Instruction, end: Any) -> Any:
        """The same for what ends a block."""
        touch = self._touch(function, names, ins)
        if touch is None:
            return end

        def run(machine: Any, group: Any) -> Any:
            touch(group.lanes)
            return end(machine, group)

        return run

    def _touch(self, function: str, names: Names, ins: Instruction) -> Callable[[Lanes], None] | None:
        changed = frozenset(registers_of(results(ins)))
        seen = changed | frozenset(registers_of(inputs(ins)))
        touches = tuple(self.slot(f"{function}:{n}") for n in sorted(seen & (names.accumulators | names.operands)))
        if not touches:
            return None
        not_before = tuple(self.slot(f"{function}:{n}") for n in sorted(seen & names.accumulators))
        not_change = tuple(self.slot(f"{function}:{n}") for n in sorted(changed & names.operands))

        def touch(lanes: Lanes) -> None:
            bits = _bits(lanes)
            if self.busy:
                self._check_wait(not_before, not_change, bits, ins, lanes)
            touched = self.touched
            for slot in touches:
                touched[slot] |= bits

        return touch

    def _check_wait(self, not_before: Slots, not_change: Slots, bits: int, ins: Instruction, lanes: Lanes) -> None:
        early = [s for s in not_before if self.written[s] & bits] + [s for s in not_change if self.read[s] & bits]
        if early:
            message = f"`{ins.opcode}` touches `{self._name(early[0])}` while a wgmma that uses it is in flight"
            raise PtxFault("E-7024", message, ins.place, notes=[f"by {lanes}", "a wgmma.wait_group must come first"])

    def _name(self, slot: int) -> str:
        return list(self._slots)[slot].rpartition(":")[2]


def _bits(lanes: Lanes) -> int:
    if isinstance(lanes.sel, slice):
        first, last = lanes.first // WARP, int(lanes.index[-1]) // WARP
        return (1 << FIELD * (last + 1)) - (1 << FIELD * first)
    return _fields(lanes.warps.tolist())


def _fields(warps: Iterable[int]) -> int:
    return sum(ALL << FIELD * w for w in warps)
