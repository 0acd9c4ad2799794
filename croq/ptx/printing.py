"""printf: `vprintf(format, arguments)`, the one function that programs call without defining it.

CUDA C++ programming guide, "Formatted Output": arguments are promoted as in C and lie one behind another, each aligned
to its size.
"""

from __future__ import annotations

import re
import struct
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from croq.ptx.faults import unsupported
from croq.ptx.lanes import Lanes
from croq.ptx.ops.access import pieces
from croq.ptx.registry import End, Form

if TYPE_CHECKING:
    from croq.ptx.build import Builder

_DIRECTIVE = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(hh|h|ll|l|z|j|t)?([diouxXcsfFeEgGaAp%])")
_LONG = {"ll", "l", "z", "j", "t"}


def external(
    builder: Builder, form: Form, name: str, given: list[tuple[int, int]], taken: list[tuple[int, int]]
) -> End:  # fmt: skip
    """The call of a function that the module does not define."""
    if name != "vprintf":
        raise unsupported(f"`{name}` is called and not defined", form.instruction.place)
    params, memory = builder.params, builder.memory
    (text_at, _), (arguments_at, _) = given
    ((count_at, _),) = taken

    def byte(thread: int, address: int, width: int = 1) -> bytes:
        one = Lanes(np.array([thread]), builder.threads)
        ((segment, offsets, _, _),) = pieces(memory, "", np.array([address], np.int64), width, one)
        return bytes(segment.load(offsets, width, one).tobytes())

    def pointer(thread: int, at: int) -> int:
        return int(params[thread, at : at + 8].view(np.uint64)[0])

    def run(machine: Any, group: Any) -> bool:
        for thread in group.lanes.index.tolist():
            read = partial(byte, thread)
            text = _string(read, pointer(thread, text_at))
            values = _Values(read, pointer(thread, arguments_at))
            machine.output.append(_DIRECTIVE.sub(values.format, text))
            params[thread, count_at : count_at + 4].view(np.uint32)[:] = values.count
        group.at += 1
        return True

    return run


def _string(read: Any, address: int) -> str:
    found = bytearray()
    while (byte := read(address + len(found))[0]) != 0:
        found.append(byte)
    return found.decode("utf-8", "replace")


class _Values:
    """The arguments behind a format, taken in order."""

    def __init__(self, read: Any, address: int) -> None:
        self.read = read
        self.address = address
        self.count = 0

    def take(self, layout: str) -> Any:
        size = struct.calcsize(layout)
        self.address = -(-self.address // size) * size
        (value,) = struct.unpack(layout, self.read(self.address, size))
        self.address += size
        self.count += 1
        return value

    def format(self, match: re.Match[str]) -> str:
        length, kind = match[1] or "", match[2]
        if kind == "%":
            return "%"
        directive = match[0].replace(length, "", 1) if length else match[0]
        if kind in "fFeEgGaA":
            return str(directive % self.take("<d"))
        if kind == "s":
            return directive % _string(self.read, self.take("<Q"))
        if kind == "p":
            return f"{self.take('<Q'):#x}"
        signed = kind in "dic"
        wide = length in _LONG
        found: str = directive % self.take(
            "<" + {(True, True): "q", (False, True): "Q", (True, False): "i"}.get((signed, wide), "I")
        )
        return found
