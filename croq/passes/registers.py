"""Register budgets of the warpgroups.

Rules (PTX ISA, "setmaxnreg"; CUDA C++ programming guide, launch bounds; hopper.md 3.4)
    R1  A request is a multiple of 8 in 24 .. 256 and is executed by whole warpgroups; `inc` does not ask for less than
        the warpgroup has, nor `dec` for more (E-1202).
    R2  A CTA gets its registers at launch: for each thread the even share of the register file, rounded down to a
        multiple of 8, or the largest request where that is less (what ptxas makes of a kernel with requests). Requests
        move registers between warpgroups, and wait until they are there; so all warpgroups together have no more than
        at launch: each what its last request says, or its share where it makes none (E-2401).
    R3  ptxas honours requests only with a register cap at entry: a kernel with requests and no `launch_bounds(.., n)`
        is given a minimum of one block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croq.diagnostics import Sink
from croq.ir.core import Block, Op
from croq.ir.hw import Section, SetMaxNReg
from croq.ir.objects import Kernel
from croq.ir.rewrite import rewrite_blocks
from croq.ir.tile import SetReg
from croq.passes.base import Pass
from croq.target.cuda import WARPGROUP


@dataclass(frozen=True)
class Registers(Pass):
    name: ClassVar[str] = "registers"
    needs = ("participants",)
    adds = (SetMaxNReg,)
    leaves_no = (SetReg,)

    def apply(self, kernel: Kernel, sink: Sink) -> None:
        requests: list[tuple[str, SetReg]] = []
        _collect(kernel.body, "", requests)
        for _, op in requests:
            _check(op, kernel.target.register_requests, sink)
        if requests and not sink.failed:
            _check_sum(kernel, requests, sink)
            kernel.min_blocks = kernel.min_blocks or 1  # R3
        rewrite_blocks(kernel.body, _lower)


def _collect(block: Block, role: str, found: list[tuple[str, SetReg]]) -> None:
    for op in block.ops:
        if isinstance(op, SetReg):
            found.append((role, op))
        inner = op.label if isinstance(op, Section) and op.role else role
        for region in op.regions():
            _collect(region, inner, found)


def _check(op: SetReg, allowed: range, sink: Sink) -> None:
    if op.count not in allowed:
        low, high, step = allowed[0], allowed[-1], allowed.step
        sink.error(
            "E-1202",
            op.span,
            f"{op.count} is no register count that can be requested",
            notes=[f"setmaxnreg takes multiples of {step} from {low} to {high}"],
            hint=f"use {max(low, min(high, op.count // step * step))}",
        )
    if op.threads is None or not op.threads.whole_warpgroups():
        sink.error(
            "E-1202",
            op.span,
            "the register request is not executed by whole warpgroups",
            notes=["setmaxnreg must be executed by all warps of a warpgroup (PTX ISA)"],
            hint=f"place it in a block that all {WARPGROUP} threads of a warpgroup run",
        )


def _check_sum(kernel: Kernel, requests: list[tuple[str, SetReg]], sink: Sink) -> None:
    """R2."""
    groups = -(-kernel.threads // WARPGROUP)
    share = min(_share(kernel), max(op.count for _, op in requests))
    wanted = dict.fromkeys(range(groups), share)
    for _, op in requests:
        assert op.threads is not None
        for group in sorted({t // WARPGROUP for t in op.threads}):
            _check_direction(op, group, wanted[group], sink)
            wanted[group] = op.count
    total, most = sum(wanted.values()), groups * share
    if total > most and not sink.failed:
        sink.error(
            "E-2401",
            requests[-1][1].span,
            f"the warpgroups want {total} registers a thread together, the CTA has {most} of them: this would hang",
            notes=[
                f"at launch each of its {groups} warpgroups gets {share}",
                *(f"warpgroup {g} then wants {count}" for g, count in sorted(wanted.items())),
            ],
            hint="lower the largest request",
        )


def _share(kernel: Kernel) -> int:
    """Registers a thread can have at launch."""
    threads = max(kernel.threads, kernel.max_threads or 0) * (kernel.min_blocks or 1)
    allowed = kernel.target.register_requests
    return min(kernel.target.registers // threads // allowed.step * allowed.step, allowed[-1])


def _check_direction(op: SetReg, group: int, now: int, sink: Sink) -> None:
    if now == op.count or (op.count > now) == (op.direction == "inc"):
        return
    more = "more" if op.direction == "dec" else "less"
    sink.error(
        "E-1202",
        op.span,
        f"`setreg_{op.direction}` asks for {op.count} registers, {more} than the {now} that warpgroup {group} has here",
        notes=["setmaxnreg.inc raises the count of a warpgroup, setmaxnreg.dec lowers it (PTX ISA)"],
        hint=f"use `setreg_{'inc' if op.direction == 'dec' else 'dec'}`",
    )


def _lower(op: Op) -> list[Op] | None:
    if isinstance(op, SetReg):
        return [SetMaxNReg(op.direction, op.count, span=op.span, threads=op.threads, rule="registers.R1")]
    return None
