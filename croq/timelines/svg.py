"""Timelines as one self-contained SVG picture: rows of boxes over an axis of modelled cycles.

The rows of a warpgroup and of its MMAs stand together, so that what runs under what is seen vertically. Colours are the
Okabe-Ito palette, which colour-blind people tell apart; waits are hatched. Hovering shows the statement and its times.
The picture has a light card of its own, and is readable on light and dark pages alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from croq.timelines.timeline import MODEL, Span, Timeline, Track

WIDTH = 1200
LEFT, RIGHT = 176, 20  # of the axis, px from the edges
CHARACTER = 5.3  # px of the labels' font
NAME = 28  # characters of a row's name
HEIGHTS = {"warps": 26, "mma": 20, "load": 10, "store": 10}
HEAD = 92  # px above the first row: title, legend, axis

FILLS = {
    "work": ("#E69F00", "#1f2328", "register work"),
    "math": ("#D55E00", "#ffffff", "register work with exp2, division, roots"),
    "copy": ("#009E73", "#ffffff", "copy or access by threads"),
    "load": ("#009E73", "#ffffff", "TMA load"),
    "store": ("#CC79A7", "#1f2328", "TMA store"),
    "issue": ("#dcebfa", "#1f2328", "issuing an MMA"),
    "wait": ("url(#wait)", "#57606a", "waiting"),
    "sync": ("#6e7781", "#ffffff", "barriers, fences"),
}
MMA_FILLS = (("#0072B2", "#ffffff"), ("#56B4E9", "#1f2328"), ("#003f66", "#ffffff"), ("#a6d8f5", "#1f2328"))
STYLE = """
text { font: 10px -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2328; }
.title { font-size: 14px; font-weight: 600; } .note { fill: #57606a; } .model { fill: #a40e26; font-weight: 600; }
.small { font-size: 9px; } .in { font-size: 9px; pointer-events: none; }
.grid { stroke: #d8dee4; stroke-width: 1; } .row { fill: #f6f8fa; } .step { stroke: #8c959f; stroke-width: 1; }
"""


def to_svg(timelines: Sequence[Timeline], *, until: float | None = None) -> str:
    """The picture, a panel a launch. `until`: cycles on the axis; the longest of them when left out."""
    length = until if until is not None else max([1.0, *(t.cycles for t in timelines)])
    parts: list[str] = []
    top = 0.0
    for shown in timelines:
        panel = _Panel(shown, length, top)
        parts += panel.draw()
        top = panel.bottom + 14
    height = max(60.0, top)
    title = f"timelines of {', '.join(t.kernel for t in timelines)}: {MODEL}"
    card = f'<rect width="{WIDTH}" height="{_n(height)}" rx="8" fill="#ffffff" stroke="#d0d7de"/>'
    hatch = (
        '<defs><pattern id="wait" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="5" height="5" fill="#eef0f2"/><rect width="1.2" height="5" fill="#c3c9d0"/></pattern></defs>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {_n(height)}" width="{WIDTH}" '
        f'height="{_n(height)}" role="img" aria-label="{escape(title)}">'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", hatch, card, *parts, "</svg>", ""])


class _Panel:
    """One timeline: where its rows are, and how they are drawn."""

    def __init__(self, shown: Timeline, length: float, top: float) -> None:
        self.shown, self.length, self.top = shown, length, top
        self.scale = (WIDTH - LEFT - RIGHT) / length
        names = [s.details["accumulator"] for t in shown.tracks if t.group == "mma" for s in t.spans]
        self.accumulators = {name: MMA_FILLS[i % len(MMA_FILLS)] for i, name in enumerate(dict.fromkeys(names))}
        self.legend = self._legend()
        self.first = top + HEAD + 16 * (max((row for *_, row in self.legend), default=0))
        self.rows: list[tuple[float, Track]] = []
        y = self.first
        for before, track in _with_previous(_ordered(shown)):
            y += _gap(before, track)
            self.rows.append((y, track))
            y += HEIGHTS[track.group]
        self.busy_row = y + 14 if shown.busy else None
        self.bottom = y + (14 + 10 if shown.busy else 0) + 8

    def draw(self) -> list[str]:
        parts = [*self._head(), *self._axis()]
        for y, track in self.rows:
            parts += self._row(y, track)
        if self.busy_row is not None:
            parts += self._busy(self.busy_row)
        return parts

    def x(self, cycle: float) -> float:
        return LEFT + cycle * self.scale

    # ------------------------------------------------------------------------------------------------------ frame
    def _head(self) -> Iterator[str]:
        t = self.shown
        steps = f"{t.steps} of {t.all_steps} steps, " if t.all_steps else ""
        of = f" of {t.total:,.0f}" if t.total > t.cycles + 1 else ""
        busy = f", tensor cores busy {t.utilisation:.0%}" if t.busy else ""
        beyond = f"; the axis ends at {self.length:,.0f}" if t.cycles > self.length + 1 else ""
        title = escape(f"{t.file}: {t.kernel}, block {t.block}")
        facts = f"{steps}{t.cycles:,.0f}{of} cycles{busy}{beyond}"
        yield f'<text class="title" x="16" y="{_n(self.top + 24)}">{title}</text>'
        yield f'<text class="model" x="16" y="{_n(self.top + 41)}">{MODEL}</text>'
        yield f'<text class="note" x="{LEFT + 30}" y="{_n(self.top + 41)}">{facts}</text>'
        for fill, name, x, row in self.legend:
            y = self.top + 50 + 16 * row
            edge = ' stroke="#0072B2" stroke-width="0.6"' if name == FILLS["issue"][2] else ""
            yield f'<rect x="{_n(x)}" y="{_n(y)}" width="12" height="10" fill="{fill}"{edge}/>'
            yield f'<text class="small note" x="{_n(x + 16)}" y="{_n(y + 9)}">{escape(name)}</text>'

    def _legend(self) -> list[tuple[str, str, float, int]]:
        """Fill, name, x and row of each entry: what the picture has."""
        used = {span.category for track in self.shown.tracks for span in track.spans}
        items = [(fill, f"MMA into {name}") for name, (fill, _) in self.accumulators.items()]
        items += [(fill, name) for category, (fill, _, name) in FILLS.items() if category in used]
        placed, x, row = [], 16.0, 0
        for fill, name in items:
            width = 16 + CHARACTER * len(name) + 16
            if x + width > WIDTH - 16:
                x, row = 16.0, row + 1
            placed.append((fill, name, x, row))
            x += width
        return placed

    def _axis(self) -> Iterator[str]:
        step = _nice(self.length / 10)
        y = self.first - 8
        yield f'<text class="small note" x="{LEFT - 8}" y="{_n(y)}" text-anchor="end">cycles</text>'
        for index in range(int(self.length / step) + 1):
            x = self.x(index * step)
            yield f'<line class="grid" x1="{_n(x)}" x2="{_n(x)}" y1="{_n(y + 4)}" y2="{_n(self.bottom)}"/>'
            if x < WIDTH - 30:
                at = f'x="{_n(x)}" y="{_n(y)}" text-anchor="middle"'
                yield f'<text class="small note" {at}>{index * step:,.0f}</text>'

    # ------------------------------------------------------------------------------------------------------- rows
    def _row(self, y: float, track: Track) -> Iterator[str]:
        height = HEIGHTS[track.group]
        yield f'<rect class="row" x="{LEFT}" y="{_n(y)}" width="{WIDTH - LEFT - RIGHT}" height="{height}"/>'
        name = _row_name(track)
        if name:
            size = "" if track.group == "warps" else ' class="small note"'
            yield f'<text{size} x="{LEFT - 8}" y="{_n(y + height / 2 + 3.5)}" text-anchor="end">{escape(name)}</text>'
        shown = [span for span in track.spans if span.start < self.length]
        for span in shown:
            yield self._box(span, y, height)
        for span in shown:
            yield from self._label(span, y, height)
        if track.group == "warps":
            yield from self._steps(shown, y)

    def _box(self, span: Span, y: float, height: float) -> str:
        x = self.x(span.start)
        width = max(0.6, self.x(min(span.end, self.length)) - x)
        fill, _ = self._colours(span)
        edge = ' stroke="#0072B2" stroke-width="0.6"' if span.category == "issue" else ""
        if span.category in ("work", "math", "mma", "load", "copy", "store"):
            edge = ' stroke="#ffffff" stroke-width="0.5"'
        return (
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" fill="{fill}"{edge}>'
            f"<title>{escape(_tooltip(span))}</title></rect>"
        )

    def _label(self, span: Span, y: float, height: float) -> Iterator[str]:
        width = (min(span.end, self.length) - span.start) * self.scale
        choices = [span.label, str(span.details.get("accumulator", ""))]
        text = next((c for c in choices if c and len(c) * (CHARACTER - 0.4) + 2 <= width), None)
        if text is None or height < 12:
            return
        _, ink = self._colours(span)
        x = self.x(span.start) + width / 2
        place = f'x="{_n(x)}" y="{_n(y + height / 2 + 3.2)}" text-anchor="middle"'
        yield f'<text class="in" {place} style="fill:{ink}">{escape(text)}</text>'

    def _steps(self, spans: Sequence[Span], y: float) -> Iterator[str]:
        """A number above the first span of each inner iteration, where there is room."""
        seen, last = 0, -100.0
        for span in spans:
            number = int(span.details.get("step", 0))
            if number <= seen:
                continue
            seen, x = number, self.x(span.start)
            yield f'<line class="step" x1="{_n(x)}" x2="{_n(x)}" y1="{_n(y - 4)}" y2="{_n(y)}"/>'
            if x - last > 40:
                yield f'<text class="small note" x="{_n(x + 2)}" y="{_n(y - 2)}">step {number}</text>'
                last = x

    def _busy(self, y: float) -> Iterator[str]:
        yield f'<text class="small note" x="{LEFT - 8}" y="{_n(y + 8.5)}" text-anchor="end">tensor cores busy</text>'
        yield f'<rect class="row" x="{LEFT}" y="{_n(y)}" width="{WIDTH - LEFT - RIGHT}" height="10"/>'
        for start, end in self.shown.busy:
            if start < self.length:
                x = self.x(start)
                width = max(0.6, self.x(min(end, self.length)) - x)
                yield (
                    f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="10" fill="#1f2328">'
                    f"<title>{start:,.0f} to {end:,.0f}: {end - start:,.0f} cycles</title></rect>"
                )

    def _colours(self, span: Span) -> tuple[str, str]:
        if span.category == "mma":
            return self.accumulators[span.details["accumulator"]]
        fill, ink, _ = FILLS[span.category]
        return fill, ink


# ------------------------------------------------------------------------------------------------------------- helpers
def _ordered(shown: Timeline) -> list[Track]:
    """Roles in the order of their warps, each warpgroup's MMAs behind it; loads behind those who issue most of them."""
    mmas = {track.warps[0] // 4: track for track in shown.tracks if track.group == "mma"}
    loads = [track for track in shown.tracks if track.group == "load"]
    ordered: list[Track] = []
    warps = [track for track in shown.tracks if track.group == "warps"]
    issuer = max(warps, key=lambda t: sum(s.category == "load" for s in t.spans), default=None) if loads else None
    for index, track in enumerate(warps):
        ordered.append(track)
        group = track.warps[0] // 4
        last = index + 1 == len(warps) or warps[index + 1].warps[0] // 4 != group
        if last and group in mmas:
            ordered.append(mmas[group])
        if last and issuer is not None and issuer.warps[0] // 4 == group:
            ordered += loads
    return [*ordered, *(track for track in shown.tracks if track.group == "store")]


def _with_previous(tracks: Sequence[Track]) -> Iterator[tuple[Track | None, Track]]:
    before: Track | None = None
    for track in tracks:
        yield before, track
        before = track


def _gap(before: Track | None, track: Track) -> float:
    if track.group == "warps":
        return 16  # room for the numbers of steps
    if before is not None and before.group == track.group:
        return 1
    return 2 if track.group == "mma" else 8


def _row_name(track: Track) -> str:
    """Its name, a long role cut; of several rows of the copy engine only the first is named."""
    if track.group in ("load", "store") and track.name[-1].isdigit():
        return ""
    role, colon, warps = track.name.rpartition(": ")
    room = NAME - len(warps)
    return track.name if len(role) <= room else f"{role[: room - 1]}…{colon}{warps}"


def _tooltip(span: Span) -> str:
    lines = [f"{span.label}: {span.start:,.0f} to {span.end:,.0f}, {span.cycles:,.0f} cycles"]
    if span.line:
        lines.append(f"line {span.line}: {span.text}")
    if "generation" in span.details:
        number = int(span.details["generation"])
        lines.append(f"{span.details['event']}, generation {number if number >= 0 else 'before the first'}")
    for key, what in (("issued", "issued at"), ("completes", "complete at")):
        if span.details.get(key) is not None:
            lines.append(f"{what} {span.details[key]:,.0f}")
    if "bytes" in span.details:
        lines.append(f"{span.details['bytes']:,} bytes")
    return "\n".join(lines)


def _nice(size: float) -> float:
    """The next larger of 1, 2, 5, 10, ..."""
    unit = 1.0
    while unit * 10 <= size:
        unit *= 10
    return next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= size)


def _n(value: float) -> str:
    """A coordinate: one decimal, none where it is zero."""
    return f"{value:.1f}".removesuffix(".0")
