"""Forward data flow over structured control flow: one treatment of branches, loops, `break` and `continue`.

A client says what a state is, how two are joined where paths meet, and what an operation makes of one. States are
values: a client gives new ones and changes none. A loop is followed until the state at its head no longer grows; a
`break` leads behind the innermost loop, a `continue` to its head, a role whose condition may be false past its body.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from croq.ir.core import Block, Op
from croq.ir.hw import Section
from croq.ir.scalar import Break, If, While

S = TypeVar("S")


@dataclass
class _Loop(Generic[S]):
    """States at the `break`s and `continue`s of a loop; None where there is none."""

    breaks: S | None = None
    continues: S | None = None


class Forward(ABC, Generic[S]):
    """One walk over a kernel. `settled` is false while a loop's states may still grow: what is found or inserted then
    is found again."""

    def __init__(self) -> None:
        self.settled = True
        self._loops: list[_Loop[S]] = []

    @abstractmethod
    def join(self, a: S, b: S) -> S:
        """What holds where paths with `a` and `b` meet."""

    @abstractmethod
    def after(self, op: Op, state: S) -> S:
        """What the operation makes of the state: by itself where its regions have been entered, else as a whole."""

    def enters(self, op: Op) -> bool:
        """Whether the operation's regions are followed."""
        return True

    def before(self, op: Op, rest: list[Op], state: S) -> tuple[list[Op], S]:
        """Operations to put in front of `op`, and the state behind them. `rest` follows `op` in its block."""
        return [], state

    def block(self, block: Block, state: S | None) -> S | None:
        """The state at the end of the block; None where that is not reached."""
        result: list[Op] = []
        for position, op in enumerate(block.ops):
            if state is not None:
                inserted, state = self.before(op, block.ops[position + 1 :], state)
                result += inserted
                state = self._through(op, state)
            result.append(op)
        if self.settled and len(result) > len(block.ops):
            block.ops[:] = result
        return state

    def _through(self, op: Op, state: S) -> S | None:
        if op.CONTROL == "exit":
            loop = self._loops[-1]
            if isinstance(op, Break):
                loop.breaks = self._meet(loop.breaks, state)
            else:
                loop.continues = self._meet(loop.continues, state)
            return None
        if not self.enters(op):
            return self.after(op, state)
        behind: S | None = state
        if isinstance(op, If):
            other = self.block(op.otherwise, state) if op.otherwise is not None else state
            behind = self._meet(self.block(op.then, state), other)
        elif op.CONTROL == "loop":
            behind = self._loop(op, state)
        elif isinstance(op, Section) and op.condition is not None:
            behind = self._meet(self.block(op.body, state), state)
        else:
            for region in op.regions():
                behind = self.block(region, behind)
        return None if behind is None else self.after(op, behind)

    def _loop(self, op: Op, state: S) -> S | None:
        settled, self.settled = self.settled, False
        head = state
        while (again := self._meet(head, self._iteration(op, head)[1])) != head:
            assert again is not None
            head = again
        self.settled = settled
        return self._iteration(op, head)[0]

    def _iteration(self, op: Op, head: S) -> tuple[S | None, S | None]:
        """States behind the loop, and at its next head, for an iteration that begins with `head`."""
        self._loops.append(_Loop())
        start: S | None = head
        regions = list(op.regions())
        if isinstance(op, While):
            start = self.block(regions.pop(0), start)
        end = start
        for region in regions:
            end = self.block(region, end)
        loop = self._loops.pop()
        return self._meet(start, loop.breaks), self._meet(end, loop.continues)

    def _meet(self, a: S | None, b: S | None) -> S | None:
        if a is None or b is None:
            return b if a is None else a
        return self.join(a, b)
