"""What loops of machine code consist of: instructions by pipe, those of tensor cores and what stands between them.

A loop is a natural one: a branch goes back to an instruction that every way to the branch has passed (its header), and
the loop has all that can reach the branch without passing the header. Instructions count for the innermost loop around
them; so a spinning wait, which is a loop of its own, does not count for the loop that waits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from croq.target.sm90.pipes import pipe_of

_FUNCTION = re.compile(r"^\s*(?:\.text\.([\w$.]+):|Function : ([\w$.]+))", re.MULTILINE)
_LABEL = re.compile(r"^\s*(\.L_x_\d+):", re.MULTILINE)
_INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][A-Z0-9_]*)([.\w]*)([^;]*);(.*)")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)|\b0x([0-9a-f]+)\b")
_SPILLS = ("STL", "LDL")
LEAVES = ("EXIT", "RET", "KILL", "BPT")
MOST_OF_A_WAIT = 4  # instructions


@dataclass(frozen=True)
class Instruction:
    address: int
    opcode: str
    predicated: bool
    target: str | int | None  # of a branch: a label, or an address


@dataclass(frozen=True)
class LoopStats:
    """Of one loop, inner loops left out. `gaps`: instructions between tensor core instructions, in their order."""

    first: int  # address of the header
    last: int  # address of the branch back
    depth: int
    instructions: int
    pipes: dict[str, int]
    tensor: int
    gaps: tuple[int, ...]
    spills: int

    def to_json(self) -> dict[str, Any]:
        return {
            "first": self.first, "last": self.last, "depth": self.depth, "instructions": self.instructions,
            "pipes": self.pipes, "tensor": self.tensor, "gaps": list(self.gaps), "spills": self.spills,
        }  # fmt: skip


@dataclass(frozen=True)
class FunctionStats:
    """`waits`: loops that do nothing but ask again whether something has happened. They are not among `loops`."""

    name: str
    instructions: int
    loops: tuple[LoopStats, ...]
    waits: int

    @property
    def hot(self) -> LoopStats | None:
        """Of the innermost loops with tensor core instructions the one that has most of them for its length; the
        longest loop, where there are no such instructions; None without loops."""
        return max(self.loops, key=_heat, default=None)

    def to_json(self) -> dict[str, Any]:
        loops = [{**loop.to_json(), "hot": loop is self.hot} for loop in self.loops]
        return {"function": self.name, "instructions": self.instructions, "waits": self.waits, "loops": loops}


def _heat(loop: LoopStats) -> tuple[float, ...]:
    return (1, loop.depth, loop.tensor / loop.instructions) if loop.tensor else (0, loop.instructions)


def statistics(sass: str) -> tuple[FunctionStats, ...]:
    """Of each function in the text of a disassembler."""
    found = list(_FUNCTION.finditer(sass))
    ends = [match.start() for match in found[1:]] + [len(sass)]
    bodies = ((m[1] or m[2], sass[m.end() : end]) for m, end in zip(found, ends, strict=True))
    return tuple(stats for name, body in bodies if (stats := _function(name, body)).instructions)


def render(functions: tuple[FunctionStats, ...]) -> str:
    """A table a function; the hot loop is marked."""
    lines: list[str] = []
    for function in functions:
        loops = f"{len(function.loops)} loops, {function.waits} that only wait"
        lines.append(f"{function.name}: {function.instructions} instructions, {loops}")
        hot = function.hot
        for loop in function.loops:
            pipes = ", ".join(f"{pipe} {count}" for pipe, count in loop.pipes.items())
            mark = "  <- hot" if loop is hot else ""
            lines.append(f"  {'  ' * (loop.depth - 1)}{loop.first:#06x}..{loop.last:#06x}: {loop.instructions}{mark}")
            lines.append(f"  {'  ' * (loop.depth - 1)}    {pipes}")
            if loop.tensor:
                text = f"{loop.tensor} tensor core instructions, {' '.join(map(str, loop.gaps))} between them"
                lines.append(f"  {'  ' * (loop.depth - 1)}    {text}")
            if loop.spills:
                lines.append(f"  {'  ' * (loop.depth - 1)}    {loop.spills} accesses of spilled registers")
    return "\n".join(lines) + "\n"


def _function(name: str, body: str) -> FunctionStats:
    code, labels = _read(body)
    graph = _Graph(code, labels)
    found = list(graph.loops())
    loops = [_loop(graph, header, own, depth) for header, own, depth, inner in found if inner or _works(graph, own)]
    return FunctionStats(name, len(code), tuple(sorted(loops, key=lambda loop: loop.first)), len(found) - len(loops))


def _works(graph: _Graph, own: set[int]) -> bool:
    """Whether an innermost loop does more than to test, to branch back, and to make the threads of a warp meet."""
    pipes = {pipe_of(graph.code[index].opcode) for index in own}
    return len(own) > MOST_OF_A_WAIT or not pipes <= {"control", "lsu", "alu"}


def _read(body: str) -> tuple[list[Instruction], dict[str, int]]:
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in body.splitlines():
        if (label := _LABEL.match(line)) is not None:
            labels[label[1]] = len(code)
        elif (match := _INSTRUCTION.search(line)) is not None:
            found = _TARGET.search(match[5]) if match[3] in ("BRA", "BRX", "JMP", "CALL") else None
            target = None if found is None else found[1] or int(found[2], 16)
            code.append(Instruction(int(match[1], 16), match[3], match[2] is not None, target))
    return code, labels


@dataclass
class _Graph:
    """Instructions, and who can follow whom; by index."""

    code: list[Instruction]
    labels: dict[str, int]
    after: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.places = {instruction.address: index for index, instruction in enumerate(self.code)}
        self.after = [self._after(index) for index in range(len(self.code))]
        self.before: list[list[int]] = [[] for _ in self.code]
        for index, following in enumerate(self.after):
            for other in following:
                self.before[other].append(index)

    def _after(self, index: int) -> list[int]:
        instruction = self.code[index]
        target = instruction.target
        at = self.labels.get(target) if isinstance(target, str) else self.places.get(target or 0)
        jumps = [at] if at is not None and at < len(self.code) and instruction.opcode == "BRA" else []
        ends = instruction.opcode in LEAVES or instruction.opcode == "BRA"
        goes_on = index + 1 < len(self.code) and (not ends or instruction.predicated)
        return [*jumps, *([index + 1] if goes_on else [])]

    def loops(self) -> Iterator[tuple[int, set[int], int, bool]]:
        """Header, instructions of no inner loop, depth, and whether there are inner loops, of each natural loop."""
        dominators = self._dominators()
        bodies: dict[int, set[int]] = {}
        for index, following in enumerate(self.after):
            for header in following:
                if header in dominators and self._dominates(dominators, header, index):
                    bodies.setdefault(header, {header}).update(self._reaching(index, header))
        for header, body in bodies.items():
            inner = [other for at, other in bodies.items() if at != header and at in body and other < body]
            depth = sum(1 for other in bodies.values() if body <= other)
            yield header, body.difference(*inner), depth, bool(inner)

    def _reaching(self, tail: int, header: int) -> set[int]:
        """What can come to the branch back without passing the header again."""
        found, work = {header, tail}, [tail] if tail != header else []
        while work:
            new = [other for other in self.before[work.pop()] if other not in found]
            found.update(new)
            work += new
        return found

    def _order(self) -> list[int]:
        """Reachable instructions, each behind one that leads to it (reverse postorder)."""
        seen, order, work = {0}, [], [(0, iter(self.after[0]))] if self.code else []
        while work:
            at, rest = work[-1]
            step = next((other for other in rest if other not in seen), None)
            if step is None:
                order.append(at)
                work.pop()
            else:
                seen.add(step)
                work.append((step, iter(self.after[step])))
        return order[::-1]

    def _dominators(self) -> dict[int, int]:
        """The immediate dominator of each reachable instruction (Cooper, Harvey, Kennedy)."""
        order = self._order()
        rank = {at: number for number, at in enumerate(order)}
        found: dict[int, int] = {order[0]: order[0]} if order else {}
        changed = True
        while changed:
            changed = False
            for at in order[1:]:
                known = [other for other in self.before[at] if other in found]
                best = known[0]
                for other in known[1:]:
                    best = _meet(best, other, found, rank)
                if found.get(at) != best:
                    found[at] = best
                    changed = True
        return found

    @staticmethod
    def _dominates(dominators: dict[int, int], header: int, at: int) -> bool:
        while at in dominators:
            if at == header:
                return True
            if dominators[at] == at:
                return False
            at = dominators[at]
        return False


def _meet(a: int, b: int, found: dict[int, int], rank: dict[int, int]) -> int:
    while a != b:
        while rank[a] > rank[b]:
            a = found[a]
        while rank[b] > rank[a]:
            b = found[b]
    return a


def _loop(graph: _Graph, header: int, own: set[int], depth: int) -> LoopStats:
    code = [graph.code[index] for index in sorted(own)]
    pipes = Counter(pipe_of(instruction.opcode) for instruction in code)
    tensor = [n for n, instruction in enumerate(code) if pipe_of(instruction.opcode) == "tensor"]
    return LoopStats(
        first=graph.code[header].address,
        last=max(instruction.address for instruction in code),
        depth=depth,
        instructions=len(code),
        pipes=dict(sorted(pipes.items(), key=lambda item: (-item[1], item[0]))),
        tensor=len(tensor),
        gaps=tuple(b - a - 1 for a, b in pairwise(tensor)),
        spills=sum(instruction.opcode in _SPILLS for instruction in code),
    )
