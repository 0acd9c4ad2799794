"""The plan: what the compiler derived for each device kernel, and why.

`plan` makes the promised JSON; `render` the text of `croq plan`. Every number is read from the lowered IR, so that the
plan cannot say anything that the emitted CUDA does not do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for what recalled plans, which are only printed, do not import
    from croq.ir.core import Block, Op
    from croq.ir.objects import Event, Kernel, Wait
    from croq.ir.types import ThreadSet

Object = dict[str, Any]


def plan(kernels: Iterable[Kernel]) -> list[Object]:
    """One object a lowered kernel, keys in the promised order."""
    return [plan_kernel(kernel) for kernel in kernels]


def to_json(plans: Sequence[Object]) -> str:
    """The text of `croq plan --json` and of `NAME.plan.json`: short lists stay on one line."""
    return "[" + ",".join("\n" + _object(item) for item in plans) + ("\n]\n" if plans else "]\n")


def plan_kernel(kernel: Kernel) -> Object:
    """The plan of one lowered kernel. Symbols stay symbols: dimensions are strings such as `cdiv(Q_SEQ, 128)`."""
    return {
        "kernel": kernel.name,
        "threads": kernel.threads,
        "grid": [str(dim) for dim in kernel.grid[: max(1, kernel.grid_rank)]],
        "launch_bounds": _launch_bounds(kernel),
        "shared_bytes": kernel.shared_bytes,
        "shared": [
            {
                "name": buffer.name,
                "offset": buffer.offset,
                "bytes": buffer.slot_stride * buffer.slots,
                "swizzle": buffer.swizzle,
                "slots": buffer.slots,
                "why": buffer.why,
            }
            for buffer in kernel.buffers
            if buffer.storage == "shared"
        ],
        "events": [_event(event) for event in kernel.events],
        "waits": [_wait(wait) for wait in kernel.waits],
        "tensor_maps": [
            {
                "tensor": tensor_map.param.name,
                "box": list(tensor_map.box),
                "swizzle": tensor_map.swizzle,
                "loads_per_tile": tensor_map.loads_per_tile,
                "why": tensor_map.why,
            }
            for tensor_map in kernel.tensor_maps
        ],
        "fragments": [
            {
                "name": fragment.name,
                "dtype": fragment.type,
                "shape": list(fragment.shape or ()),
                "registers": fragment.registers if fragment.layout is not None else None,
                "layout": fragment.layout.kind if fragment.layout is not None else None,
                "why": fragment.why,
            }
            for fragment in kernel.fragments
        ],
        "registers": [{"role": role, "setreg": count} for role, count in _registers(kernel.body, "all threads")],
        "synchronisation": [_order(op) for op in kernel.walk() if op.ORDERS or op.rule],
    }


def _launch_bounds(kernel: Kernel) -> list[int]:
    bounds = [kernel.max_threads or kernel.threads]
    return bounds if kernel.min_blocks is None else [*bounds, kernel.min_blocks]


def _event(event: Event) -> Object:
    head: Object = {"name": event.name, "slots": event.slots, "lowering": event.lowering}
    if event.lowering == "named_barrier":
        head |= {"id": event.barrier_id, "threads": event.barrier_threads}
    else:
        head |= {"arrivals": event.arrivals, "tx_bytes": event.tx_bytes}
    return head | {
        "ready": event.ready,
        "triggers": _ranges(event.triggers),
        "waiters": _ranges(event.waiters),
        "why": event.why,
    }


def _wait(wait: Wait) -> Object:
    line = wait.span.line if wait.span else 0
    return {"line": line, "futures": list(wait.futures), "depth": wait.depth, "why": wait.why}


def _order(op: Op) -> Object:
    """An operation that orders: who executes it, by which rule it is there, for which line."""
    return {
        "op": op.NAME,
        "of": ", ".join(event.name for event in op.events),
        "threads": _ranges(op.threads),
        "rule": op.rule,
        "line": op.span.line if op.span else 0,
    }


def _ranges(threads: ThreadSet | None) -> list[list[int]] | None:
    """None: known only when the kernel runs."""
    return None if threads is None else [list(pair) for pair in threads.ranges]


def _registers(block: Block, role: str) -> Iterator[tuple[str, int]]:
    from croq.ir.hw import Section, SetMaxNReg

    for op in block.ops:
        if isinstance(op, SetMaxNReg):
            yield role, op.count
        inner = op.label if isinstance(op, Section) and op.role else role
        for region in op.regions():
            yield from _registers(region, inner)


# ----------------------------------------------------------------------------------------------------------- JSON text
def _object(item: Object) -> str:
    fields = []
    for key, value in item.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            rows = (json.dumps(row, ensure_ascii=False) for row in value)
            text = "[\n      " + ",\n      ".join(rows) + "\n    ]"
        fields.append(f"    {json.dumps(key)}: {text}")
    return "  {\n" + ",\n".join(fields) + "\n  }"


# ---------------------------------------------------------------------------------------------------------- plain text
def render(plans: Sequence[Object]) -> str:
    """The plan for a reader: a heading and a table for each part that is not empty, reasons under their rows."""
    return "\n\n".join("\n".join(_render_kernel(item)) for item in plans)


def _render_kernel(item: Object) -> list[str]:
    bounds = ", ".join(map(str, item["launch_bounds"]))
    lines = [
        f"kernel {item['kernel']}",
        f"  grid [{', '.join(item['grid'])}], {item['threads']} threads, launch bounds ({bounds}), "
        f"{item['shared_bytes']:,} bytes of shared memory",
    ]
    for title, key, row in (
        ("shared memory", "shared", _shared_row),
        ("events", "events", _event_row),
        ("waits for asynchronous operations", "waits", _wait_row),
        ("tensor maps", "tensor_maps", _map_row),
        ("fragments", "fragments", _fragment_row),
        ("registers", "registers", _register_row),
    ):
        if item[key]:
            lines += ["", f"  {title}"]
            lines += _table([(row(entry), entry.get("why", "")) for entry in item[key]])
    if item["synchronisation"]:
        lines += ["", "  synchronisation (`croq explain RULE` says why)"]
        lines += _table([(cells, "") for cells in _order_rows(item["synchronisation"])])
    return lines


def _table(rows: Sequence[tuple[Sequence[str], str]]) -> list[str]:
    """Aligned columns; the reason of a row on a line of its own below, where it differs from the row above."""
    widths = [max(len(cells[i]) for cells, _ in rows) for i in range(len(rows[0][0]))]
    lines: list[str] = []
    previous = ""
    for cells, why in rows:
        lines.append(("    " + "  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True))).rstrip())
        if why and why != previous:
            lines.append(f"        because {why}")
        previous = why
    return lines


def _shared_row(entry: Object) -> list[str]:
    slots = f"{entry['slots']} slots" if entry["slots"] > 1 else "1 slot"
    swizzle = f"swizzle {entry['swizzle']}" if entry["swizzle"] else "no swizzle"
    return [entry["name"], f"at {entry['offset']}", f"{entry['bytes']:,} bytes", slots, swizzle]


def _event_row(entry: Object) -> list[str]:
    slots = f"[{entry['slots']}]" if entry["slots"] > 1 else ""
    if entry["lowering"] == "named_barrier":
        how = f"named barrier {entry['id']}, {entry['threads']} threads"
    else:
        arrivals = f"{entry['arrivals']} arrival{'s' if entry['arrivals'] != 1 else ''}"
        bytes_ = f" + {entry['tx_bytes']:,} bytes" if entry["tx_bytes"] else ""
        how = f"mbarrier, {arrivals}{bytes_}"
    return [
        entry["name"] + slots,
        how,
        "starts ready" if entry["ready"] else "starts pending",
        f"triggered by {_threads(entry['triggers'])}",
        f"awaited by {_threads(entry['waiters'])}",
    ]


def _threads(ranges: list[list[int]] | None) -> str:
    if ranges is None:
        return "threads known at run time"
    if not ranges:
        return "nobody"
    return ", ".join(f"{a}..{b - 1}" if b - a > 1 else str(a) for a, b in ranges)


def _wait_row(entry: Object) -> list[str]:
    return [f"line {entry['line']}", ", ".join(entry["futures"]), f"depth {entry['depth']}"]


def _map_row(entry: Object) -> list[str]:
    box = " x ".join(map(str, entry["box"]))
    loads = entry["loads_per_tile"]
    per_tile = f"{loads} instruction{'s' if loads != 1 else ''} a tile"
    return [entry["tensor"], f"box {box}", f"swizzle {entry['swizzle']}", per_tile]


def _fragment_row(entry: Object) -> list[str]:
    shape = ", ".join(map(str, entry["shape"]))
    return [entry["name"], f"{entry['dtype']} [{shape}]", f"{entry['registers']} registers", entry["layout"] or ""]


def _register_row(entry: Object) -> list[str]:
    return [entry["role"], f"{entry['setreg']} registers a thread"]


def _order_rows(entries: Sequence[Object]) -> list[list[str]]:
    """Operations that differ in their lines only share a row, where the first of them stands."""
    lines: dict[tuple[str, ...], list[int]] = {}
    for entry in entries:
        cells = (f"{entry['op']} {entry['of']}".rstrip(), entry["rule"] or "", f"by {_threads(entry['threads'])}")
        lines.setdefault(cells, []).append(entry["line"])
    return [[*cells, _lines(found)] for cells, found in lines.items()]


def _lines(found: Sequence[int]) -> str:
    known = sorted({line for line in found if line})
    return f"line{'s' if len(known) > 1 else ''} {', '.join(map(str, known))}" if known else ""
