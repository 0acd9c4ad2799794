"""Layout inference of pass `fragments`: rules F1 to F7 (croq/passes/fragments/__init__.py).

Uses of fragments are turned into seeds (an MMA fixes a fragment) and links (two fragments live alike, or one holds a
value for each row of the other). Links join fragments into families; a family is laid out over quads of lanes
(accumulator and row layouts) or evenly over the unit, as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from croq.diagnostics import Sink
from croq.ir.core import Op, Value
from croq.ir.objects import Fragment, FragRef, Kernel, View
from croq.ir.rewrite import parent_map
from croq.ir.scalar import FragRead, FragWrite
from croq.ir.tile import FragCopy, FragMap, FragReduce, Mma
from croq.ir.types import BYTES
from croq.passes.fragments.checks import check_collectives, check_links, report
from croq.passes.fragments.units import Unit, described, unit_of
from croq.source import Span
from croq.target.base import Product
from croq.target.fragments import ROWS, AccumulatorLayout, RowLayout, UniformLayout


@dataclass(frozen=True)
class Seed:
    """An MMA's demand on a fragment."""

    frag: Fragment
    shape: tuple[int, int]
    span: Span | None
    text: str


@dataclass(frozen=True)
class Link:
    """`same`: both fragments have one layout. `row`: `a` holds one value for each row of `b`."""

    kind: Literal["same", "row"]
    a: Fragment
    b: Fragment
    op: Op
    code: str  # of the error when the shapes do not allow it

    @property
    def span(self) -> Span | None:
        return self.op.span

    @property
    def text(self) -> str:
        where = f" at line {self.span.line}" if self.span is not None else ""
        if isinstance(self.op, FragCopy):
            return f"copied to or from `{{}}`{where} (fragments.F4)"
        if isinstance(self.op, FragReduce):
            return f"reduced to or from `{{}}`{where} (fragments.F6)"
        return f"accessed with `{{}}` in the `apply`{where} (fragments.{'F6' if self.kind == 'row' else 'F5'})"


def infer(kernel: Kernel, sink: Sink) -> bool:
    """Fill in type, shape, layout and the reason of every fragment; False when the sink got an error."""
    before = len(sink.diagnostics)
    inference = _Inference(kernel, sink)
    inference.run()
    return not any(d.severity == "error" for d in sink.diagnostics[before:])


class _Inference:
    def __init__(self, kernel: Kernel, sink: Sink) -> None:
        self.kernel = kernel
        self.sink = sink
        self.seeds: list[Seed] = []
        self.links: list[Link] = []
        self.units: dict[Fragment, list[tuple[Unit, Op]]] = {}
        self.inside: set[Op] = set()  # element accesses inside a map
        self.parents = parent_map(kernel)

    def run(self) -> None:
        for op in self.kernel.walk():
            self._collect(op)
        self._shapes()
        if self.sink.failed or not check_links(self.links, self.sink):
            return
        for family in self._families():
            self._lay_out(family)
        check_collectives(self.kernel, self.sink)

    # ---------------------------------------------------------------------------------------------------- collection
    def _collect(self, op: Op) -> None:
        for frag in _used(op):
            self.units.setdefault(frag, []).append((unit_of(op, self.parents), op))
        if isinstance(op, Mma):
            self._mma(op)
        elif isinstance(op, FragCopy):
            self._link("same", op.dest.frag, op.source.frag, op, "E-1154")
        elif isinstance(op, FragReduce):
            self._link("row", op.dest.frag, op.source.frag, op, "E-1155")
        elif isinstance(op, FragMap):
            for inner in op.body.walk():
                if isinstance(inner, FragRead | FragWrite):
                    self.inside.add(inner)
                    self._access(op, inner)
        elif isinstance(op, FragRead | FragWrite) and op not in self.inside:
            report(
                self.sink,
                "E-1152",
                op.span,
                f"an element of `{op.frag.frag.name}` is accessed outside `apply`",
                notes=["each element lives in one thread's registers; only `apply` runs code where the element is"],
                hint=f"write `apply {{i}} in {op.frag.frag.name}.span ...`",
            )

    def _link(self, kind: Literal["same", "row"], a: Fragment, b: Fragment, op: Op, code: str) -> None:
        if a is not b:
            self.links.append(Link(kind, a, b, op, code))

    def _access(self, op: FragMap, access: FragRead | FragWrite) -> None:
        frag, domain = access.frag.frag, op.domain.frag
        indices, iterators = access.indices, op.iterators
        if _alike(indices, iterators):
            if frag is not domain:
                self.links.append(Link("same", frag, domain, _at(op, access), "E-1152"))
        elif len(iterators) == 2 and _alike(indices, iterators[:1]):
            self.links.append(Link("row", frag, domain, _at(op, access), "E-1152"))
        else:
            self._foreign(op, access)

    def _foreign(self, op: FragMap, access: FragRead | FragWrite) -> None:
        """Rule F5: an access at anything but the iterators would reach into another thread's registers."""
        frag, iterators = access.frag.frag, op.iterators
        names = [value.name or "_" for value in iterators]
        note = f"`apply` over `{op.domain.frag.name}` runs each element in the thread that owns it; another element's"
        if len(iterators) == 2 and _alike(access.indices, iterators[1:]):
            note = "the elements of a row are in different threads and every thread would need its columns' values:"
            note += " only one value a row is held so"
        elif len(iterators) == 2 and _alike(access.indices, iterators[::-1]):
            note = "a transposed access reaches into other threads' registers"
        else:
            note += " value may be in another thread's registers"
        report(
            self.sink,
            "E-1152",
            access.span,
            f"`{frag.name}` is not accessed at the iterators of its `apply`",
            labels=[(op.span, f"iterates over `{op.domain.frag.name}` here")],
            notes=[note],
            hint=f"access it at ({', '.join(names)})"
            + (f" or, when it has one value a row, at ({names[0]})" if len(names) == 2 else "")
            + ", or go through shared data",
        )

    # ----------------------------------------------------------------------------------------------------------- MMA
    def _mma(self, op: Mma) -> None:
        """Rules F1 and F2."""
        acc = op.acc.frag
        a_shape = op.a.static_shape if isinstance(op.a, View) else op.a.frag.shape
        b_shape = op.b.static_shape
        if a_shape is None or b_shape is None or len(a_shape) != 2 or len(b_shape) != 2:
            self.sink.error("E-1112", op.span, "an MMA operand has no constant two-dimensional shape")
            return
        m = a_shape[0] if op.a_layout == "row" else a_shape[1]
        n = b_shape[0] if op.b_layout == "row" else b_shape[1]
        k = a_shape[1] if op.a_layout == "row" else a_shape[0]
        in_registers = isinstance(op.a, FragRef)
        a_type = op.a.frag.type or "" if isinstance(op.a, FragRef) else op.a.root.type
        acc.type = acc.type or "f32"
        transposed = op.a_layout == "col", op.b_layout == "col"
        product = Product(m, n, k, a_type, op.b.root.type, acc.type, in_registers, *transposed)
        wrong = next(self.kernel.target.tensor_core.faults(product), None)
        if wrong is not None:
            notes = [wrong.note] if wrong.note else []
            self.sink.error(wrong.code, op.span, wrong.message, notes=notes, hint=wrong.hint)
            return
        if isinstance(op.a, FragRef):
            self._seed(Seed(op.a.frag, (m, k), op.span, f"register operand of the MMA{_line(op.span)} (fragments.F2)"))
        self._seed(Seed(acc, (m, n), op.span, f"accumulates the MMA{_line(op.span)} (fragments.F1)"))

    def _seed(self, seed: Seed) -> None:
        frag = seed.frag
        if frag.shape is None:
            frag.shape = seed.shape
        elif frag.shape != seed.shape:
            earlier = next((s for s in self.seeds if s.frag is frag), None)
            place = (earlier.span, "an MMA fixes it here") if earlier else (frag.span, "declared here")
            report(
                self.sink,
                "E-1111",
                seed.span,
                f"the MMA needs `{frag.name}` to be {_dims(seed.shape)}, but it is {_dims(frag.shape)}",
                labels=[place],
                hint="use one fragment for each tile shape",
            )
            return
        self.seeds.append(seed)

    # -------------------------------------------------------------------------------------------------------- shapes
    def _shapes(self) -> None:
        """Shapes and types that the declaration leaves open come over `same` links, else from nowhere."""
        changed = True
        while changed:
            changed = False
            for link in (link for link in self.links if link.kind == "same"):
                for to, source in ((link.a, link.b), (link.b, link.a)):
                    if to.shape is None and source.shape is not None:
                        to.shape, changed = source.shape, True
                    if to.type is None and source.type is not None:
                        to.type, changed = source.type, True
        for frag in self.kernel.fragments:
            if frag.shape is None and frag in self.units and not self.sink.failed:
                self.sink.error(
                    "E-1117",
                    frag.span,
                    f"no MMA accumulates into `{frag.name}`, so it has no shape",
                    notes=["the shape of what `mma.fill` creates comes from the MMA that uses it"],
                    hint=f"declare it with its shape: `frag f32 [M, N] {frag.name}`",
                )
            frag.type = frag.type or "f32"

    # ------------------------------------------------------------------------------------------------------ families
    def _families(self) -> Iterator[list[Fragment]]:
        """Fragments joined by links, each family and each member in order of declaration."""
        leader = {frag: frag for frag in self.kernel.fragments}

        def find(frag: Fragment) -> Fragment:
            while leader[frag] is not frag:
                leader[frag] = frag = leader[leader[frag]]
            return frag

        for link in self.links:
            leader[find(link.a)] = find(link.b)
        groups: dict[Fragment, list[Fragment]] = {}
        for frag in self.kernel.fragments:
            if frag.shape is not None:
                groups.setdefault(find(frag), []).append(frag)
        yield from groups.values()

    def _lay_out(self, family: list[Fragment]) -> None:
        members = set(family)
        seeds = [seed for seed in self.seeds if seed.frag in members]
        links = [link for link in self.links if link.a in members]
        rows = next((link for link in links if link.kind == "row"), None)
        if seeds or rows is not None:
            if not seeds and rows is not None and not self._rows_possible(rows, family):
                return
            for frag in family:
                self._quad(frag, links)
            self._explain(family, seeds, links)
        else:
            for frag in family:
                self._uniform(frag, family[0])

    def _rows_possible(self, rows: Link, family: list[Fragment]) -> bool:
        """Rule F7 without an MMA: whether the family's unit is a warpgroup."""
        for frag in family:
            for unit, op in self.units.get(frag, []):
                if not unit.warpgroup:
                    report(
                        self.sink,
                        "E-1156" if isinstance(rows.op, FragReduce) else "E-1152",
                        rows.span,
                        f"the rows of `{rows.b.name}` are in no thread's reach",
                        labels=[(op.span, f"`{frag.name}` is spread over {described(unit)} here")],
                        notes=["rows are held together only in a whole warpgroup of 128 threads"],
                        hint="put the fragment inside a `: group-4` level",
                    )
                    return False
        return True

    def _quad(self, frag: Fragment, links: list[Link]) -> None:
        shape = frag.shape
        assert shape is not None
        fault = None
        if len(shape) > 2:
            fault = "it has more than two dimensions"
        elif shape[0] % ROWS:
            fault = f"{shape[0]} rows are not a multiple of {ROWS}"
        elif len(shape) == 2 and shape[1] % 8:
            fault = f"{shape[1]} columns are not a multiple of 8"
        if fault is not None:
            link = next((link for link in links if frag in (link.a, link.b)), None)
            report(
                self.sink,
                "E-1152",
                frag.span,
                f"`{frag.name}` of shape {_dims(shape)} cannot have the layout of an accumulator: {fault}",
                labels=[(link.span, "this use needs it")] if link is not None else [],
                hint="pad the tile",
            )
        elif len(shape) == 2:
            frag.layout = AccumulatorLayout(shape[0], shape[1])
            frag.packed = BYTES[frag.type or "f32"] == 2  # F3
        else:
            frag.layout = RowLayout(shape[0])

    def _explain(self, family: list[Fragment], seeds: list[Seed], links: list[Link]) -> None:
        """Each member's reason: the seed, or the link over which the layout came."""
        for seed in seeds:
            seed.frag.why = seed.frag.why or seed.text
        queue = [seed.frag for seed in seeds]
        if not seeds:
            matrix = next(link.b for link in links if link.kind == "row")
            matrix.why = "no MMA uses it, but its rows are needed (fragments.F7)"
            queue = [matrix]
        reached = set(queue)
        for frag in queue:
            for link in links:
                if frag in (link.a, link.b):
                    other = link.b if link.a is frag else link.a
                    if other not in reached:
                        reached.add(other)
                        queue.append(other)
                        other.why = link.text.format(frag.name)

    # --------------------------------------------------------------------------------------------------------- units
    def _uniform(self, frag: Fragment, first: Fragment) -> None:
        """Rule F7: over the threads of the unit, which must be the same wherever the family is used."""
        uses = self.units.get(frag, []) or self.units.get(first, [])
        if not uses:
            return
        unit, op = self.units.get(first, uses)[0]
        if unit.count is None:
            report(
                self.sink,
                "E-2101",
                frag.span or op.span,
                f"the threads that hold `{frag.name}` are not known",
                labels=[(op.span, "used here by threads that are not one range in each unit")],
                hint="declare it where whole warps or a constant range of threads run",
            )
            return
        for other, use in uses:
            if other.count != unit.count:
                report(
                    self.sink,
                    "E-1152",
                    use.span,
                    f"`{frag.name}` is spread over {unit.count} threads, but {described(other)} run this",
                    labels=[(op.span, f"{unit.count} threads run this")],
                    notes=["elements of the threads that do not run it would be left out"],
                    hint="use a fragment only where all its threads run",
                )
                return
        assert frag.shape is not None
        frag.layout = UniformLayout(frag.shape, unit.count)
        frag.why = f"no MMA is linked to it: spread evenly over the {unit.count} threads of its unit (fragments.F7)"


def _used(op: Op) -> Iterator[Fragment]:
    """The fragments that an operation on whole ones declares, reads, writes or maps."""
    for item in vars(op).values() if op.REGISTERS else ():
        if isinstance(item, Fragment | FragRef):
            yield item.frag if isinstance(item, FragRef) else item


def _alike(a: tuple[Value, ...], b: tuple[Value, ...]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _at(op: FragMap, access: FragRead | FragWrite) -> Op:
    """What a diagnostic about the access points at."""
    return access if access.span is not None else op


def _line(span: Span | None) -> str:
    return f" at line {span.line}" if span is not None else ""


def _dims(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"
