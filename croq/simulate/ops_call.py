"""Calls of device functions: compiled to PTX, and executed as that (croq.ptx) on the simulated warp's data.

Every call gets a small kernel of its own around it, all of a program in one text, so that whatever C++ may say works:
what is executed is what the compiler made of it. Fragments and results are memory of each lane; shared and global
memory are those of the simulation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from croq import services
from croq.ir.core import Value
from croq.ir.objects import Buffer, FragRef, Param, View
from croq.ir.scalar import Call
from croq.ptx.faults import PtxFault
from croq.ptx.memory import SHARED_START, SHARED_WINDOW
from croq.ptx.parse import parse
from croq.ptx.warp_call import WarpCall
from croq.simulate.compiler import Code, Compiler, handles
from croq.simulate.device_memory import DeviceMemory
from croq.simulate.dtypes import DTYPES, Array
from croq.simulate.faults import SimulationFault, fault
from croq.simulate.machine import Warp
from croq.simulate.views import coordinates, data_of, linear, origin, slot_of
from croq.target.cuda import WARP

CPP_TYPES = {
    "bool": "bool", "s8": "signed char", "u8": "unsigned char", "s16": "short", "u16": "unsigned short", "s32": "int",
    "u32": "unsigned int", "s64": "long long", "u64": "unsigned long long", "f32": "float", "tf32": "float",
    "f64": "double", "bf16": "croq::bf16", "f16": "croq::f16", "f8_e4m3": "croq::f8_e4m3", "f8_e5m2": "croq::f8_e5m2",
}  # fmt: skip
# What a fault of the PTX is called here; any other is E-5032
_CODES = {"E-7011": "E-5011", "E-7012": "E-5012", "E-7013": "E-5024", "E-7017": "E-5020", "E-7018": "E-5022"}

_HEAD = (
    '#include "croq.cuh"',
    "template <class T> __device__ T* croq_pointer(unsigned long long p) {",
    '  asm volatile("" : "+l"(p));',
    "  return reinterpret_cast<T*>(p);",
    "}",
)

Prepare = Callable[[Warp], Array]  # the values of a parameter, one a lane
Finish = Callable[[Warp], None]


@handles(Call)
def _call(c: Compiler, op: Call) -> Code:
    if c.map is not None:
        raise fault("E-5030", op, "the simulator cannot call a device function for each element of a fragment")
    if c.library is None:
        c.library = _Library(c)
    return c.preemptible(Code(_Call(c, op, c.library).run))


class _Library:
    """The PTX of a kernel's calls, and the memory that they reach."""

    def __init__(self, c: Compiler) -> None:
        calls = [op for op in c.kernel.walk() if isinstance(op, Call)]
        texts = list(dict.fromkeys(map(_around, calls)))
        self.names = {text: f"croq_call_{n}" for n, text in enumerate(texts)}
        heads = [f'extern "C" __global__ void {name}{text}' for text, name in self.names.items()]
        self.module = parse(services.cuda_to_ptx("\n".join([*_HEAD, *c.kernel.device_text, *heads])))
        self.memory = DeviceMemory(c.kernel, {root: data_of(c, root, op) for op in calls for root in _data(op)})


def _data(op: Call) -> list[Param]:
    return [a.root for a in op.args if isinstance(a, View) and isinstance(a.root, Param)]


def _around(op: Call) -> str:
    """Parameters and body of a kernel that makes the call; the result goes behind a pointer.

    Pointers arrive as integers of which the compiler knows nothing: of a kernel's own it assumes global memory.
    """
    params, given = [], []
    for n, argument in enumerate(op.args):
        if isinstance(argument, Value):
            params.append(f"{CPP_TYPES[argument.type]} a{n}")
            given.append(f"a{n}")
        else:
            params.append(f"unsigned long long a{n}")
            given.append(f"croq_pointer<{CPP_TYPES[argument.element]}>(a{n})")
    template = f"<{', '.join(op.template_args)}>" if op.template_args else ""
    call = f"{op.callee}{template}({', '.join(given)});"
    if op.result is not None:
        params.append("unsigned long long result")
        call = f"*croq_pointer<{CPP_TYPES[op.result.type]}>(result) = {call}"
    return f"({', '.join(params)}) {{ {call} }}"


class _Call:
    """One call of the program."""

    def __init__(self, c: Compiler, op: Call, library: _Library) -> None:
        self.op, self.memory = op, library.memory
        self.own: list[int] = []  # bytes of memory that each lane passes a pointer to
        self.before: list[Callable[[Warp], Finish]] = []  # put fragments into it
        prepare = [self._argument(c, argument) for argument in op.args]
        if op.result is not None:
            prepare.append(self._own(DTYPES[op.result.type].itemsize))
        self.prepare = prepare
        self.result = c.result(op.result) if op.result is not None else None
        name = library.names[_around(op)]
        try:
            memory = library.memory
            self.function = WarpCall(library.module, name, memory.segments, memory.shared, self.own)
        except PtxFault as reason:
            raise self._fault(reason) from None

    def run(self, warp: Warp) -> None:
        active = warp.active()
        mask = np.ones(WARP, dtype=bool) if active is None else active
        self.memory.enter(warp, self.op)
        finish = [put(warp) for put in self.before]
        x, y, z = warp.cta.block
        self.function.place(
            tid_x=warp.index * WARP + np.arange(WARP), warpid=warp.index, ntid_x=warp.cta.threads, ctaid_x=x, ctaid_y=y,
            ctaid_z=z,
        )  # fmt: skip
        try:
            printed = self.function(mask, [values(warp) for values in self.prepare])
        except PtxFault as reason:
            raise self._fault(reason) from None
        if printed:
            sys.stdout.write(printed)
        for take in finish:
            take(warp)
        if self.result is not None and self.op.result is not None:
            dtype = DTYPES[self.op.result.type]
            warp.v[self.result] = np.ascontiguousarray(self.function.memory[-1]).view(dtype)[:, 0].copy()

    def _fault(self, reason: PtxFault) -> SimulationFault:
        first = reason.diagnostics[0]
        code = _CODES.get(reason.code, "E-5032")
        return fault(code, self.op, f"in `{self.op.callee}`: {first.message}", notes=first.notes)

    # ----------------------------------------------------------------------------------------------------- arguments
    def _argument(self, c: Compiler, argument: Value | FragRef | View) -> Prepare:
        if isinstance(argument, Value):
            slot, dtype = c.slot(argument), DTYPES[argument.type]
            return lambda warp: np.broadcast_to(np.asarray(warp.v[slot]).astype(dtype), (WARP,))
        if isinstance(argument, FragRef):
            return self._fragment(c, argument)
        return self._view(c, argument)

    def _own(self, size: int) -> Prepare:
        """A pointer to memory of the lane."""
        number = len(self.own)
        self.own.append(size)
        return lambda warp: np.full(WARP, self.function.pointers[number], np.uint64)

    def _fragment(self, c: Compiler, ref: FragRef) -> Prepare:
        """A fragment decays to a pointer to the thread's registers, in the order of its layout."""
        find, shape = c.fragment(ref), c.shape(ref.frag)
        if shape.fragment.packed:
            message = f"the simulator cannot pass the packed fragment `{ref.frag.name}` to a function"
            raise fault("E-5030", self.op, message)
        number, dtype = len(self.own), DTYPES[shape.type]

        def put(warp: Warp) -> Finish:
            registers = find(warp)
            before = np.ascontiguousarray(shape.to_registers(registers.take(self.op))).view(np.uint8).reshape(WARP, -1)
            memory = self.function.memory[number]
            memory[:] = before

            def take(warp: Warp) -> None:
                if not np.array_equal(memory, before):
                    values = np.ascontiguousarray(memory).view(dtype)
                    registers.write(registers.shape.from_registers(values), warp, self.op)

            return take

        self.before.append(put)
        return self._own(_registers(c, ref) * dtype.itemsize)

    def _view(self, c: Compiler, view: View) -> Prepare:
        """Data decays to a pointer to the view's first element."""
        root = view.root
        if isinstance(root, Param):
            locate = coordinates(c, View(root, view.slot, view.offsets, view.extents, ()), (), self.op)
            data = data_of(c, root, self.op)
            base, size = self.memory.addresses[root], DTYPES[root.type].itemsize
            return lambda warp: _each(base + np.asarray(linear(locate(warp), data.strides)).astype(np.int64) * size)
        if root.storage == "local":
            raise fault("E-5030", self.op, f"the simulator cannot pass the local buffer `{root.name}` to a function")
        return self._tile(c, view, root)

    def _tile(self, c: Compiler, view: View, root: Buffer) -> Prepare:
        tile, slot, at = c.tile(root), slot_of(c, view, self.op), origin(c, view, self.op)

        def prepare(warp: Warp) -> Array:
            place = at(warp)
            row = sum(o * s for o, s in zip(place[:-1], tile.row_strides, strict=True))
            start = tile.slot_bytes(slot(warp), self.op) + int(tile.index[row, place[-1]]) * tile.size
            return _each(np.asarray(SHARED_WINDOW + SHARED_START + start))

        return prepare


def _each(address: Array) -> Array:
    return np.broadcast_to(address.astype(np.uint64), (WARP,))


def _registers(c: Compiler, ref: FragRef) -> int:
    """Registers of a thread that the fragment has."""
    return int(c.shape(ref.frag).layout.registers)
