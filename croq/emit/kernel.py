"""One kernel function: its head, the constants and addresses that its body uses, the body."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from croq.emit import ops
from croq.emit.emitter import Emitter
from croq.emit.expressions import cpp_type
from croq.emit.ops.tensor_cores import major_text
from croq.emit.signature import Argument, Arguments, signature
from croq.emit.templating import render
from croq.emit.text import Line
from croq.ir.hw import SetMaxNReg
from croq.ir.objects import Buffer, Event, Kernel
from croq.target.sm90.descriptors import UNUSED_LBO
from croq.target.sm90.instructions import RegisterKind, Wgmma
from croq.target.swizzle import CHUNK

__all__ = ["EmittedKernel", "emit_kernel"]
_REGISTERED = ops  # importing it registered the operations


@dataclass(frozen=True)
class EmittedKernel:
    """The function's lines, and what they need from the file."""

    lines: list[Line]
    instructions: frozenset[Wgmma]
    fences: frozenset[tuple[int, RegisterKind]]
    uses_shared: bool


def emit_kernel(kernel: Kernel, why: bool = False) -> EmittedKernel:
    arguments = Arguments(signature(kernel))
    emitter = Emitter(kernel, arguments, why)
    body = emitter.block(kernel.body, scope=False)
    uses_shared = bool(emitter.places.used_addresses)
    fields = {
        "name": kernel.entry_name,
        "source_name": kernel.name,
        "summary": _summary(kernel),
        "bounds": _launch_bounds(kernel),
        "arguments": _argument_lines(arguments.items),
        "shared": uses_shared,
        "smem": emitter.places.smem,
        "constants": _columns(_constants(emitter)),
        "addresses": _addresses(emitter),
        "places": _columns(
            [(f"const {d.type} {d.name} = {d.value};", d.comment) for d in emitter.places.declarations()]
        ),
        "locals": _local_arrays(emitter),
        "body": body,
    }
    lines = render("kernel", fields)
    return EmittedKernel(lines, frozenset(emitter.instructions), frozenset(emitter.fences), uses_shared)


def _summary(kernel: Kernel) -> str:
    grid = ", ".join(str(dim) for dim in kernel.grid[: max(1, kernel.grid_rank)])
    shared = f", {kernel.shared_bytes} bytes of shared memory" if kernel.shared_bytes else ""
    return f"grid [{grid}], {kernel.threads} threads{shared}"


def _launch_bounds(kernel: Kernel) -> str:
    threads, blocks = kernel.max_threads or kernel.threads, kernel.min_blocks
    if blocks is None and any(isinstance(op, SetMaxNReg) for op in kernel.walk()):
        blocks = 1  # without it ptxas does not know how many registers a warp starts with, and ignores setmaxnreg
    return f"{threads}, {blocks}" if blocks else str(threads)


def _argument_lines(arguments: Iterable[Argument]) -> list[str]:
    texts = [(_declared(a), _described(a)) for a in arguments]
    rows = [(text + ("," if n + 1 < len(texts) else ") {"), comment) for n, (text, comment) in enumerate(texts)]
    return _columns(rows)


def _declared(argument: Argument) -> str:
    if argument.kind == "tensor_map":
        return f"const __grid_constant__ croq::TensorMap {argument.name}"
    if argument.kind == "pointer":
        const = "" if argument.writable else "const "
        return f"{const}{cpp_type(argument.type)}* {argument.name}"
    return f"{cpp_type(argument.type)} {argument.name}"


def _described(argument: Argument) -> str:
    if argument.map is not None:
        box = ", ".join(str(extent) for extent in argument.map.box)
        swizzle = f", {argument.map.swizzle}-byte swizzle" if argument.map.swizzle else ""
        return f"{argument.type} {argument.map.param.name}: box [{box}] innermost first{swizzle}"
    if argument.kind == "pointer" and argument.param is not None:
        return f"[{', '.join(str(dim) for dim in argument.param.shape or ())}]"
    return ""


# ---------------------------------------------------------------------------------------- constants and addresses
def _constants(emitter: Emitter) -> list[tuple[str, str]]:
    """Offsets and strides in shared memory, then the words of the descriptors."""
    rows: list[tuple[str, str]] = []
    for item, base in emitter.places.addresses.items():
        if isinstance(item, Buffer) and item.storage == "local":
            continue
        if base in emitter.places.used_addresses:
            comment = _buffer_text(item) if isinstance(item, Buffer) else _event_text(item)
            rows.append((f"constexpr u32 {base}_offset = {item.offset};", comment))
        if isinstance(item, Buffer) and f"{base}_stride" in emitter.places.used_addresses:
            rows.append((f"constexpr u32 {base}_stride = {item.slot_stride};", "bytes from slot to slot"))
    for (_, major, descriptor), base in emitter.descriptors.items():
        leading = f"leading offset {descriptor.lbo}" if descriptor.lbo != UNUSED_LBO else "leading offset unused"
        rows.append(
            (f"constexpr u32 {base}_lo = {descriptor.low_word:#x};", f"{major_text(major, descriptor)}; {leading}")
        )
        stride = f"stride offset {descriptor.sbo}, layout {descriptor.layout}"
        rows.append((f"constexpr u32 {base}_hi = {descriptor.high_word:#x};", stride))
    return rows


def _buffer_text(buffer: Buffer) -> str:
    text = f"{buffer.type} [{', '.join(map(str, buffer.shape))}]"
    text += f" x {buffer.slots} slots" if buffer.slots > 1 else ""
    return text + (f", {buffer.swizzle}-byte swizzle" if buffer.swizzle > CHUNK else "")


def _event_text(event: Event) -> str:
    count = f"{event.slots} mbarriers" if event.slots > 1 else "mbarrier"
    needs = f"{event.arrivals} arrival{'s' if event.arrivals != 1 else ''}"
    needs += f" and {event.tx_bytes} bytes" if event.tx_bytes else ""
    return f"{count}: {needs} a phase" + (", ready at first" if event.ready else "")


def _addresses(emitter: Emitter) -> list[str]:
    used = emitter.places.used_addresses
    return [f"const u32 {base} = {emitter.places.smem} + {base}_offset;"
            for base in emitter.places.addresses.values() if base in used]  # fmt: skip


def _local_arrays(emitter: Emitter) -> list[str]:
    rows = []
    for item, base in emitter.places.addresses.items():
        if isinstance(item, Buffer) and item.storage == "local":
            count = item.slots * item.tile_bytes // max(1, _element_bytes(item))
            rows.append(f"{cpp_type(item.type)} {base}[{count}];")
    return rows


def _element_bytes(buffer: Buffer) -> int:
    count = 1
    for extent in buffer.shape:
        count *= extent
    return buffer.tile_bytes // count


def _columns(rows: list[tuple[str, str]]) -> list[str]:
    """Statements with their comments in one column."""
    width = max((len(text) for text, comment in rows if comment), default=0)
    return [f"{text.ljust(width)}  // {comment}" if comment else text for text, comment in rows]
