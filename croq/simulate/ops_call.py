"""Calls of device functions: C++ text, as far as `cexec` can run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from croq.ir.core import Op, Value
from croq.ir.objects import Buffer, FragRef, Param, View
from croq.ir.scalar import Call
from croq.simulate import cfunc
from croq.simulate.cexec import Library
from croq.simulate.cnodes import CType, Name, Number, Unsupported
from croq.simulate.compiler import Code, Compiler, handles
from croq.simulate.cvalues import Lanes, Pointer
from croq.simulate.dtypes import DTYPES, Array, Scalar, converter, is_vector
from croq.simulate.faults import SimulationFault, fault
from croq.simulate.machine import Warp
from croq.simulate.memory import GlobalData, SharedTile
from croq.simulate.registers import Registers
from croq.simulate.views import coordinates, data_of, linear, origin, slot_of

Prepare = Callable[[Warp], tuple[Any, Callable[[], None] | None]]  # an argument, and what to do after the call


@handles(Call)
def _call(c: Compiler, op: Call) -> Code:
    if c.map is not None:
        raise fault("E-5030", op, "the simulator cannot call a device function for each element of a fragment")
    library = _library(c)
    prepared = [_argument(c, argument, op) for argument in op.args]
    types = tuple(type_ for type_, _ in prepared)
    try:
        template = tuple(_template(text) for text in op.template_args)
        result_type, function = library.find(op.callee, template, types)
    except KeyError:
        raise fault(
            "E-5031",
            op,
            f"the file defines no device function `{op.callee}`",
            notes=["the simulator runs functions whose text is in the `.co` file"],
        ) from None
    except Unsupported as reason:
        raise _unsupported(op, reason) from None
    result = c.result(op.result) if op.result is not None else None
    convert = converter(result_type, op.result.type) if op.result is not None and result_type != "void" else None
    prepare = [p for _, p in prepared]

    def run(warp: Warp) -> None:
        arguments = [p(warp) for p in prepare]
        try:
            value = function(warp, [a for a, _ in arguments], warp.active())
        except Unsupported as reason:
            raise _unsupported(op, reason) from None
        except IndexError as reason:
            raise fault("E-5012", op, f"`{op.callee}` uses {reason}") from None
        for _, finish in arguments:
            if finish is not None:
                finish()
        if result is not None:
            warp.v[result] = convert(value) if convert is not None else value

    return c.preemptible(Code(run))


def _library(c: Compiler) -> Library:
    if c.library is None:
        try:
            c.library = Library("\n".join(c.kernel.device_text))
        except Unsupported as reason:
            raise fault("E-5032", None, f"the simulator cannot read the device functions: {reason}") from None
    library: Library = c.library
    return library


def _unsupported(op: Call, reason: Unsupported) -> SimulationFault:
    return fault(
        "E-5032",
        op,
        f"the simulator cannot run this device function: {reason}",
        notes=[f"in `{op.callee}`, or in what it calls"],
        hint="write it in the language, keep to loops, arithmetic and arrays, or run the kernel on a GPU",
    )


def _template(text: str) -> str | int:
    argument = cfunc.template_argument(text)
    if isinstance(argument, CType):
        return cfunc.TYPES.get(argument.base, argument.base)
    if isinstance(argument, Number):
        return int(argument.value)
    if isinstance(argument, Name):
        return argument.name
    raise Unsupported(f"the template argument `{text}`")


def _argument(c: Compiler, argument: Value | FragRef | View, op: Op) -> tuple[str, Prepare]:
    """The C type of an argument (`f32*` for a pointer), and what makes it."""
    if isinstance(argument, Value):
        slot = c.slot(argument)
        return argument.type, lambda warp: (warp.v[slot], None)
    if isinstance(argument, FragRef):
        return _fragment(c, argument, op)
    return f"{argument.root.type}*", _view(c, argument, op)


def _fragment(c: Compiler, ref: FragRef, op: Op) -> tuple[str, Prepare]:
    """A fragment decays to a pointer to the thread's registers, in the order of its layout."""
    find, shape = c.fragment(ref), c.shape(ref.frag)
    if shape.fragment.packed:
        raise fault("E-5030", op, f"the simulator cannot pass the packed fragment `{ref.frag.name}` to a function")

    def prepare(warp: Warp) -> tuple[Any, Callable[[], None] | None]:
        registers = find(warp)
        before = shape.to_registers(registers.take(op))
        storage = Lanes(before.copy(), shape.type, ref.frag.name)

        def finish() -> None:
            if not _same_bits(storage.data, before):
                _put_back(registers, storage.data, warp, op)

        return Pointer(storage), finish

    return f"{shape.type}*", prepare


def _same_bits(a: Array, b: Array) -> bool:
    return bool((np.ascontiguousarray(a).view(np.uint8) == np.ascontiguousarray(b).view(np.uint8)).all())


def _put_back(registers: Registers, data: Array, warp: Warp, op: Op) -> None:
    registers.write(registers.shape.from_registers(data), warp, op)


def _view(c: Compiler, view: View, op: Op) -> Prepare:
    """Data decays to a pointer to the view's first element."""
    root = view.root
    locate = coordinates(c, View(root, view.slot, view.offsets, view.extents, ()), (), op)
    if isinstance(root, Param):
        data = data_of(c, root, op)
        return lambda warp: (Pointer(_Memory(data, op), linear(locate(warp), data.strides)), None)
    if root.storage == "local":
        raise fault("E-5030", op, f"the simulator cannot pass the local buffer `{root.name}` to a function")
    tile, slot = c.tile(root), slot_of(c, view, op)
    at = origin(c, view, op)

    def prepare(warp: Warp) -> tuple[Any, Callable[[], None] | None]:
        place = at(warp)
        row = sum(o * s for o, s in zip(place[:-1], tile.row_strides, strict=True))
        start = tile.slot_bytes(slot(warp), op) // tile.size
        return Pointer(_Memory(tile, op), start + int(tile.index[row, place[-1]])), None

    return prepare


class _Memory:
    """Global data, or shared memory around a buffer, behind a pointer."""

    def __init__(self, of: GlobalData | SharedTile, op: Op) -> None:
        self.of, self.op = of, op
        self.root: Param | Buffer = of.param if isinstance(of, GlobalData) else of.buffer
        self.type = self.root.type
        self.size = DTYPES[self.type].itemsize

    def get(self, index: Scalar, warp: Warp) -> Scalar:
        data = self._data(warp)
        at = self._check(index, warp.active(), data)
        warp.touch(self.root, at, self.size, warp.active(), self.op, write=False)
        found = data[at]
        return found if is_vector(found) else found.item() if found.dtype.kind in "iub" else found

    def set(self, index: Scalar, value: Scalar, mask: Array | None, warp: Warp) -> None:
        data = self._data(warp)
        at = self._check(index, mask, data)
        warp.touch(self.root, at, self.size, mask, self.op, write=True)
        if mask is not None:
            at, value = np.broadcast_to(at, 32)[mask], np.broadcast_to(value, 32)[mask]
        elif not is_vector(at) and is_vector(value):
            value = value[-1]
        data[at] = value

    def _data(self, warp: Warp) -> Array:
        return self.of.flat if isinstance(self.of, GlobalData) else warp.cta.shared.typed(self.of.dtype)

    def _check(self, index: Scalar, mask: Array | None, data: Array) -> Scalar:
        outside = (np.asarray(index) < 0) | (np.asarray(index) >= len(data))
        if not outside.any():
            return index
        if mask is None or (outside & mask).any():
            raise IndexError(f"an element outside `{self.root.name}`")
        return np.where(outside, 0, index)
