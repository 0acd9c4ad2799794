"""Named barriers and mbarriers. PTX ISA, "Parallel Synchronization and Communication Instructions: bar, mbarrier"."""

from __future__ import annotations

from typing import Any

import numpy as np

from croq.ptx.build import Builder
from croq.ptx.faults import PtxFault
from croq.ptx.groups import NamedBarrier, Wait
from croq.ptx.lanes import Lanes
from croq.ptx.ops.access import address_of
from croq.ptx.registers import Array
from croq.ptx.registry import End, Form, Step, instruction
from croq.ptx.syntax import Instruction
from croq.ptx.units.mbarrier import token_pending
from croq.target.cuda import WARP

# --------------------------------------------------------------------------------------------------- named barriers


def _uniform(row: Array, lanes: Lanes, what: str) -> int:
    values = row[lanes.sel]
    if (values != values[0]).any():
        raise PtxFault("E-7022", f"the {what} of a barrier differs between threads that reach it together")
    return int(values[0])


class _Arrival:
    """One use of a named barrier: which, how many threads, and by whom."""

    def __init__(self, builder: Builder, form: Form, operands: tuple[Any, ...]) -> None:
        self.instruction = form.instruction
        self.id = builder.source(operands[0], "u32")
        self.count = builder.source(operands[1], "u32") if len(operands) > 1 else None

    def arrive(self, machine: Any, lanes: Lanes) -> tuple[int, NamedBarrier, dict[int, Any]]:
        """Every warp arrives in turn. The barrier and, by its generation, the positions of the threads."""
        number = _uniform(self.id, lanes, "id")
        count = _uniform(self.count, lanes, "count") if self.count is not None else None
        if not 0 <= number < len(machine.barriers):
            raise PtxFault("E-7022", f"barrier {number} of {len(machine.barriers)}")
        if count is not None and (count % WARP or count == 0):
            raise PtxFault("E-7022", f"barrier {number} for {count} threads, which is no multiple of {WARP}")
        barrier = machine.barriers[number]
        generations: dict[int, list[Any]] = {}
        for _, positions in lanes.by_warp():
            if barrier.arrived and barrier.expected != count:
                others, mine = _expected(barrier.expected), _expected(count)
                raise PtxFault("E-7022", f"barrier {number} for {mine} while others arrived at it for {others}")
            barrier.expected = count
            barrier.arrived += WARP
            generations.setdefault(barrier.generation, []).append(positions)
            settle(machine, barrier)
        return number, barrier, {g: np.concatenate(p) for g, p in generations.items()}


def _expected(count: int | None) -> str:
    return "all threads" if count is None else f"{count} threads"


def settle(machine: Any, barrier: NamedBarrier) -> None:
    """Complete the phase of a barrier where all have arrived."""
    if not barrier.arrived:
        return
    warps = np.add.reduceat(~machine.exited, np.arange(0, machine.threads, WARP)) > 0
    expected = int(warps.sum()) * WARP if barrier.expected is None else barrier.expected
    if barrier.arrived >= expected:
        barrier.results[barrier.generation] = barrier.votes
        barrier.votes = []
        barrier.generation += 1
        barrier.arrived -= expected
        machine.changed = True


def _waiting(machine: Any, ins: Instruction, number: int, barrier: NamedBarrier, generation: int) -> Wait:
    def ready() -> bool:
        settle(machine, barrier)  # threads that have ended are awaited no more
        return barrier.generation > generation

    def what() -> str:
        return f"waits at barrier {number}, where {barrier.arrived} of {_expected(barrier.expected)} have arrived"

    return Wait(ready, what, ins)


@instruction("bar.sync barrier.sync", flags="cta aligned", ends=True)
def sync(builder: Builder, form: Form) -> End:
    arrival = _Arrival(builder, form, form.operands)

    def run(machine: Any, group: Any) -> bool:
        if not machine.converge(group, form.instruction, WARP):
            return False
        lanes = group.lanes
        number, barrier, generations = arrival.arrive(machine, lanes)
        group.at += 1
        for generation, positions in generations.items():
            among = np.flatnonzero(np.isin(group.lanes.index, lanes.index[positions]))
            mine = machine.part(group, among) if len(positions) < lanes.count else group
            if barrier.generation <= generation:
                mine.wait = _waiting(machine, form.instruction, number, barrier, generation)
        return len(generations) == 1 and group.wait is None

    return run


@instruction("bar.arrive barrier.arrive", flags="cta aligned", ends=True)
def arrive(builder: Builder, form: Form) -> End:
    arrival = _Arrival(builder, form, form.operands)

    def run(machine: Any, group: Any) -> bool:
        if not machine.converge(group, form.instruction, WARP):
            return False
        arrival.arrive(machine, group.lanes)
        group.at += 1
        return True

    return run


_VOTES: dict[str, Any] = {"popc": sum, "and": all, "or": any}


@instruction("bar.red barrier.red", flags="popc and or cta aligned", ends=True)
def reduce(builder: Builder, form: Form) -> End:
    """bar.red: a barrier that also counts or combines a predicate of all threads."""
    target, *operands, vote = form.operands
    arrival = _Arrival(builder, form, tuple(operands))
    name = form.one_of(*_VOTES)
    out = builder.target(target, "u32" if name == "popc" else "pred")
    row, negated = builder.predicate(vote)

    def run(machine: Any, group: Any) -> bool:
        if not machine.converge(group, form.instruction, WARP):
            return False
        lanes = group.lanes
        ids = _uniform(arrival.id, lanes, "id")
        machine.barriers[ids].votes += (row[lanes.sel] ^ negated).tolist()
        number, barrier, generations = arrival.arrive(machine, lanes)
        if len(generations) > 1:
            raise PtxFault("E-7022", f"barrier {number}: one bar.red by more threads than it counts")
        (generation,) = generations
        group.at += 1
        wait = _waiting(machine, form.instruction, number, barrier, generation)

        def finish(some: Lanes) -> None:
            out[some.sel] = _VOTES[name](barrier.results[generation])

        wait.finish = finish
        group.wait = wait
        return False

    return run


@instruction("bar.warp", flags="sync", ends=True)
def warp_sync(builder: Builder, form: Form) -> End:
    members = builder.source(form.operands[0], "b32")

    def run(machine: Any, group: Any) -> bool:
        if not machine.converge_members(group, form.instruction, members):
            return False
        group.at += 1
        return True

    return run


# -------------------------------------------------------------------------------------------------------- mbarriers
_FLAGS = "shared shared::cta shared::cluster release acquire relaxed cta cluster noComplete expect_tx"


@instruction("mbarrier.init", flags=_FLAGS)
def init(builder: Builder, form: Form) -> Step:
    place, count = form.operands
    address, row, machine = address_of(builder, place), builder.source(count, "u32"), builder.machine

    def step(lanes: Lanes) -> None:
        for at, number in zip(address(lanes).tolist(), row[lanes.sel].tolist(), strict=True):
            machine.memory.shared.hold_object(at, lanes)
            machine.mbarriers.init(at, number)

    return step


@instruction("mbarrier.inval", flags=_FLAGS)
def inval(builder: Builder, form: Form) -> Step:
    address, machine = address_of(builder, form.operands[0]), builder.machine

    def step(lanes: Lanes) -> None:
        for at in address(lanes).tolist():
            machine.mbarriers.inval(at)
            machine.memory.shared.release_object(at)

    return step


@instruction("mbarrier.arrive mbarrier.arrive_drop", flags=_FLAGS)
def mbarrier_arrive(builder: Builder, form: Form) -> Step:
    """Arrivals of the threads one after the other; `.expect_tx` raises the transaction count first."""
    target, place, *more = form.operands
    out, address, machine = builder.target(target, "b64"), address_of(builder, place), builder.machine
    number = builder.source(more[0], "u32") if more else None
    drop, expects, keep = form.name.endswith("drop"), "expect_tx" in form.flags, "noComplete" in form.flags

    def one(at: int, value: int | None) -> int:
        barrier = machine.mbarriers.at(at)
        before = barrier.phase
        if expects:
            barrier.expect_tx(value)
        count = 1 if expects or value is None else value
        token = (barrier.arrive_drop if drop else barrier.arrive)(count, no_complete=keep)
        machine.changed |= barrier.phase != before
        return int(token)

    def step(lanes: Lanes) -> None:
        values = number[lanes.sel].tolist() if number is not None else [None] * lanes.count
        tokens = [one(at, value) for at, value in zip(address(lanes).tolist(), values, strict=True)]
        out[lanes.sel] = np.array(tokens, np.uint64)

    return step


@instruction("mbarrier.expect_tx mbarrier.complete_tx", flags=_FLAGS)
def transactions(builder: Builder, form: Form) -> Step:
    place, size = form.operands
    address, row, machine = address_of(builder, place), builder.source(size, "u32"), builder.machine
    completes = form.name.endswith("complete_tx")

    def step(lanes: Lanes) -> None:
        for at, value in zip(address(lanes).tolist(), row[lanes.sel].tolist(), strict=True):
            barrier = machine.mbarriers.at(at)
            (barrier.complete_tx if completes else barrier.expect_tx)(value)
            machine.changed = True

    return step


@instruction("mbarrier.pending_count")
def pending_count(builder: Builder, form: Form) -> Step:
    target, state = form.operands
    out, row = builder.target(target, "u32"), builder.source(state, "b64")

    def step(lanes: Lanes) -> None:
        out[lanes.sel] = [token_pending(int(token)) for token in row[lanes.sel]]

    return step


@instruction("mbarrier.test_wait", flags=f"{_FLAGS} parity")
def test_wait(builder: Builder, form: Form) -> Step:
    target, place, phase = form.operands
    out, address, machine = builder.target(target, "pred"), address_of(builder, place), builder.machine
    row = builder.source(phase, "u32" if "parity" in form.flags else "b64")
    test = _test(form)

    def step(lanes: Lanes) -> None:
        asked = zip(address(lanes).tolist(), row[lanes.sel].tolist(), strict=True)
        out[lanes.sel] = [test(machine.mbarriers.at(at), value) for at, value in asked]

    return step


def _test(form: Form) -> Any:
    if "parity" in form.flags:
        return lambda barrier, value: barrier.test_parity(value)
    return lambda barrier, value: barrier.test_state(value)


@instruction("mbarrier.try_wait", flags=f"{_FLAGS} parity", ends=True)
def try_wait(builder: Builder, form: Form) -> End:
    """Waits until the phase completes: the ISA allows any time limit. Under a random schedule it may come sooner."""
    target, place, phase = form.operands[:3]
    out, address = builder.target(target, "pred"), address_of(builder, place)
    row = builder.source(phase, "u32" if "parity" in form.flags else "b64")
    test = _test(form)

    def one(machine: Any, group: Any, at: int, value: int) -> bool:
        """Threads that wait for the same phase."""
        barrier = machine.mbarriers.at(at)
        done = test(barrier, value)
        if done or machine.hasty(at, barrier.phase):
            out[group.lanes.sel] = done
            group.at += 1
            return True
        group.wait = Wait(lambda: test(barrier, value), lambda: _missing(barrier, at, value), form.instruction)
        return False

    def run(machine: Any, group: Any) -> bool:
        places, values = address(group.lanes), row[group.lanes.sel]
        while True:
            at, value = int(places[0]), int(values[0])
            others = (places != at) | (values != value)
            if not others.any():
                return one(machine, group, at, value)
            same = machine.part(group, np.flatnonzero(~others))
            one(machine, same, at, value)
            places, values = places[others], values[others]

    return run


def _missing(barrier: Any, at: int, value: int) -> str:
    lacks = [f"{barrier.pending} of {barrier.expected} arrivals"] if barrier.pending else []
    lacks += [f"{barrier.tx} bytes"] if barrier.tx else []
    return (
        f"waits for parity {value & 1} of the mbarrier at {at:#x}, which is in phase {barrier.phase} and lacks "
        + " and ".join(lacks)
    )
