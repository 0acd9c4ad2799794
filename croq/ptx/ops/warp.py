"""Threads of a warp that exchange values. PTX ISA, shfl.sync, vote.sync, match.sync, redux.sync, elect.sync."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold
from typing import Any

import numpy as np

from croq.ptx.build import Builder
from croq.ptx.faults import PtxFault
from croq.ptx.lanes import Lanes
from croq.ptx.ops.arithmetic import stepped
from croq.ptx.registers import Array
from croq.ptx.registry import End, Form, Step, instruction
from croq.ptx.syntax import Pair, Sink
from croq.target.cuda import WARP

Work = Callable[[Lanes], None]


def together(builder: Builder, form: Form, mask: Any, work: Work) -> End:
    """`work` once all lanes that each thread's mask names are here."""
    members = builder.source(mask, "b32")

    def run(machine: Any, group: Any) -> bool:
        if not machine.converge_members(group, form.instruction, members):
            return False
        lanes = group.lanes
        own = np.uint32(1) << (lanes.index % WARP).astype(np.uint32)
        if (members[lanes.sel] & own == 0).any():
            raise PtxFault("E-7017", "a thread whose mask does not name it")
        work(lanes)
        group.at += 1
        return True

    return run


def _pair(operand: Any) -> tuple[Any, Any]:
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, Sink())


@instruction("shfl", flags="sync up down bfly idx", ends=True)
def shuffle(builder: Builder, form: Form) -> End:
    target, value, lane, clamp, mask = form.operands
    outs = _pair(target)
    out, valid = builder.target(outs[0], "b32"), builder.target(outs[1], "pred")
    row, by, limits = builder.source(value, "b32"), builder.source(lane, "u32"), builder.source(clamp, "u32")
    members = builder.source(mask, "b32")
    mode = form.one_of("up", "down", "bfly", "idx")

    def work(lanes: Lanes) -> None:
        s = lanes.sel
        own = lanes.index % WARP
        b, c = (by[s] & 31).astype(np.int64), limits[s].astype(np.int64)
        segment = c >> 8 & 31
        low, high = own & segment, (own & segment) | (c & 31 & ~segment)
        source = {"up": own - b, "down": own + b, "bfly": own ^ b, "idx": low | (b & ~segment)}[mode]
        inside = source >= high if mode == "up" else source <= high
        source = np.where(inside, source, own)
        if ((members[s] >> source.astype(np.uint32)) & np.uint32(1) == 0).any():
            raise PtxFault("E-7017", "a shuffle from a lane that the mask does not name")
        threads = lanes.index - own + source
        if threads.max() >= lanes.threads:
            raise PtxFault("E-7017", "a shuffle from a lane that the CTA does not have")
        out[s] = row[threads]
        valid[s] = inside

    return together(builder, form, mask, work)


def _ballots(lanes: Lanes, votes: Array) -> Array:
    """For each thread the votes of its warp as bits."""
    warps = lanes.index // WARP
    bits = np.zeros(int(warps[-1]) + 1, np.uint32)
    np.bitwise_or.at(bits, warps, votes.astype(np.uint32) << (lanes.index % WARP).astype(np.uint32))
    return bits[warps]


@instruction("vote", flags="sync all any uni ballot", ends=True)
def vote(builder: Builder, form: Form) -> End:
    target, operand, mask = form.operands
    mode = form.one_of("all", "any", "uni", "ballot")
    out = builder.target(target, "b32" if mode == "ballot" else "pred")
    row, negated = builder.predicate(operand)
    members = builder.source(mask, "b32")

    def work(lanes: Lanes) -> None:
        s = lanes.sel
        named = members[s] & _ballots(lanes, np.ones(lanes.count, bool))
        found = _ballots(lanes, row[s] ^ negated) & named
        results = {"all": found == named, "any": found != 0, "uni": (found == named) | (found == 0), "ballot": found}
        out[s] = results[mode]

    return together(builder, form, mask, work)


def _partners(lanes: Lanes, members: Array) -> Any:
    """Positions of threads of one warp with one mask."""
    keys = (lanes.index // WARP).astype(np.uint64) << np.uint64(32) | members
    for key in np.unique(keys):
        yield np.flatnonzero(keys == key)


_REDUCTIONS: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


@instruction("redux", flags="sync add min max and or xor", types="u32 s32 b32", ends=True)
def redux(builder: Builder, form: Form) -> End:
    target, value, mask = form.operands
    out, row = builder.target(target, form.type), builder.source(value, form.type)
    members = builder.source(mask, "b32")
    function = _REDUCTIONS[form.one_of(*_REDUCTIONS)]

    def work(lanes: Lanes) -> None:
        for positions in _partners(lanes, members[lanes.sel]):
            threads = lanes.index[positions]
            out[threads] = fold(function, [row[t : t + 1] for t in threads])

    return together(builder, form, mask, work)


@instruction("match", flags="sync any all", ends=True)
def match(builder: Builder, form: Form) -> End:
    target, value, mask = form.operands
    outs = _pair(target)
    out, agree = builder.target(outs[0], "b32"), builder.target(outs[1], "pred")
    row, members = builder.source(value, form.type), builder.source(mask, "b32")
    every = "all" in form.flags

    def work(lanes: Lanes) -> None:
        for positions in _partners(lanes, members[lanes.sel]):
            threads = lanes.index[positions]
            values = row[threads]
            bits = np.uint32(1) << (threads % WARP).astype(np.uint32)
            same = values[:, None] == values[None, :]
            found = np.where(same, bits[None, :], np.uint32(0)).sum(1).astype(np.uint32)
            if every:
                agree[threads] = same.all()
                found = found if same.all() else np.zeros_like(found)
            out[threads] = found

    return together(builder, form, mask, work)


@instruction("elect", flags="sync", ends=True)
def elect(builder: Builder, form: Form) -> End:
    """The lowest lane of the mask."""
    target, mask = form.operands
    outs = _pair(target)
    out, chosen = builder.target(outs[0], "b32"), builder.target(outs[1], "pred")
    members = builder.source(mask, "b32")

    def work(lanes: Lanes) -> None:
        named = members[lanes.sel] & _ballots(lanes, np.ones(lanes.count, bool))
        lowest = named & (~named + np.uint32(1))
        leader = np.bitwise_count(lowest - np.uint32(1))
        out[lanes.sel] = leader
        chosen[lanes.sel] = leader == lanes.index % WARP

    return together(builder, form, mask, work)


@instruction("activemask")
def activemask(builder: Builder, form: Form) -> Step:
    out = builder.target(form.operands[0], "b32")

    def step(lanes: Lanes) -> None:
        out[lanes.sel] = _ballots(lanes, np.ones(lanes.count, bool))

    return step


@instruction("mapa", flags="shared::cluster shared", types="u32 u64")
def mapa(builder: Builder, form: Form) -> Step:
    """The only CTA of its cluster is rank 0."""
    target, address, rank = form.operands
    ranks = builder.source(rank, "u32")

    def same(a: Array, r: Array) -> Array:
        if r.any():
            raise PtxFault("E-7002", f"mapa to rank {int(r.max())} of a cluster of one CTA")
        return a

    return stepped(builder.target(target, form.type), same, builder.source(address, form.type), ranks)
