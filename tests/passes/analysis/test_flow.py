"""The engine of forward data flow: what reaches the end of code with branches, loops, `break` and `continue`."""

from __future__ import annotations

import pytest

from croq.ir.core import Block, Op, Value
from croq.ir.hw import Elect, Section
from croq.ir.objects import Variable
from croq.ir.scalar import Break, Continue, For, If, VarSet, While
from croq.passes.analysis.flow import Forward

Names = frozenset[str]
CONDITION = Value("bool")
COUNT = Value("s32")


class Sets(Forward[tuple[Names, Names]]):
    """Which variables have been set on every path, and on some path; inserts a copy of `mark` where `a` may be set."""

    def __init__(self, mark: bool = False) -> None:
        super().__init__()
        self.mark = mark

    def join(self, a: tuple[Names, Names], b: tuple[Names, Names]) -> tuple[Names, Names]:
        return a[0] & b[0], a[1] | b[1]

    def before(self, op: Op, rest: list[Op], state: tuple[Names, Names]) -> tuple[list[Op], tuple[Names, Names]]:
        here = self.mark and isinstance(op, VarSet) and op.var.name == "x" and "a" in state[1]
        return [put("mark")] if here else [], state

    def after(self, op: Op, state: tuple[Names, Names]) -> tuple[Names, Names]:
        return (state[0] | {op.var.name}, state[1] | {op.var.name}) if isinstance(op, VarSet) else state


def put(name: str) -> VarSet:
    return VarSet(Variable(name, "s32"), COUNT)


def block(*ops: Op) -> Block:
    return Block(list(ops))


def branch(*then: Op, otherwise: tuple[Op, ...] | None = None) -> If:
    return If(CONDITION, block(*then), None if otherwise is None else block(*otherwise))


def loop(*ops: Op) -> For:
    return For(Value("s32"), COUNT, block(*ops))


def ends(*ops: Op) -> tuple[str, str] | None:
    """Names set on every path, and on some path, at the end; None if that is not reached."""
    found = Sets().block(block(*ops), (frozenset(), frozenset()))
    return None if found is None else ("".join(sorted(found[0])), "".join(sorted(found[1])))


@pytest.mark.parametrize(
    ("code", "every", "some"),
    [
        ((put("a"), put("b")), "ab", "ab"),
        ((branch(put("a")),), "", "a"),
        ((branch(put("a"), put("b"), otherwise=(put("b"),)),), "b", "ab"),
        ((Section("", "group-4", True, CONDITION, block(put("a"))),), "", "a"),
        ((Section("", "group-4", False, None, block(put("a"))),), "a", "a"),
        ((Elect("set", 0, block(put("a"))),), "a", "a"),
        ((loop(put("a")),), "", "a"),
        ((While(block(put("h")), CONDITION, block(put("a"))),), "h", "ah"),
    ],
)
def test_paths_meet_behind_branches_roles_and_loops(code, every, some):
    assert ends(*code) == (every, some)


def test_a_break_leads_behind_the_loop_and_nothing_behind_it_runs():
    assert ends(While(block(), CONDITION, block(put("a"), branch(put("b"), Break()), put("c")))) == ("", "abc")
    assert ends(loop(put("a"), Break(), put("never"))) == ("", "a")


def test_a_continue_leads_to_the_next_iteration_and_past_the_rest():
    code = (loop(branch(put("a"), Continue()), put("b")), put("c"))
    assert ends(*code) == ("c", "abc")
    assert ends(loop(branch(put("a"), Continue(), otherwise=(put("a"),)), put("b"))) == ("", "ab")


def test_a_break_of_an_inner_loop_stays_in_the_outer_one():
    assert ends(loop(loop(Break()), put("a")), put("b")) == ("b", "ab")
    assert ends(loop(loop(put("i"), Break()), Break(), put("never"))) == ("", "i")


def test_both_sides_of_a_branch_that_leave_make_the_rest_unreachable():
    assert ends(loop(branch(Break(), otherwise=(Continue(),)), put("never")), put("b")) == ("b", "b")


def test_what_an_iteration_leaves_is_there_at_the_beginning_of_the_next():
    body = block(put("x"), put("a"))
    Sets(mark=True).block(block(For(Value("s32"), COUNT, body)), (frozenset(), frozenset()))
    assert [op.var.name for op in body.ops] == ["mark", "x", "a"]  # type: ignore[attr-defined]


def test_insertions_are_made_once_however_often_loops_are_followed():
    inner = block(put("x"), put("a"))
    outer = loop(For(Value("s32"), COUNT, inner))
    Sets(mark=True).block(block(outer), (frozenset(), frozenset({"a"})))
    assert [op.var.name for op in inner.ops] == ["mark", "x", "a"]  # type: ignore[attr-defined]


def test_a_break_that_passes_by_a_set_leaves_it_open():
    """`break` is neither nothing nor the end of an iteration, as walks of their own had it."""
    code = While(block(), CONDITION, block(branch(Break()), put("a"), Break()))
    assert ends(code) == ("", "a")
    assert ends(put("a"), While(block(), CONDITION, block(branch(Break()), put("b")))) == ("a", "ab")
