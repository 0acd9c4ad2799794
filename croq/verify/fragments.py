"""What runs of register operations do to fragments, and the shared memory that maps over fragments touch."""

from __future__ import annotations

from collections.abc import Iterator

from croq.ir import hw, tile
from croq.ir.core import Op, Value
from croq.ir.objects import Fragment, FragRef, View
from croq.ir.scalar import Call, FragDeclare, LoadElement, StoreElement
from croq.verify.coder import Coder
from croq.verify.sites import Site
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


def flush(coder: Coder, ops: list[Op]) -> None:
    """One step for a run of register operations, and what those among them that touch shared memory need."""
    uses: dict[tuple[Fragment, object], RegisterUse] = {}
    dynamic: list[Value | int | None] = []
    sites: dict[Op, Site] = {}
    for op in ops:
        for kind, ref, inner in touches(op):
            if inner not in sites:
                sites[inner] = coder.site(inner, "registers", within=op)
            key = (ref.frag, ref.slot)
            if key not in uses:
                constant = coder.constant(ref.slot)
                uses[key] = RegisterUse(ref.frag, constant)
                if constant is None:
                    dynamic.append(ref.slot)
            _record(uses[key], kind, sites[inner])
    if uses:
        _touch(coder, list(sites.values())[-1], Registers(list(uses.values())), dynamic)
    _beside(coder, ops)


def _beside(coder: Coder, ops: list[Op]) -> None:
    """What they do beside touching registers."""
    for op in ops:
        if op.collective == "warp" and op.VOCABULARY == "hw":
            _converge(coder, coder.site(op, op.NAME))
        if isinstance(op, MapOp):
            _inner_calls(coder, op)
            for access, view, _ in shared_accesses(op):
                _map_access(coder, op, access, view)


def _touch(coder: Coder, last: Site, registers: Registers, dynamic: list[Value | int | None]) -> None:
    site = Site(last.op, last.number, last.role, "registers", {"registers": registers})
    slots = coder.tuple_of(dynamic)
    coder.do(lambda s, w, m: s.registers(w, m, site, slots(s, w)))


def _converge(coder: Coder, site: Site) -> None:
    coder.do(lambda s, w, m: s.converged(w, m, site))


def called(coder: Coder, op: Call, within: Op | None = None) -> None:
    """What the function may do beside using its arguments."""
    nature = coder.program.device_text.nature(op.callee)
    if nature.kind != "plain":
        site = coder.site(op, "call", within=within, callee=op.callee, nature=nature)
        coder.do(lambda s, w, m: s.call(w, m, site))


def _inner_calls(coder: Coder, op: MapOp) -> None:
    """Maps run their bodies once an element, with whatever lanes have one: a collective there is not followed."""
    for inner in _ops(op):
        if isinstance(inner, Call):
            if coder.program.device_text.nature(inner.callee).kind == "warp":
                coder.unruled(inner, within=op)
            else:
                called(coder, inner, within=op)
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


def _map_access(coder: Coder, op: MapOp, access: LoadElement | StoreElement, view: View) -> None:
    """Each lane touches the elements at the coordinates that its registers hold, or (where indices are computed in the
    body) any element of the view."""
    rows = {v: n for n, v in enumerate(getattr(op, "row_iterators", ()))}
    iterators = {**rows, **{v: n for n, v in enumerate(op.iterators)}}
    inner = _inner(op)
    inside = {*inner, *iterators}
    picks: list[int] | None = None
    if not any(v in inside for v in view.values()) and not any(index in inner for index in access.indices):
        picks = [iterators.get(index, -1) for index in access.indices]
    layout = op.domain.frag.layout
    always = any(access in region.ops for region in op.regions())  # conditions inside a map are not followed
    shape = op.domain.frag.shape if always else None
    write = isinstance(access, StoreElement)
    site = coder.site(access, "element", within=op, view=view, write=write, layout=layout, picks=picks, shape=shape)
    slot, starts = coder.value(view.slot), coder.tuple_of(view.offsets)
    if layout is not None and picks is not None:
        given = coder.tuple_of(0 if index in iterators else index for index in access.indices)
        coder.do(lambda s, w, m: s.mapped(w, m, site, slot(s, w), starts(s, w), given(s, w)))
    elif picks is not None and -1 not in picks:
        site.objects["owner"] = ("map", op.domain.frag.shape, tuple(picks))
        coder.do(lambda s, w, m: s.owned_tile(w, m, site, slot(s, w), starts(s, w)))
    else:
        moving = [o in inside for o in view.offsets]
        site.objects["anywhere"] = any(moving)
        known = coder.tuple_of(0 if moves else o for moves, o in zip(moving, view.offsets, strict=True))
        coder.do(lambda s, w, m: s.somewhere(w, m, site, slot(s, w), known(s, w)))


def _inner(op: MapOp) -> set[Value]:
    """Values that may differ from element to element."""
    same = set(invariant(op))
    return {v for o in _ops(op) if o not in same for v in o.results()}
