"""When the copy engine must have read what a TMA store moves (rule T5 of `moves`)."""

from __future__ import annotations

from collections.abc import Callable

from croq.diagnostics import Sink
from croq.ir.core import Block, Op
from croq.ir.hw import BulkTensorStore, BulkWait, Elect, Section
from croq.ir.objects import Buffer, Kernel, Param, View
from croq.ir.rewrite import by
from croq.ir.tile import TmaIssue, TmaStore
from croq.ir.types import ThreadSet
from croq.passes.analysis.barriers import barrier_each

Elector = Callable[[list[ThreadSet], list[Op], Op], Elect]
_Key = tuple[Buffer, tuple[ThreadSet, ...]]


class Touches:
    """Who touches each buffer and parameter, in what order, inside which loops. Of a kernel before its moves go."""

    def __init__(self, kernel: Kernel) -> None:
        self.order = {op: n for n, op in enumerate(kernel.walk())}
        self.loops: dict[Op, frozenset[Op]] = {}
        self.homes: dict[Op, tuple[Block, ThreadSet | None]] = {}  # the innermost section that no loop repeats
        self.anchors: dict[Op, Op] = {}  # the operation, or the `apply` around it
        self.by_root: dict[Buffer | Param, list[tuple[Op, str]]] = {}
        self._index(kernel.body, frozenset(), (kernel.body, ThreadSet.all(kernel.threads)), None)

    def _index(
        self, block: Block, loops: frozenset[Op], home: tuple[Block, ThreadSet | None], anchor: Op | None
    ) -> None:
        for op in block.ops:
            self.loops[op], self.homes[op], self.anchors[op] = loops, home, anchor or op
            for effect in op.own_effects():
                if isinstance(effect.target, View):
                    self.by_root.setdefault(effect.root, []).append((op, effect.kind))
            inner = loops | {op} if op.CONTROL == "loop" else loops
            inside = (op.body, op.threads) if isinstance(op, Section) and not loops else home
            for region in op.regions():
                self._index(region, inner, inside, op if op.CONTROL == "map" else anchor)

    def precedes(self, first: Op, second: Op) -> bool:
        """Whether `first` may be executed before `second`: it stands before it, or a loop repeats both."""
        return self.order[first] < self.order[second] or bool(self.loops[first] & self.loops[second])

    def conflict_before(self, op: Op, view: View, kind: str) -> bool:
        """Whether what others did with the view's data before must be over when `op` reads or writes it."""
        others = [(o, k) for o, k in self.by_root.get(view.root, []) if o is not op and self.precedes(o, op)]
        return any("write" in (k, kind) for _, k in others)

    def used_after(self, op: TmaStore) -> bool:
        """Whether the kernel may read what the store writes, or write there in another way, once it is issued."""
        others = (o for o, _ in self.by_root.get(op.dest.root, []) if o is not op and self.precedes(op, o))
        return any(not isinstance(o, TmaStore) or o.dest.offsets == op.dest.offsets for o in others)

    def writers(self, buffer: Buffer) -> list[Op]:
        return [op for op, kind in self.by_root.get(buffer, []) if kind == "write"]


class Drains:
    """The waits that are put off: before the next write of the store's source, and at the end of its role."""

    def __init__(self, kernel: Kernel, touches: Touches, elect: Elector, sink: Sink) -> None:
        self.kernel = kernel
        self.touches = touches
        self.elect = elect
        self.sink = sink
        self.before: dict[Op, dict[_Key, Op]] = {}  # writes -> the stores that must be over, by buffer and groups
        self.last: dict[tuple[Block, tuple[ThreadSet, ...]], Elect] = {}

    def written_again(self, op: TmaStore) -> bool:
        return bool(self._later_writes(op))

    def _later_writes(self, op: TmaStore) -> list[Op]:
        assert isinstance(op.source.root, Buffer)
        return [write for write in self.touches.writers(op.source.root) if self.touches.precedes(op, write)]

    def put_off(self, op: TmaStore, groups: list[ThreadSet]) -> bool:
        """Take care of the store's wait later, where that is possible."""
        buffer = op.source.root
        assert isinstance(buffer, Buffer)
        if self.touches.used_after(op):
            return False
        later, writers = self._later_writes(op), self.touches.writers(buffer)
        if not later or not groups or any(w.threads != op.threads or isinstance(w, TmaIssue) for w in writers):
            return False
        for write in later:
            self.before.setdefault(self.touches.anchors[write], {})[buffer, tuple(groups)] = op
        block, threads = self.touches.homes[op]
        last = self.elect(groups, [BulkWait(0, True, span=op.span)], op)
        by("moves.T5", [last])
        last.threads = threads
        self.last[block, tuple(groups)] = last
        return True

    def insert(self, block: Block) -> None:
        """Put the waits into the block and its regions."""
        self._insert(block)
        for (home, _), wait in self.last.items():
            home.ops.append(wait)

    def _insert(self, block: Block) -> None:
        result: list[Op] = []
        drained: set[_Key] = set()
        for op in block.ops:
            for region in op.regions():
                self._insert(region)
            for key, store in self.before.get(op, {}).items():
                if key not in drained:
                    result += self._drain(store, list(key[1]))
                    drained.add(key)
            if _has_store(op):
                drained.clear()
            result.append(op)
        block.ops[:] = result

    def _drain(self, store: Op, groups: list[ThreadSet]) -> list[Op]:
        wait = self.elect(groups, [BulkWait(0, True, span=store.span)], store)
        return by("moves.T5", [wait, *barrier_each(self.kernel, groups, store.span, self.sink)])


def _has_store(op: Op) -> bool:
    return any(isinstance(inner, BulkTensorStore) for inner in op.walk())
