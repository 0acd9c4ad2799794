"""One CTA: groups of threads that run until they part, wait, or reach others; what is in flight; deadlocks and budgets.

Threads run together as long as they are at the same place. Where a branch parts them, those who are behind in the
program run first, so that they come together again where the branch does. An instruction that needs whole warps
waits until they are there; one of a warpgroup also does so where the order is not random, which saves time.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np

from croq.ptx.asynchrony import Alignment, Flight, MmaGroups, ThreadGroups
from croq.ptx.build import Block, Code
from croq.ptx.faults import PtxFault, of_unit
from croq.ptx.groups import Group, NamedBarrier, Wait
from croq.ptx.lanes import Lanes, Mask
from croq.ptx.memory import Memory
from croq.ptx.mma_registers import MmaRegisters
from croq.ptx.registers import Specials
from croq.ptx.reports import deadlock, endless, located, where
from croq.ptx.schedule import Schedule
from croq.ptx.syntax import Instruction, Module
from croq.ptx.units.fault import UnitFault
from croq.ptx.units.mbarrier import Mbarriers
from croq.ptx.units.tensor_map import TensorMap
from croq.target import DEFAULT, TARGETS
from croq.target.cuda import WARP

STEP_LIMIT = 1_000_000  # blocks of instructions that one CTA may run
STRETCH = 2_000  # blocks that a group runs before it lets others by: it may be polling memory
LANES_PART = 0.05  # how often, at random, some lanes of a warp run ahead of the others


class Machine:
    """`tensor_maps`: by the generic address of the parameter that stands for each."""

    code: Code
    blocks: list[Block]

    def __init__(
        self, module: Module, memory: Memory, specials: Specials, schedule: Schedule, limit: int,
        tensor_maps: Mapping[int, TensorMap],
    ) -> None:  # fmt: skip
        self.module = module
        self.target = TARGETS.get(module.target, DEFAULT)
        self.tensor_maps = tensor_maps
        self.memory = memory
        self.specials = specials
        self.threads = specials.threads
        self.schedule = schedule
        self.limit = limit
        self.mma_registers = MmaRegisters()
        self.output: list[str] = []
        self.total_steps = 0

    def take(self, code: Code, entry: int) -> None:
        """The program, whose steps were built for this machine."""
        self.code = code
        self.blocks = code.blocks
        self.entry = entry

    def reset(self) -> None:
        """A fresh CTA. Registers keep what they hold; those that may be read unwritten are forgotten."""
        self.groups: list[Group] = []
        self.exited = np.zeros(self.threads, dtype=bool)
        self.mbarriers = Mbarriers()
        self.barriers = [NamedBarrier() for _ in range(self.target.named_barriers)]
        self.flights: list[Flight] = []
        self.copies = ThreadGroups(self.threads)
        self.bulk = ThreadGroups(self.threads)
        self.mmas = MmaGroups(self.memory.shared)
        self.alignment = Alignment(self.threads)
        self.mma_registers.reset()
        self.memory.shared.reset()
        self.memory.local.reset()
        self.steps = 0
        self.visits = np.zeros(len(self.blocks), np.int64)
        self.changed = False
        self._hasty: dict[tuple[int, int], bool] = {}
        for mark in self.code.tracked:
            mark[:] = False

    # --------------------------------------------------------------------------------------------------------- running
    def run(self, block: tuple[int, int, int]) -> None:
        """Execute one CTA to its end. Raises PtxFault."""
        self.reset()
        self.specials.enter(block)
        everyone = np.arange(self.threads)
        self.groups = [Group(Lanes(part, self.threads), self.entry) for part in self._start(everyone)]
        self.run_groups()
        self.total_steps += self.steps
        self._ended()

    def run_groups(self) -> None:
        """Run the groups that there are to their ends. Raises PtxFault."""
        while self.groups:
            group = self._choose()
            if group is not None:
                self._advance(group)
            elif not self.land_one():
                raise deadlock(self)

    def _start(self, everyone: Any) -> list[Any]:
        """All threads together, or warps apart where their order is random."""
        return [everyone] if self.schedule.random is None else np.split(everyone, range(WARP, self.threads, WARP))

    def _choose(self) -> Group | None:
        self.changed = False
        runnable = [g for g in self.groups if g.wait is None or self._resumed(g)]
        if not runnable:
            return None
        random = self.schedule.random
        if random is not None:
            if self.flights and random.random() < self.schedule.landing:
                self.land_one()
            chosen = self.schedule.pick(runnable)
        else:
            chosen = min(runnable, key=lambda g: (g.turn, g.key))
        for other in runnable:
            if other is not chosen and other.at == chosen.at and other.calls == chosen.calls and self._joins():
                self.absorb(chosen, other)
        if random is not None and chosen.lanes.count > 1:
            self._scatter(chosen, random)
        return chosen

    def _scatter(self, group: Group, random: Random) -> None:
        """One warp, or some lanes, go on alone: nothing keeps together what an instruction has brought together."""
        drawn, index = random.random(), group.lanes.index
        alone = np.ones(len(index), dtype=bool)
        if drawn < 0.5 and len(index) > WARP:
            alone = index // WARP == random.choice(group.lanes.warps.tolist())
        elif drawn > 1 - LANES_PART:
            alone = index < int(index[random.randrange(1, len(index))])
        if not alone.all():
            self.groups.append(Group(group.lanes.where(~alone), group.at, group.calls, turn=group.turn))
            group.lanes = group.lanes.where(alone)

    def hasty(self, barrier: int, phase: int) -> bool:
        """Whether waits for this phase of an mbarrier end before it does. PTX ISA, mbarrier.try_wait: time limit"""
        random = self.schedule.random
        return random is not None and self._hasty.setdefault((barrier, phase), random.random() < 0.5)

    def _joins(self) -> bool:
        """Whether groups that meet go on together, which saves time and hides what warps that run apart would show."""
        return self.schedule.random is None or self.schedule.random.random() < 0.3

    def _resumed(self, group: Group) -> bool:
        wait = group.wait
        assert wait is not None
        if not wait.ready():
            return False
        group.wait = None
        if wait.finish is not None:
            wait.finish(group.lanes)
        return True

    def absorb(self, group: Group, other: Group) -> None:
        group.lanes = group.lanes.union(other.lanes)
        group.turn = max(group.turn, other.turn)
        self.groups.remove(other)

    def _advance(self, group: Group) -> None:
        """Run a group until it has to let others by."""
        others = [g.key for g in self.groups if g is not group and g.wait is None]
        horizon = min(others) if others else None
        stretch = STRETCH if self.schedule.random is None else self.schedule.random.randrange(1, 10)
        while self._block(group) and not self.changed:
            stretch -= 1
            if stretch <= 0:
                group.turn += 1
                if group.turn % 8 == 0:
                    self.land_one()
                return
            if horizon is not None and group.key >= horizon and self.schedule.random is None:
                return

    def _block(self, group: Group) -> bool:
        """One block; True when the same threads can go on at once."""
        block = self.blocks[group.at]
        step: Any = block.end
        self.steps += 1
        self.visits[block.number] += 1
        if self.steps > self.limit:
            raise endless(self, group)
        try:
            lanes = group.lanes
            for step in block.steps:
                step(lanes)
            step = block.end
            if step is None:
                group.at += 1
                return True
            return bool(step(self, group))
        except PtxFault as fault:
            raise located(self, fault, self._instruction(block, step), group) from None
        except UnitFault as fault:
            raise located(self, of_unit(fault), self._instruction(block, step), group) from None

    @staticmethod
    def _instruction(block: Block, step: Any) -> Instruction:
        at = block.steps.index(step) if step in block.steps else len(block.places) - 1
        return block.places[at]

    # ---------------------------------------------------------------------------------- what instructions do to groups
    def divide(self, group: Group, mask: Mask, yes: int, no: int) -> bool:
        """Those of the mask go to block `yes`, the others to `no`. True when all stay together."""
        if mask.all():
            group.at = yes
            return True
        if not mask.any():
            group.at = no
            return True
        rest = Group(group.lanes.where(~mask), no, group.calls, turn=group.turn)
        group.lanes, group.at = group.lanes.where(mask), yes
        self.groups.append(rest)
        return False

    def part(self, group: Group, positions: Any) -> Group:
        """Threads of a group, by their positions in it, as a group of their own at the same place."""
        mask = np.zeros(group.lanes.count, dtype=bool)
        mask[positions] = True
        made = Group(group.lanes.where(mask), group.at, group.calls, turn=group.turn)
        self.groups.append(made)
        self.groups.remove(group)
        if not mask.all():
            group.lanes = group.lanes.where(~mask)
            self.groups.append(group)
        return made

    def converge(self, group: Group, ins: Instruction, unit: int) -> bool:
        """Whether the group now is whole warps (`unit` 32) or warpgroups (128), with others that wait at this place.

        Those of incomplete ones stay behind and wait; False when nobody else is left.
        """
        lanes = group.lanes
        if lanes.whole_warps if unit == WARP else lanes.whole_warpgroups:
            return True
        self._gather(group)
        return self._keep(group, group.lanes.complete(unit), ins, "warp" if unit == WARP else "warpgroup")

    def converge_members(self, group: Group, ins: Instruction, members: Any) -> bool:
        """The same for the lanes that each thread's mask names. Lanes that the CTA does not have are not awaited."""
        if group.lanes.whole_warps:
            return True
        self._gather(group)
        lanes = group.lanes
        present = np.zeros(-(-self.threads // WARP), np.uint32)
        np.bitwise_or.at(present, lanes.index // WARP, np.uint32(1) << (lanes.index % WARP).astype(np.uint32))
        if self.threads % WARP:
            present[-1] |= np.uint32((0xFFFFFFFF << (self.threads % WARP)) & 0xFFFFFFFF)
        needed = members[lanes.sel]
        return self._keep(group, (needed & ~present[lanes.index // WARP]) == 0, ins, "lanes of its mask")

    def _gather(self, group: Group) -> None:
        for other in [g for g in self.groups if g is not group and g.at == group.at and g.calls == group.calls]:
            if other.wait is None or other.wait.converging:
                self.absorb(group, other)

    def _keep(self, group: Group, mask: Mask, ins: Instruction, what: str) -> bool:
        if mask.all():
            return True
        wait = Wait(lambda: False, lambda: f"waits for the rest of its {what}", ins, converging=True)
        if not mask.any():
            group.wait = wait
            return False
        self.groups.append(Group(group.lanes.where(~mask), group.at, group.calls, wait, group.turn))
        group.lanes = group.lanes.where(mask)
        return True

    def leave(self, group: Group) -> bool:
        """`ret`: back to the caller, or the end of these threads."""
        if group.calls:
            *outer, call = group.calls
            self.code.returns[call](group.lanes)
            group.at, group.calls = call + 1, tuple(outer)
            return True
        return self.exit(group)

    def exit(self, group: Group) -> bool:
        self.exited[group.lanes.index] = True
        self.groups.remove(group)
        self.changed = True
        return False

    # ------------------------------------------------------------------------------------------------------ in flight
    def issue(self, flight: Flight) -> None:
        """Something asynchronous begins."""
        if self.schedule.delays():
            self.flights.append(flight)
        else:
            flight.land()
            self.changed = True

    def land(self, flight: Flight) -> None:
        self.flights.remove(flight)
        flight.land()
        self.changed = True

    def land_one(self) -> bool:
        """Let one operation in flight take effect; False when there is none."""
        if not self.flights:
            return False
        random = self.schedule.random
        self.land(random.choice(self.flights) if random is not None else self.flights[0])
        return True

    def wait_copies(self, groups: ThreadGroups, lanes: Lanes, pending: int, uncommitted: bool) -> None:
        """Threads wait for their copies, which take effect now if they have not."""
        groups.wait(lanes, pending, uncommitted)
        self.flights = [f for f in self.flights if not f.landed.all()]

    def tensor_map(self, address: int) -> TensorMap:
        """What the 128 bytes at a generic address stand for. Raises PtxFault E-7023."""
        found = self.tensor_maps.get(address)
        if found is None:
            raise PtxFault("E-7023", f"there is no tensor map at address {address:#x}")
        return found

    @property
    def clock(self) -> int:
        return self.total_steps + self.steps

    def _ended(self) -> None:
        unmet = self.alignment.unmet()
        if unmet is not None:
            notes = [f"at {where(unmet)}"]
            raise PtxFault("E-7017", "an instruction of a warpgroup is reached by some of its warps only", unmet, notes)
        left = [(f.what, f.place) for f in (*self.flights, *self.bulk.open_flights(), *self.copies.open_flights())]
        left += [("a wgmma", place) for place in self.mmas.open_places()]
        if left:
            what, place = left[0]
            notes = [f"at {where(place)}", "the shared memory that it uses may belong to another CTA by then"]
            raise PtxFault("E-7025", f"{what} is still in flight when the CTA exits", place, notes)
