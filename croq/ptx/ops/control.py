"""Control flow. PTX ISA, "Control Flow Instructions"."""

from __future__ import annotations

from typing import Any

from croq.ptx import printing
from croq.ptx.build import Builder, callee
from croq.ptx.faults import PtxFault, unsupported
from croq.ptx.registers import Array
from croq.ptx.registry import End, Form, instruction
from croq.ptx.syntax import Group as Operands
from croq.ptx.syntax import Sym


@instruction("bra", flags="uni", ends=True)
def branch(builder: Builder, form: Form) -> End:
    ins = form.instruction
    to = builder.block_of(form.operands[0])
    if ins.guard is None:

        def jump(machine: Any, group: Any) -> bool:
            group.at = to
            return True

        return jump
    row, negated = builder.row(ins.guard), ins.negated

    def choose(machine: Any, group: Any) -> bool:
        taken = row[group.lanes.sel]
        return bool(machine.divide(group, ~taken if negated else taken, to, group.at + 1))

    return choose


@instruction("brx", flags="idx uni", ends=True)
def indexed(builder: Builder, form: Form) -> End:
    row = builder.source(form.operands[0], "u32")
    blocks = [builder.block_of(Sym(name)) for name in form.instruction.targets]

    def choose(machine: Any, group: Any) -> bool:
        index = row[group.lanes.sel]
        first = int(index[0])
        if first >= len(blocks):
            raise PtxFault("E-7002", f"brx.idx with index {first} of {len(blocks)} targets")
        return bool(machine.divide(group, index == first, blocks[first], group.at))

    return choose


@instruction("ret", flags="uni", ends=True)
def ret(builder: Builder, form: Form) -> End:
    return lambda machine, group: machine.leave(group)


@instruction("exit", ends=True)
def leave(builder: Builder, form: Form) -> End:
    return lambda machine, group: machine.exit(group)


@instruction("trap brkpt", ends=True)
def trap(builder: Builder, form: Form) -> End:
    def run(machine: Any, group: Any) -> bool:
        raise PtxFault("E-7026", f"the program ends itself: `{form.name}`")

    return run


@instruction("nanosleep", types="u32", ends=True)
def nanosleep(builder: Builder, form: Form) -> End:
    def run(machine: Any, group: Any) -> bool:
        """Others go first."""
        group.turn += 1
        group.at += 1
        machine.land_one()
        return False

    return run


# ------------------------------------------------------------------------------------------------------------- calls
def _operands(form: Form) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Names of the results and of the arguments."""
    groups = [o.items for o in form.operands if isinstance(o, Operands)]
    results = groups.pop(0) if isinstance(form.operands[0], Operands) else ()
    return results, groups[0] if groups else ()


Copies = list[tuple[slice, slice]]


def _copies(builder: Builder, pairs: Any) -> Copies:
    found = []
    for (to, size), (start, given) in pairs:
        width = min(size, given)
        found.append((slice(to, to + width), slice(start, start + width)))
    return found


@instruction("call", flags="uni", ends=True)
def call(builder: Builder, form: Form) -> End:
    """Arguments and results are copied between the parameter spaces of the caller and the callee."""
    name = callee(form.instruction)
    function = builder.module.functions.get(name or "")
    if function is None:
        raise unsupported("a call through a pointer", form.instruction.place)
    results, arguments = _operands(form)
    here = builder.function.name
    places = builder.param_places
    given = [places[f"{here}:{a.name}"] for a in arguments]
    taken = [places[f"{here}:{r.name}"] for r in results]
    if not function.defined:
        return printing.external(builder, form, function.name, given, taken)
    takes = [places[f"{function.name}:{p.name}"] for p in function.params]
    gives = [places[f"{function.name}:{r.name}"] for r in function.results]
    into = _copies(builder, zip(takes, given, strict=True))
    back = _copies(builder, zip(taken, gives, strict=True))
    entry, params = builder.code.entries[function.name], builder.params

    def run(machine: Any, group: Any) -> bool:
        _copy(params, into, group.lanes)
        group.calls = (*group.calls, group.at)
        group.at = entry
        return True

    builder.code.returns[builder.current_block] = lambda lanes: _copy(params, back, lanes)
    return run


def _copy(params: Array, copies: Copies, lanes: Any) -> None:
    rows: Any = lanes.index
    for to, start in copies:
        params[rows, to] = params[rows, start]
