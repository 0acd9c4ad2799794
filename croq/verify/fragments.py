"""What runs of register operations do to fragments, and the shared memory that maps over fragments touch."""

from __future__ import annotations

from collections.abc import Iterator

from croq.ir import hw, tile
from croq.ir.core import Op, Value
from croq.ir.objects import Fragment, FragRef, View
from croq.ir.scalar import Call, FragDeclare, LoadElement, StoreElement
from croq.verify.program import Coder, Site
from croq.verify.slicing import invariant, is_shared
from croq.verify.tensor import Registers, RegisterUse

Kind = str  # "read", "write" or "declare"
MapOp = hw.RegMap | tile.FragMap


def touches(op: Op) -> Iterator[tuple[Kind, FragRef, Op]]:
    """Reads before writes, in the order in which an element sees them, with the operation that touches."""
    if isinstance(op, FragDeclare):
        yield "declare", FragRef(op.frag), op
    for effect in op.effects():
        # Nobody knows which of its fragments a function reads: it may be what the function fills.
        unknown = effect.op.OPAQUE and (effect.kind == "read" or effect.op is not op)
        if isinstance(effect.target, FragRef) and not unknown:
            yield effect.kind, effect.target, effect.op


def flush(coder: Coder, ops: list[Op], mask: str) -> None:
    """One call for a run of register operations, and what those among them that touch shared memory need."""
    uses: dict[tuple[Fragment, object], RegisterUse] = {}
    dynamic: list[str] = []
    sites: dict[Op, Site] = {}
    for op in ops:
        for kind, ref, inner in touches(op):
            if inner not in sites:
                coder.site(inner, "registers", within=op)
                sites[inner] = coder.program.sites[-1]
            key = (ref.frag, ref.slot)
            if key not in uses:
                constant = _constant(coder, ref.slot)
                uses[key] = RegisterUse(ref.frag, constant)
                if constant is None:
                    dynamic.append(coder.value(ref.slot))
            _record(uses[key], kind, sites[inner])
    if uses:
        made = coder.program.sites[-1]
        name = coder.name_global("s", Site(made.op, made.number, made.role, "registers", {}))
        coder.globals[name].objects["registers"] = Registers(list(uses.values()))
        extra = f", ({', '.join(dynamic)},)" if dynamic else ""
        coder.line(f"S.registers(W, {mask}, {name}{extra})")
    for op in ops:
        if op.collective == "warp" and op.VOCABULARY == "hw":
            coder.line(f"S.converged(W, {mask}, {coder.site(op, op.NAME)})")
        if isinstance(op, MapOp):
            _inner_calls(coder, op, mask)
            _map_accesses(coder, op, mask)


def called(coder: Coder, op: Call, mask: str, within: Op | None = None) -> None:
    """What the function may do beside using its arguments."""
    nature = coder.program.device_text.nature(op.callee)
    if nature.kind != "plain":
        site = coder.site(op, "call", within=within, callee=op.callee, nature=nature)
        coder.line(f"S.call(W, {mask}, {site})")


def _inner_calls(coder: Coder, op: MapOp, mask: str) -> None:
    """Maps run their bodies once an element, with whatever lanes have one: a collective there is not followed."""
    for inner in _ops(op):
        if isinstance(inner, Call):
            if coder.program.device_text.nature(inner.callee).kind == "warp":
                coder.unruled(inner, within=op)
            else:
                called(coder, inner, mask, within=op)
        elif not inner.ORDINARY:
            coder.unruled(inner, within=op)


def _record(use: RegisterUse, kind: Kind, site: Site) -> None:
    if kind == "declare":
        use.declares = True
        use.reads = use.writes = use.needs_value = None
    elif kind == "read":
        use.reads = use.reads or site
        if use.writes is None:
            use.needs_value = use.needs_value or site
    else:
        use.writes = use.writes or site


def _constant(coder: Coder, slot: Value | int | None) -> int | None:
    if slot is None or isinstance(slot, int):
        return slot or 0
    text = coder.value(slot)
    return int(text) if text.lstrip("-").isdigit() else None


# ------------------------------------------------------------------------------------------------- maps that reach out
def shared_accesses(op: MapOp) -> Iterator[tuple[LoadElement | StoreElement, View, tuple[Value, ...]]]:
    """Accesses of shared memory in the body, with those indices that come from outside it."""
    inner = _inner(op) | set(op.results())
    for access in _ops(op):
        if isinstance(access, LoadElement | StoreElement) and is_shared(access.view):
            outside = tuple(v for v in (*access.view.values(), *access.indices) if v not in inner)
            yield access, access.view, outside


def _ops(op: MapOp) -> list[Op]:
    return [inner for inner in op.walk() if inner is not op]


def _map_accesses(coder: Coder, op: MapOp, mask: str) -> None:
    """Each lane touches the elements at the coordinates that its registers hold, or (where indices are computed in the
    body) any element of the view."""
    rows = {v: n for n, v in enumerate(getattr(op, "row_iterators", ()))}
    iterators = {**rows, **{v: n for n, v in enumerate(op.iterators)}}
    inner = _inner(op)
    for access, view, _ in shared_accesses(op):
        write = isinstance(access, StoreElement)
        offsets_known = not any(v in inner or v in iterators for v in view.values())
        picks: list[int] | None = [] if offsets_known else None
        given = []
        for index in access.indices:
            if picks is None or index in inner:
                picks = None
                break
            picks.append(iterators.get(index, -1))
            given.append("0" if index in iterators else coder.value(index))
        layout = op.domain.frag.layout
        always = any(access in region.ops for region in op.regions())  # conditions inside a map are not followed
        shape = op.domain.frag.shape if always else None
        site = coder.site(access, "element", within=op, view=view, write=write, layout=layout, picks=picks, shape=shape)
        if layout is None and picks is not None and -1 not in picks:
            coder.program.sites[-1].objects["owner"] = ("map", op.domain.frag.shape, tuple(picks))
            starts = coder.tuple_of(view.offsets)
            coder.line(f"S.owned_tile(W, {mask}, {site}, {coder.value(view.slot)}, {starts})")
            continue
        if layout is None or picks is None:
            moving = [isinstance(o, Value) and (o in inner or o in iterators) for o in view.offsets]
            coder.program.sites[-1].objects["anywhere"] = any(moving)
            starts = coder.tuple_of(0 if moves else o for moves, o in zip(moving, view.offsets, strict=True))
            slot = "UNKNOWN" if view.slot in inner or view.slot in iterators else coder.value(view.slot)
            coder.line(f"S.somewhere(W, {mask}, {site}, {slot}, {starts})")
            continue
        place = f"{coder.value(view.slot)}, {coder.tuple_of(view.offsets)}, ({''.join(g + ', ' for g in given)})"
        coder.line(f"S.mapped(W, {mask}, {site}, {place})")


def _inner(op: MapOp) -> set[Value]:
    """Values that may differ from element to element."""
    same = set(invariant(op))
    return {v for o in _ops(op) if o not in same for v in o.results()}
