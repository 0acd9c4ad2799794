"""Names that a kernel's code is written with: the thread's place, the addresses of shared buffers and barriers.

They are reserved before the body is written and declared at the top of the function only if the body used them.
"""

from __future__ import annotations

from dataclasses import dataclass

from croq.emit.expressions import Expr, name
from croq.emit.names import Names
from croq.ir.objects import Buffer, Event, Kernel

# name, declaration, what it needs, comment; in order of declaration
_THREAD_PLACES = (
    ("thread", "s32", "threadIdx.x", (), ""),
    ("lane", "s32", "{thread} % 32", ("thread",), ""),
    ("warp_row", "s32", "{thread} % 128 / 32 * 16", ("thread",), "the warp's first row of a 64-row block"),
    ("lane_row", "s32", "{warp_row} + {lane} / 4", ("warp_row", "lane"), "its first row, the other is 8 below"),
    ("lane_col", "s32", "{lane} % 4 * 2", ("lane",), "its first column of each group of 8"),
)  # fmt: skip


@dataclass(frozen=True)
class Declaration:
    type: str
    name: str
    value: str
    comment: str


class Places:
    def __init__(self, kernel: Kernel, names: Names) -> None:
        self._kernel = kernel
        self._names = names
        self._used: set[str] = set()
        own = _source_names(kernel)
        self._place = {wanted: self._reserve(wanted, own) for wanted, *_ in _THREAD_PLACES}
        self.smem = self._reserve("smem", own)
        self.addresses: dict[Buffer | Event, str] = {}
        self.used_addresses: set[str] = set()
        items: list[Buffer | Event] = [*kernel.buffers, *kernel.events]
        for item in items:
            if isinstance(item, Buffer) and item.storage == "local":
                self.addresses[item] = names.declare(item.name)
            elif item.offset is not None:
                self.addresses[item] = names.declare(item.name)
                names.declare(f"{self.addresses[item]}_offset")
                names.declare(f"{self.addresses[item]}_stride")

    def _reserve(self, wanted: str, own: set[str]) -> str:
        """A name for ourselves that leaves the source's names to the source."""
        candidate = wanted if wanted not in own else f"croq_{wanted}"
        return self._names.declare(candidate)

    def __getitem__(self, place: str) -> Expr:
        """The expression for `thread`, `lane`, `warp_row`, `lane_row` or `lane_col`."""
        self._need(place)
        return name(self._place[place])

    def _need(self, place: str) -> None:
        self._used.add(place)
        for wanted, _, _, needs, _ in _THREAD_PLACES:
            if wanted == place:
                for need in needs:
                    self._need(need)

    def address(self, item: Buffer | Event) -> Expr:
        """The shared-window address of a buffer's first tile or an event's first barrier."""
        self.used_addresses.add(self.addresses[item])
        return name(self.addresses[item])

    def local_array(self, buffer: Buffer) -> str:
        return self.addresses[buffer]

    def stride_name(self, buffer: Buffer) -> Expr:
        """Bytes between the slots of a buffer."""
        self.used_addresses.add(f"{self.addresses[buffer]}_stride")
        return name(f"{self.addresses[buffer]}_stride")

    def declarations(self) -> list[Declaration]:
        return [
            Declaration(cpp, self._place[wanted], value.format(**self._place), comment)
            for wanted, cpp, value, _, comment in _THREAD_PLACES
            if wanted in self._used
        ]


def _source_names(kernel: Kernel) -> set[str]:
    found = {value.name for op in kernel.walk() for value in op.results() if value.name}
    for group in (kernel.params, kernel.buffers, kernel.events, kernel.fragments, kernel.variables):
        found |= {item.name for item in group}
    return found
