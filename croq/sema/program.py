"""A program to its model.

Order of one function: parameters and dimensions, then its statements; at each launch the levels are settled first, the
body is walked once, and checks that need the shapes of accumulators follow at its end.
"""

from __future__ import annotations

from croq.diagnostics import Sink
from croq.sema.calls import return_types
from croq.sema.functions import function
from croq.sema.model import Model
from croq.sema.state import State
from croq.syntax import ast
from croq.target import DEFAULT, Target


def analyse(program: ast.Program, sink: Sink, target: Target = DEFAULT) -> Model:
    """Resolve and check a program for a target. Warnings and notes stay in `sink`.

    Raises CompileError when a rule is broken.
    """
    model = Model(program, target)
    state = State(sink, model, return_types=return_types(program))
    taken: set[str] = set()
    seen: dict[str, ast.Function] = {}
    for node in program.functions:
        if node.name in seen:
            sink.error(
                "E-315",
                node.name_span,
                f"the function `{node.name}` is defined twice",
                labels=[(seen[node.name].name_span, "first defined here")],
                hint="choose another name",
            )
        seen[node.name] = node
        model.functions.append(function(state, node, taken))
    sink.check()
    return model
