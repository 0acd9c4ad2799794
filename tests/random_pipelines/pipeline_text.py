"""Plans as `.co` text: lines that know what they are for, so that pipeline_breaks.py can damage them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tests.random_pipelines.pipeline_plans import Mma, Plan, Ring, Tile

UNITS = {"none": "bm", "nested": "turn", "tasks": "task", "lists": "task", "strided": "task"}
FIRST_TILE = {
    "none": "",
    "nested": "turn + ",
    "tasks": "starts.at(task) + ",
    "lists": "starts.at(task) + ",
    "strided": "starts.at(task) + ",
}


@dataclass(frozen=True)
class Line:
    """One statement. `kind` and `about` (a ring, an event, an MMA) say what it does. `vital`: somebody waits for the
    release; the generation of the wait is not always the first."""

    text: str
    kind: str = ""
    about: str = ""
    vital: bool = True


@dataclass
class Writer:
    plan: Plan
    lines: list[Line] = field(default_factory=list)

    def put(self, text: str, kind: str = "", about: str = "", *, vital: bool = True) -> None:
        self.lines.append(Line(text, kind, about, vital))

    def close(self, count: int = 1) -> None:
        for _ in range(count):
            self.put("}")


def write(plan: Plan) -> list[Line]:
    out = Writer(plan)
    _header(out)
    for role in plan.role_order:
        if role.startswith("producer"):
            for number in (0, 1) if plan.producers == "warps" else (int(role[-1]),):
                _producer(out, number)
        elif role == "consumer":
            _consumer(out)
        elif role == "relay":
            _relay(out)
        else:
            _storer(out)
    out.close(3)
    return out.lines


def render(lines: Iterable[Line], plan: Plan) -> str:
    """Indented text. Neighbours may become one statement: a release and the count behind it `trigger e.at(o++)`, waits
    for several events `wait e, f`."""
    increment = plan.increment
    merged: list[str] = []
    previous = Line("")
    for line in lines:
        order = line.text.split(" ")[0] if line.kind == "count" else ""
        if increment and order and previous.kind == "release" and previous.text.endswith(f".at({order});"):
            merged[-1] = previous.text.replace(f"({order})", f"({order}++)")
        elif plan.together and line.kind == previous.kind == "wait full" and merged[-1].startswith("wait "):
            merged[-1] = f"{merged[-1][:-1]}, {line.text[5:]}"
        else:
            merged.append(line.text)
        previous = line
    result, depth = [], 0
    for text in merged:
        depth -= text.startswith("}")
        result.append("  " * (0 if text.startswith("#") else depth) + text)
        depth += text.endswith("{")
    return "\n".join(result) + "\n"


# ------------------------------------------------------------------------------------------------------------ header
def _header(out: Writer) -> None:
    plan, e = out.plan, out.plan.element
    params = [
        f"global {e} [MA, K_TILE] q" if plan.stationary else f"global {e} [MA, K] a",
        f"global {e} [K, NB] b" if plan.columns_first else f"global {e} [NB, K] b",
        f"global {plan.out} [MC, NC] c",
    ]
    if plan.outer in ("tasks", "lists", "strided"):
        params += ["global s32 [T] starts", "global s32 [T] lengths"]
    if plan.outer == "lists":
        params.append("global s32 [3] first")
    params += ["int turns"] * (plan.outer == "nested") + ["int steps"] * (plan.trips == "steps")
    blocks = {"none": f"bm by cdiv(MA, {plan.a_rows})", "lists": "g by 2", "strided": "g by 2"}.get(
        plan.outer, "g by 1"
    )
    out.put(f"#define K_TILE {plan.k}")
    out.put(f"__co__ void pipeline({', '.join(params)}) {{")
    out.put(f"parallel {blocks} : block {{")
    for ring in plan.rings:
        for tile in ring.tiles:
            shape = f"K_TILE, {tile.rows}" if plan.columns_first and tile.tensor == "b" else f"{tile.rows}, K_TILE"
            out.put(f"shared {e} [{shape}] {tile.name}_buf[{ring.depth}];", "buffer", ring.name)
        out.put(f"shared event {ring.name}_full[{ring.depth}];", "full event", ring.name)
        out.put(f"shared event {ring.name}_empty[{ring.depth}] = ready;", "empty event", ring.name)
    if plan.stationary:
        out.put(f"shared {e} [{plan.a_rows}, K_TILE] q_tile;")
        out.put("shared event q_full;", "full event", "q")
        out.put("shared event q_empty = ready;", "empty event", "q")
    if plan.epilogue == "own":
        out.put(f"shared {plan.out} [64, {plan.n}] o_tile[{plan.consumers}];")
    elif plan.epilogue != "global":
        out.put(f"shared {plan.out} [{64 * plan.row_tiles}, {plan.n * plan.shares}] o_tile;")
    if plan.epilogue == "storer":
        out.put("shared event o_full;", "full event", "o")
        out.put("shared event o_empty = ready;", "empty event", "o")
    groups = len(plan.role_order) + plan.consumers - 1
    out.put(f"parallel p by {groups} : group-4, t by 128 : thread {{")


def first_group(plan: Plan, role: str) -> int:
    """The first warpgroup of a role."""
    before = plan.role_order[: plan.role_order.index(role)]
    return sum(plan.consumers if other == "consumer" else 1 for other in before)


def _open_role(out: Writer, predicate: str, rings: list[Ring]) -> None:
    out.put(f"inthreads.async ({predicate}) {{")
    if out.plan.order == "shared" and rings:
        out.put("mutable u32 order = 0;", "counter", "")
    elif out.plan.order == "own":
        for ring in rings:
            out.put(f"mutable u32 {ring.name}_order = 0;", "counter", ring.name)


def _open_units(out: Writer) -> None:
    """Loops over units."""
    plan = out.plan
    if plan.outer == "nested":
        out.put("foreach {turn} in [turns] {", "units")
    elif plan.outer == "tasks":
        out.put("foreach {task} in [T] {", "units")
    elif plan.outer == "lists":
        out.put("foreach {index} in [first.at(g + 1) - first.at(g)] {", "units")
        out.put("task = first.at(g) + index;", "units")
    elif plan.outer == "strided":
        out.put("mutable s32 task = g;")
        out.put("while (task < T) {", "units")


def _close_units(out: Writer) -> None:
    if out.plan.outer == "strided":
        out.put("task += 2;")
    out.close(int(out.plan.outer != "none"))


def _slot(out: Writer, ring: Ring) -> str:
    return f"{ring.name}_slot" if out.plan.slots else f"{_order(out.plan, ring)} % {ring.depth}"


def _name_slots(out: Writer, rings: list[Ring]) -> None:
    if out.plan.slots:
        for ring in rings:
            out.put(f"{ring.name}_slot = {_order(out.plan, ring)} % {ring.depth};", "slot", ring.name)


def _order(plan: Plan, ring: Ring) -> str:
    return {"index": "k", "shared": "order"}.get(plan.order, f"{ring.name}_order")


def _counts(out: Writer, rings: list[Ring]) -> None:
    if out.plan.order == "shared" and rings:
        out.put("order = order + 1;", "count", "")
    elif out.plan.order == "own":
        for ring in rings:
            out.put(f"{ring.name}_order = {ring.name}_order + 1;", "count", ring.name)


# --------------------------------------------------------------------------------------------------------- producers
def _producer(out: Writer, number: int) -> None:
    plan = out.plan
    rings = [ring for ring in plan.rings if ring.producer == number and ring.filled_by != "relay"]
    role = f"producer {number}" if plan.producers == "groups" else "producer 0"
    predicate = f"p == {first_group(plan, role)}"
    if plan.producers == "warps":
        predicate += " && t < 32" if number == 0 else " && t >= 32 && t < 64"
    elif not plan.whole_producer:
        predicate += " && t < 32" if plan.seed % 2 else " && t == 0"
    unit = UNITS[plan.outer]
    _open_role(out, predicate, rings)
    _open_units(out)
    if number == 0 and plan.stationary:
        out.put("wait q_empty;", "wait empty", "q")
        out.put(f"q_load = tma.load.async.swiz<{2 * plan.k}> q.subspan({plan.a_rows}, K_TILE).at({unit}, 0) => q_tile;")
        out.put("trigger q_full after q_load;", "trigger full", "q")
    out.put(f"foreach {{k}} in [{plan.trips}] {{", "steps")
    _name_slots(out, rings)
    for ring in rings if plan.seed % 3 else reversed(rings):
        order = _order(plan, ring)
        out.put(f"wait {ring.name}_empty.at({order});", "wait empty", ring.name)
        for tile in ring.tiles:
            out.put(_load(out, ring, tile), "load", ring.name)
        loads = ", ".join(f"{tile.name}_load" for tile in ring.tiles)
        after = f" after {loads}" if ring.filled_by == "tma" else ""
        out.put(f"trigger {ring.name}_full.at({order}){after};", "trigger full", ring.name)
    _counts(out, rings)
    out.close()
    _close_units(out)
    out.close()


def _load(out: Writer, ring: Ring, tile: Tile) -> str:
    plan = out.plan
    row = UNITS[plan.outer] if tile.at == "unit" else tile.at
    column = f"{FIRST_TILE[plan.outer]}k"
    across = plan.columns_first and tile.tensor == "b"
    width = 2 * (min(tile.rows, 64) if across else plan.k)
    swizzle = "" if tile.name == "raw" else f".swiz<{width}>"
    shape, at = (f"K_TILE, {tile.rows}", f"{column}, {row}") if across else (f"{tile.rows}, K_TILE", f"{row}, {column}")
    start = f"{tile.name}_load = tma.load.async" if ring.filled_by == "tma" else "dma.copy"
    return f"{start}{swizzle} {tile.tensor}.subspan({shape}).at({at}) => {tile.name}_buf[{_slot(out, ring)}];"


def _relay(out: Writer) -> None:
    """Rewrites each raw tile of A, element by element."""
    plan = out.plan
    raw, ring = plan.ring("raw"), plan.ring("a")
    rows = ring.tiles[0].rows
    raw_order, order = _order(plan, raw), _order(plan, ring)
    _open_role(out, f"p == {first_group(plan, 'relay')}", [raw, ring])
    _open_units(out)
    out.put(f"foreach {{k}} in [{plan.trips}] {{", "steps")
    out.put(f"wait raw_full.at({raw_order});", "wait full", "raw")
    out.put(f"wait a_empty.at({order});", "wait empty", "a")
    _name_slots(out, [raw, ring])
    out.put(f"foreach {{e}} in [{rows * plan.k // 128}] {{", "use", "raw")
    out.put("row = (e * 128 + t) / K_TILE;")
    out.put("column = (e * 128 + t) % K_TILE;")
    out.put(f"f32 value = __to<f32>(raw_buf[{_slot(out, raw)}].at(row, column));")
    out.put(f"a_buf[{_slot(out, ring)}].at(row, column) = __to<{plan.element}>(value > 0.0f ? value : 0.0f);")
    out.close()
    out.put(f"trigger raw_empty.at({raw_order});", "release", "raw")
    out.put(f"trigger a_full.at({order});", "trigger full", "a")
    _counts(out, [raw, ring])
    out.close()
    _close_units(out)
    out.close()


# --------------------------------------------------------------------------------------------------------- consumers
def _consumer(out: Writer) -> None:
    plan = out.plan
    base = first_group(plan, "consumer")
    alone = plan.consumers == 1
    rings = [ring for ring in plan.rings if ring.name != "raw"]
    _open_role(out, f"p == {base}" if alone else f"p >= {base} && p < {base + plan.consumers}", rings)
    if not alone:
        out.put(f"cid = p - {base};")
    if plan.a == "registers":
        out.put(f"frag {plan.element} [64, K_TILE] weights;")
    _open_units(out)
    for mma in plan.mmas:
        out.put(f"acc{mma.number} = mma.fill.f32 0.0f;")
    if plan.stationary:
        out.put("wait q_full;", "wait full", "q")
    _steps(out, rings)
    if plan.stationary:
        out.put("trigger q_empty;", "release", "q", vital=plan.outer != "none")
    _epilogue(out)
    _close_units(out)
    for ring in rings:
        if ring.late:
            last = plan.trips if plan.order == "index" else _order(plan, ring)
            out.put(f"if ({last} > 0)")
            out.put(f"trigger {ring.name}_empty.at({last} - 1);", "release", ring.name, vital=False)
    out.close()


def _steps(out: Writer, rings: list[Ring]) -> None:
    plan = out.plan
    if not plan.lagging and not plan.peel:
        out.put(f"foreach {{k}} in [{plan.trips}] {{", "steps")
        _step(out, list(plan.mmas), rings)
        out.close()
        return
    first = [mma for mma in plan.mmas if not mma.lag]
    last = [mma for mma in plan.mmas if mma.lag]
    out.put(f"trips = {plan.trips};")
    out.put("if (trips > 0) {")
    before = len(out.lines)
    _step(out, first, [ring for ring in rings if not ring.lag])
    if plan.outer == "none":  # there is no step before the first, and no generation but the first in it
        _idle(out, before, "- 1)")
        for at in range(before, len(out.lines)):
            if out.lines[at].kind == "wait full":
                out.lines[at] = replace(out.lines[at], vital=False)
    out.close()
    out.put("foreach {k} in [trips - 1] {", "steps")
    _step(out, list(plan.mmas), rings)
    out.close()
    if not last:
        return
    out.put("if (trips > 0) {")
    before = len(out.lines)
    _step(out, last, [ring for ring in rings if ring.lag])
    if plan.outer == "none":  # nobody waits for what the last step gives back
        _idle(out, before, "")
    out.close()


def _idle(out: Writer, start: int, text: str) -> None:
    """Releases from line `start` on, those with the text, are waited for by nobody."""
    for at in range(start, len(out.lines)):
        if out.lines[at].kind == "release" and text in out.lines[at].text:
            out.lines[at] = replace(out.lines[at], vital=False)


class _Step:
    """One step of a consumer: waits, MMAs, waits for them, and what is given back when."""

    def __init__(self, out: Writer, mmas: list[Mma], rings: list[Ring]) -> None:
        self.out, self.plan, self.rings = out, out.plan, rings
        order = [*self.plan.issue_order]
        self.mmas = sorted(mmas, key=lambda mma: order.index(mma.number))
        self.waited: set[str] = set()
        self.readers = {r.name: {m.number for m in mmas if r.name in self.plan.reads(m)} for r in rings}
        self.released: set[str] = set()

    def emit(self) -> None:
        _name_slots(self.out, self.rings)
        self.late_releases(top=True)
        if self.plan.together:
            self.wait([ring.name for ring in self.rings])
        if self.plan.a == "registers":
            self.to_registers()
        for mma in self.mmas:
            self.wait([name for name in self.plan.reads(mma) if name not in self.waited])
            self.issue(mma)
        done: set[int] = set()
        for number in self.plan.wait_order:
            if number in {mma.number for mma in self.mmas}:
                done.add(number)
                self.complete(number, done)
        self.release([ring for ring in self.rings if ring.name not in self.released])
        self.late_releases(top=False)
        _counts(self.out, self.rings)

    def wait(self, names: list[str]) -> None:
        rings = [ring for ring in self.rings if ring.name in names]
        self.waited.update(names)
        for ring in rings if self.plan.seed % 2 else reversed(rings):
            self.out.put(f"wait {ring.name}_full.at({_order(self.plan, ring)});", "wait full", ring.name)

    def to_registers(self) -> None:
        ring = self.plan.ring("a")
        self.wait(["a"] if "a" not in self.waited else [])
        row = "cid * 64 + i" if self.plan.split == "rows" and self.plan.consumers > 1 else "i"
        self.out.put("apply {i, j} in weights.span {", "use", "a")
        self.out.put(f"weights.at(i, j) = a_buf[{_slot(self.out, ring)}].at({row}, j);", "use", "a")
        self.out.close()
        if self.plan.release_at_once:
            self.release([ring])

    def issue(self, mma: Mma) -> None:
        plan = self.plan
        ring = plan.ring(mma.b_ring)
        b = f"{mma.b_tile}_buf[{_slot(self.out, ring)}]"
        tile = next(tile for tile in ring.tiles if tile.name == mma.b_tile)
        if tile.rows != plan.n:
            part = str(mma.part * plan.shares) if plan.shares == 1 else f"{mma.part * plan.shares} + cid"
            b += f".subspan({plan.n}, K_TILE).at({part}, 0)"
        kind = "row.col" if plan.columns_first else "row.row"
        start = f"f{mma.number} = mma.{kind}.async" if plan.asynchronous else f"mma.{kind}"
        reads = " ".join(plan.reads(mma))
        self.out.put(f"{start} acc{mma.number}, {self.a_operand()}, {b};", "use", reads)

    def a_operand(self) -> str:
        plan = self.plan
        if plan.a == "registers":
            return "weights"
        if plan.stationary:
            view = "q_tile"
        else:
            ring = plan.ring("ab" if plan.joined else "a")
            view = f"a_buf[{_slot(self.out, ring)}]"
        return view if plan.a_rows == 64 else f"{view}.subspan(64, K_TILE).at(cid, 0)"

    def complete(self, number: int, done: set[int]) -> None:
        if self.plan.asynchronous:
            self.out.put(f"wait f{number};", "future", str(number))
        if self.plan.release_at_once:
            over = [r for r in self.rings if r.name not in self.released and self.readers[r.name] <= done]
            self.release([ring for ring in over if self.readers[ring.name]])
        if number in self.plan.bump:
            self.out.put(f"apply {{i, j}} in acc{number}.span", "bump", str(number))
            self.out.put(f"acc{number}.at(i, j) = acc{number}.at(i, j) + 1.0f;", "bump body", str(number))

    def release(self, rings: list[Ring]) -> None:
        for ring in rings:
            self.released.add(ring.name)
            if not ring.late:
                self.out.put(f"trigger {ring.name}_empty.at({_order(self.plan, ring)});", "release", ring.name)

    def late_releases(self, *, top: bool) -> None:
        for ring in self.rings:
            if ring.late and (ring.depth % 2 == 0) is top:
                order = _order(self.plan, ring)
                self.out.put(f"if ({order} > 0)")
                self.out.put(f"trigger {ring.name}_empty.at({order} - 1);", "release", ring.name)


def _step(out: Writer, mmas: list[Mma], rings: list[Ring]) -> None:
    _Step(out, mmas, rings).emit()


# ---------------------------------------------------------------------------------------------------------- epilogues
def _epilogue(out: Writer) -> None:
    plan = out.plan
    unit = UNITS[plan.outer]
    own_row = plan.row_tiles > 1
    for mma in plan.mmas:
        j = mma.number
        row = f"{unit} * {plan.row_tiles} + cid" if own_row else unit
        column = f"{j * plan.shares} + cid" if plan.shares > 1 else str(j)
        target = f"c.subspan(64, {plan.n}).at({row}, {column})"
        place = f"({'cid' if own_row else 0}, {'cid' if plan.shares > 1 else 0})"
        part = "o_tile" if plan.consumers == 1 else f"o_tile.subspan(64, {plan.n}).at{place}"
        if plan.epilogue == "global":
            out.put(f"mma.store acc{j}, {target};")
        elif plan.epilogue == "own":
            slot = "cid" if plan.consumers > 1 else "0"
            out.put(f"mma.store acc{j}, o_tile[{slot}];")
            out.put(f"tma.copy o_tile[{slot}] => {target};")
        elif plan.epilogue == "joint":
            out.put(f"mma.store acc{j}, {part};")
            out.put(f"tma.copy o_tile => {_whole(plan, j)};")
        else:
            out.put("wait o_empty;", "wait empty", "o")
            out.put(f"mma.store acc{j}, {part};", "load", "o")
            out.put("trigger o_full;", "trigger full", "o")


def _whole(plan: Plan, number: int) -> str:
    return f"c.subspan({64 * plan.row_tiles}, {plan.n * plan.shares}).at({UNITS[plan.outer]}, {number})"


def _storer(out: Writer) -> None:
    plan = out.plan
    _open_role(out, f"p == {first_group(plan, 'storer')}", [])
    _open_units(out)
    for mma in plan.mmas:
        out.put("wait o_full;", "wait full", "o")
        out.put(f"tma.copy o_tile => {_whole(plan, mma.number)};", "use", "o")
        out.put("trigger o_empty;", "release", "o", vital=plan.outer != "none" or mma is not plan.mmas[-1])
    _close_units(out)
    out.close()
