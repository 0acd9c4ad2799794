"""What the links and collectives of fragments demand of shapes and types (rules F4 to F6 and F11 of `fragments`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from croq.diagnostics import Sink
from croq.ir.core import Op
from croq.ir.objects import Fragment, Kernel
from croq.ir.tile import FragAllReduce, FragCopy, FragMap, FragReduce, FragStore
from croq.source import Span

if TYPE_CHECKING:
    from croq.passes.fragments.layouts import Link


def report(
    sink: Sink,
    code: str,
    span: Span | None,
    message: str,
    *,
    labels: Iterable[tuple[Span | None, str]] = (),
    notes: Iterable[str] = (),
    hint: str | None = None,
) -> None:
    """`sink.error` that leaves out labels without a place."""
    placed = [(place, text) for place, text in labels if place is not None]
    sink.error(code, span, message, labels=placed, notes=notes, hint=hint)


def check_links(links: Sequence[Link], sink: Sink) -> bool:
    """Shapes and types on both sides of each link; names the link and the use that fixed the other side."""
    good = True
    for link in links:
        a, b = link.a.shape, link.b.shape
        if a is None or b is None:
            continue
        fits = a == b if link.kind == "same" else len(b) == 2 and a == b[:1]
        if not fits:
            good = False
            _misfit(link, links, sink)
        elif not isinstance(link.op, FragCopy | FragReduce) or link.a.type == link.b.type:
            continue
        else:
            good = False
            report(
                sink,
                "E-1154",
                link.span,
                f"`{link.a.name}` has type {link.a.type}, `{link.b.name}` has type {link.b.type}",
                labels=[(link.a.span, "declared here"), (link.b.span, "declared here")],
                notes=["copies and reductions do not convert"],
                hint="convert with `apply` and `__to<T>`",
            )
    return good


def _misfit(link: Link, links: Sequence[Link], sink: Sink) -> None:
    a, b = link.a, link.b
    earlier = next((o for o in links if o.a is a and o is not link and o.b.shape != b.shape), None)
    labels = [(a.span, f"`{a.name}` is {_dims(a)}"), (b.span, f"`{b.name}` is {_dims(b)}")]
    if earlier is not None:
        labels.append((earlier.span, f"here it goes with `{earlier.b.name}`, {_dims(earlier.b)}"))
    wanted = f"one value for each row of `{b.name}`" if link.kind == "row" else f"the layout of `{b.name}`"
    report(
        sink,
        link.code,
        link.span,
        f"`{a.name}` of shape {_dims(a)} cannot have {wanted}, which is {_dims(b)}",
        labels=labels,
        hint="use a separate fragment for each shape",
    )


def check_collectives(kernel: Kernel, sink: Sink) -> None:
    """Rules F11 and F12: layouts and threads that reductions and stores need."""
    for op in kernel.walk():
        if isinstance(op, FragAllReduce):
            frag = op.frag.frag
            if frag.layout is not None and frag.layout.kind != "row":
                report(
                    sink,
                    "E-1156",
                    op.span,
                    f"`{frag.name}` is not replicated over the lanes of a row",
                    labels=[(frag.span, f"{_dims(frag)}: {frag.why}")],
                    notes=["only a 1-D fragment that goes with the rows of a 2-D one has partial values to combine"],
                    hint="access it at the row iterator in an `apply` over the 2-D fragment",
                )
            _whole_warps(op, frag, sink)
        elif isinstance(op, FragReduce):
            _whole_warps(op, op.source.frag, sink)
        elif isinstance(op, FragMap):
            shape = op.domain.frag.shape
            if shape is not None and len(shape) != len(op.iterators):
                sink.error("E-1151", op.span, f"{len(op.iterators)} iterators over `{op.domain.frag.name}`")
        elif isinstance(op, FragStore):
            _stored(op, sink)


def _whole_warps(op: Op, frag: Fragment, sink: Sink) -> None:
    if op.threads is not None and not op.threads.whole_warps():
        report(
            sink,
            "E-2111",
            op.span,
            f"the lanes that hold a row of `{frag.name}` do not all run this reduction",
            notes=[f"the threads that run it are {op.threads}; a reduction exchanges values between lanes of a warp"],
            hint="let whole warps run it",
        )


def _stored(op: FragStore, sink: Sink) -> None:
    shape = op.frag.frag.shape
    extents = [extent.known for extent in op.dest.shape]
    if shape is None:
        return
    while len(extents) > len(shape) and 1 in extents:
        extents.remove(1)
    if len(extents) != len(shape) or any(e is not None and e != s for e, s in zip(extents, shape, strict=True)):
        where = ", ".join(str(extent) for extent in op.dest.shape)
        report(
            sink,
            "E-1133",
            op.span,
            f"a fragment of shape {_dims(op.frag.frag)} is stored to a tile of shape [{where}]",
            labels=[(op.frag.frag.span, op.frag.frag.why or "declared here")],
            hint=f"store to a tile of shape {_dims(op.frag.frag)}",
        )


def _dims(frag: Fragment) -> str:
    return f"[{', '.join(map(str, frag.shape or ()))}]"
