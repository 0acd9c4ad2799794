"""Runs the device functions that `cfunc` can read: C++ on vectors of 32 lanes.

A function is compiled to closures for the types and template arguments of a call. Variables are uniform values or
vectors of lanes, arrays are [32, length]. An `if` whose condition differs between lanes runs both sides under a mask; a
loop or a `return` that only some lanes would take is outside the subset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from croq.ir.types import FLOATS
from croq.simulate import arithmetic, cfunc, cnodes
from croq.simulate.cnodes import CFunction, CType, Expression, Statement, Unsupported
from croq.simulate.cvalues import (
    BINARY_CALLS,
    LANES,
    OPERATORS,
    SHUFFLES,
    UNARY_CALLS,
    Callable_,
    Evaluate,
    Execute,
    Frame,
    Lanes,
    LeaveSignal,
    Pointer,
    Typed,
    assign_slot,
    identity,
    nothing,
    operator,
    pointer_sum,
    same_everywhere,
    thread_x,
    without_escape,
)
from croq.simulate.dtypes import DTYPES, WIDTH, Array, Scalar, converter, is_vector, poison, uniform
from croq.simulate.machine import Warp


class Library:
    """The device functions of a file, compiled when first called."""

    def __init__(self, text: str) -> None:
        self.functions = cfunc.functions(text)
        self._compiled: dict[Any, tuple[str, Callable_]] = {}

    def find(self, name: str, template: tuple[Any, ...], args: tuple[str, ...]) -> tuple[str, Callable_]:
        """Result type and callable for argument types. Raises KeyError for an unknown name, Unsupported."""
        key = (name, template, args)
        if key not in self._compiled:
            function = self.functions[name]
            if isinstance(function, Unsupported):
                raise function
            self._compiled[key] = _Function(self, function, template, args).compiled
        return self._compiled[key]


class _Function:
    """Compiles one function for given template arguments and argument types."""

    def __init__(self, library: Library, function: CFunction, template: tuple[Any, ...], args: tuple[str, ...]) -> None:
        self.library, self.function = library, function
        self.types: dict[str, str] = {}
        self.scopes: list[dict[str, tuple[str, Any]]] = [{}]  # name: type and number, or type and known value
        self.size = 0
        if len(template) > len(function.template):
            raise Unsupported(f"{len(template)} template arguments of `{function.name}`")
        for name, argument in zip(function.template, template, strict=False):
            if isinstance(argument, str):
                self.types[name] = argument
            else:
                self.scopes[0][name] = ("s32", lambda frame, known=argument: known)
        if len(args) != len(function.params):
            raise Unsupported(f"{len(args)} arguments for `{function.name}`, which takes {len(function.params)}")
        self.compiled = self._compile(args)

    def _compile(self, args: tuple[str, ...]) -> tuple[str, Callable_]:
        function = self.function
        for (type_, _), given in zip(function.params, args, strict=True):  # deduce type parameters that were left out
            if type_.base in function.template and type_.base not in self.types:
                self.types[type_.base] = given.rstrip("*")
        setters = []
        for (type_, name), given in zip(function.params, args, strict=True):
            wanted = self.named(type_)
            if (wanted[-1] == "*") != (given[-1] == "*") or (wanted[-1] == "*" and wanted != given):
                raise Unsupported(f"an argument of type `{given}` for `{wanted} {name}`")
            if type_.reference and not type_.pointer:
                raise Unsupported(f"the reference parameter `{name}`")
            setters.append((self.declare(name, wanted), identity if wanted == given else converter(given, wanted)))
        body = self.statement(function.body)
        size, result = self.size, self.named(function.result)

        def call(warp: Warp, values: list[Any], mask: Array | None) -> Scalar:
            frame = Frame(warp, size, mask)
            for (slot, convert), value in zip(setters, values, strict=True):
                frame.v[slot] = convert(value)
            try:
                body(frame)
            except LeaveSignal as leave:
                return leave.value
            return None

        return result, call

    # ------------------------------------------------------------------------------------------ names and types
    def named(self, type_: CType) -> str:
        base = self.types.get(type_.base, type_.base)
        if base != "void" and base not in DTYPES:
            raise Unsupported(f"the type `{type_.base}`")
        return f"{base}*" if type_.pointer else base

    def declare(self, name: str, type_: str) -> int:
        self.scopes[-1][name] = (type_, self.size)
        self.size += 1
        return self.size - 1

    def lookup(self, name: str) -> tuple[str, Any]:
        for scope in reversed(self.scopes):
            if name in scope:
                type_, place = scope[name]
                return type_, place
        raise Unsupported(f"the name `{name}`")

    # ------------------------------------------------------------------------------------------ statements
    def statement(self, node: Statement | None) -> Execute:
        if isinstance(node, cnodes.Sequence):
            return self._sequence(node)
        if isinstance(node, cnodes.Declare):
            return self._declare(node)
        if isinstance(node, cnodes.Do):
            return self.expression(node.expression)[1]
        if isinstance(node, cnodes.Choose):
            return self._choose(node)
        if isinstance(node, cnodes.Loop):
            return self._loop(node)
        if isinstance(node, cnodes.Leave):
            return self._leave(node)
        return lambda frame: None

    def _sequence(self, node: cnodes.Sequence) -> Execute:
        if node.scope:
            self.scopes.append({})
        steps = [self.statement(s) for s in node.body]
        if node.scope:
            self.scopes.pop()
        if len(steps) == 1:
            return steps[0]

        def run(frame: Frame) -> None:
            for step in steps:
                step(frame)

        return run

    def _declare(self, node: cnodes.Declare) -> Execute:
        if node.type.length is not None:
            return self._declare_array(node)
        if node.init is None:
            type_ = self.named(node.type)
            slot, undefined = self.declare(node.name, type_), poison(type_.rstrip("*"))
            return lambda frame: assign_slot(frame, slot, undefined)
        if isinstance(node.init, tuple):
            raise Unsupported(f"braces around the value of `{node.name}`")
        given, value = self.expression(node.init)
        type_ = given if node.type.base == "auto" else self.named(node.type)
        convert = identity if type_ == given else self._converter(given, type_)
        slot = self.declare(node.name, type_)

        def run(frame: Frame) -> None:
            frame.v[slot] = convert(value(frame))

        return run

    def _declare_array(self, node: cnodes.Declare) -> Execute:
        assert node.type.length is not None
        type_ = self.named(CType(node.type.base))
        length = self.constant(node.type.length)
        if node.init is not None and not isinstance(node.init, tuple):
            raise Unsupported(f"the initial value of the array `{node.name}`")
        items = [self._converted(item, type_) for item in node.init or ()]
        slot, dtype, name = self.declare(node.name, f"{type_}*"), DTYPES[type_], node.name
        rest = poison(type_) if node.init is None else uniform(type_, 0)

        def run(frame: Frame) -> None:
            data = np.full((32, length), rest, dtype=dtype)
            for i, item in enumerate(items):
                data[:, i] = item(frame)
            frame.v[slot] = Pointer(Lanes(data, type_, name))

        return run

    def constant(self, node: Expression) -> int:
        try:
            value = self.expression(node)[1](Frame(None, 0, None))  # type: ignore[arg-type]
        except (AttributeError, IndexError, TypeError):
            raise Unsupported("an array length that is not a constant") from None
        return int(value)

    def _choose(self, node: cnodes.Choose) -> Execute:
        test = self.truth(node.test)
        then, otherwise = self.statement(node.then), self.statement(node.otherwise)

        def run(frame: Frame) -> None:
            found = test(frame)
            if not is_vector(found):
                (then if found else otherwise)(frame)
                return
            before = frame.mask
            for flags, side in ((found, then), (~found, otherwise)):
                active = flags if before is None else flags & before
                if active.any():
                    frame.mask = None if active.all() else active
                    without_escape(side, frame)
            frame.mask = before

        return run

    def _loop(self, node: cnodes.Loop) -> Execute:
        init = self.statement(node.init)
        test = self.truth(node.test) if node.test is not None else lambda frame: True
        body = self.statement(node.body)
        step = self.expression(node.step)[1] if node.step is not None else lambda frame: None

        def run(frame: Frame) -> None:
            init(frame)
            while same_everywhere(test(frame), frame):
                frame.warp.steps += 1
                if frame.warp.steps > frame.warp.cta.limit:
                    raise Unsupported("a loop that does not end")
                try:
                    body(frame)
                except LeaveSignal as leave:
                    if leave.kind == "return":
                        raise
                    if leave.kind == "break":
                        break
                step(frame)

        return run

    def _leave(self, node: cnodes.Leave) -> Execute:
        kind = node.kind
        value = self._converted(node.value, self.named(self.function.result)) if node.value is not None else nothing

        def run(frame: Frame) -> None:
            raise LeaveSignal(kind, value(frame))

        return run

    # ------------------------------------------------------------------------------------------ expressions
    def expression(self, node: Expression) -> Typed:
        if isinstance(node, cnodes.Number):
            known = uniform(node.type, node.value)
            return node.type, lambda frame: known
        if isinstance(node, cnodes.Name):
            return self._name(node)
        if isinstance(node, cnodes.Infix):
            return self._infix(node)
        if isinstance(node, cnodes.Assign):
            return self._assign(node)
        if isinstance(node, cnodes.Subscript):
            return self._element(node)[:2]
        if isinstance(node, cnodes.Prefix):
            return self._prefix(node)
        if isinstance(node, cnodes.Postfix):
            return self._step(node.operand, node.op, old=True)
        if isinstance(node, cnodes.Conditional):
            return self._conditional(node)
        if isinstance(node, cnodes.Convert):
            type_ = self.named(node.type)
            return type_, self._converted(node.operand, type_)
        return self._call(node)

    def truth(self, node: Expression) -> Evaluate:
        return self._converted(node, "bool")

    def _converted(self, node: Expression, type_: str) -> Evaluate:
        given, value = self.expression(node)
        if given == type_:
            return value
        convert = self._converter(given, type_)
        return lambda frame: convert(value(frame))

    def _converter(self, given: str, wanted: str) -> Callable[[Scalar], Scalar]:
        if given == wanted:
            return identity
        if "*" in given + wanted or "void" in (given, wanted):
            raise Unsupported(f"a conversion from `{given}` to `{wanted}`")
        return converter(given, wanted)

    def _name(self, node: cnodes.Name) -> Typed:
        special = {"threadIdx.x": thread_x, "blockIdx.x": 0, "blockIdx.y": 1, "blockIdx.z": 2}.get(node.name)
        if callable(special):
            return "u32", special
        if isinstance(special, int):
            axis = special
            return "u32", lambda frame: frame.warp.cta.block[axis]
        type_, slot = self.lookup(node.name)
        if callable(slot):
            return type_, slot
        return type_, lambda frame: frame.v[slot]

    def _common(self, left: str, right: str) -> str:
        """C's usual arithmetic conversions; 16-bit floats compute in f32 as the prelude's do."""
        for type_ in ("f64", "f32"):
            if type_ in (left, right):
                return type_
        if left in FLOATS or right in FLOATS:
            return "f32"
        if "u64" in (left, right):
            return "u64"
        if "s64" in (left, right):
            return "s64"
        return "u32" if "u32" in (left, right) else "s32"

    def _infix(self, node: cnodes.Infix) -> Typed:
        if node.op == ",":
            first, (type_, second) = self.expression(node.left)[1], self.expression(node.right)
            return type_, lambda frame: (first(frame), second(frame))[1]
        left, right = self.expression(node.left), self.expression(node.right)
        if left[0].endswith("*") or right[0].endswith("*"):
            return pointer_sum(node.op, left, right)
        if node.op in ("&&", "||"):
            return self._logic(node)
        common = left[0] if node.op in ("<<", ">>") and left[0] in WIDTH else self._common(left[0], right[0])
        a, b = self._converted(node.left, common), self._converted(node.right, common)
        function = operator(node.op, common)
        result = "bool" if OPERATORS[node.op] in arithmetic.COMPARISONS else common
        return result, lambda frame: function(a(frame), b(frame))

    def _logic(self, node: cnodes.Infix) -> Typed:
        a, b = self.truth(node.left), self.truth(node.right)
        function, stop = arithmetic.LOGIC[OPERATORS[node.op]], node.op == "||"

        def run(frame: Frame) -> Scalar:
            left = a(frame)
            if not is_vector(left) and bool(left) is stop:
                return left
            return function(left, b(frame))

        return "bool", run

    def _prefix(self, node: cnodes.Prefix) -> Typed:
        if node.op in ("++", "--"):
            return self._step(node.operand, node.op, old=False)
        if node.op == "&":
            return self._address(node.operand)
        if node.op == "*":
            return self._element(cnodes.Subscript(node.operand, cnodes.Number(0, "s32")))[:2]
        type_, value = self.expression(node.operand)
        if node.op == "+":
            return type_, value
        if node.op == "!":
            test, negate = self.truth(node.operand), arithmetic.unary("lnot", "bool")
            return "bool", lambda frame: negate(test(frame))
        type_ = self._common(type_, "s32") if type_ in WIDTH or type_ == "bool" else type_
        operand = self._converted(node.operand, type_)
        function = arithmetic.unary({"-": "neg", "~": "not"}[node.op], type_)
        return type_, lambda frame: function(operand(frame))

    def _address(self, node: Expression) -> Typed:
        if not isinstance(node, cnodes.Subscript):
            raise Unsupported("the address of a variable")
        array, pointer = self.expression(node.array)
        index = self.expression(node.index)
        return pointer_sum("+", (array, pointer), index)

    def _element(self, node: cnodes.Subscript) -> tuple[str, Evaluate, Callable[[Frame, Scalar], None]]:
        array, pointer = self.expression(node.array)
        if not array.endswith("*"):
            raise Unsupported("a subscript of something that is no array")
        index = self._converted(node.index, "s64")

        def get(frame: Frame) -> Scalar:
            at = pointer(frame)
            return at.storage.get(at.offset + index(frame), frame.warp)

        def put(frame: Frame, value: Scalar) -> None:
            at = pointer(frame)
            at.storage.set(at.offset + index(frame), value, frame.mask, frame.warp)

        return array[:-1], get, put

    def _place(self, node: Expression) -> tuple[str, Evaluate, Callable[[Frame, Scalar], None]]:
        """Something that can be assigned to."""
        if isinstance(node, cnodes.Subscript):
            return self._element(node)
        if isinstance(node, cnodes.Prefix) and node.op == "*":
            return self._element(cnodes.Subscript(node.operand, cnodes.Number(0, "s32")))
        if isinstance(node, cnodes.Name):
            type_, slot = self.lookup(node.name)
            if not callable(slot):
                return type_, lambda frame: frame.v[slot], lambda frame, value: assign_slot(frame, slot, value)
        raise Unsupported("an assignment to that")

    def _assign(self, node: cnodes.Assign) -> Typed:
        type_, get, put = self._place(node.target)
        if not node.op:
            value = self._converted(node.value, type_)

            def assign(frame: Frame) -> Scalar:
                found = value(frame)
                put(frame, found)
                return found

            return type_, assign
        if type_.endswith("*"):
            _, moved = pointer_sum(node.op, (type_, get), self.expression(node.value))
            return type_, lambda frame: put(frame, moved(frame))
        given = self.expression(node.value)[0]
        common = self._common(type_, given)
        right, widen, narrow = self._converted(node.value, common), converter(type_, common), converter(common, type_)
        function = operator(node.op, common)

        def update(frame: Frame) -> Scalar:
            found = narrow(function(widen(get(frame)), right(frame)))
            put(frame, found)
            return found

        return type_, update

    def _step(self, node: Expression, op: str, *, old: bool) -> Typed:
        type_, get, put = self._place(node)
        one = uniform(type_, 1) if not type_.endswith("*") else None
        if one is None:
            raise Unsupported(f"`{op}` of a pointer")
        function = arithmetic.binary("add" if op == "++" else "sub", type_)

        def run(frame: Frame) -> Scalar:
            before = get(frame)
            after = function(before, one)
            put(frame, after)
            return before if old else after

        return type_, run

    def _conditional(self, node: cnodes.Conditional) -> Typed:
        test = self.truth(node.test)
        left, right = self.expression(node.then)[0], self.expression(node.otherwise)[0]
        common = left if left == right else self._common(left, right)
        then, otherwise = self._converted(node.then, common), self._converted(node.otherwise, common)
        dtype = DTYPES.get(common)

        def run(frame: Frame) -> Scalar:
            found = test(frame)
            if not is_vector(found):
                return then(frame) if found else otherwise(frame)
            return np.asarray(np.where(found, then(frame), otherwise(frame)), dtype=dtype)

        return common, run

    # ------------------------------------------------------------------------------------------ calls
    def _call(self, node: cnodes.CallOf) -> Typed:
        if node.name in SHUFFLES:
            return self._shuffle(node)
        if node.name in ("__syncwarp",):
            return "void", nothing
        if node.name in UNARY_CALLS and len(node.args) == 1:
            type_ = "f64" if self.expression(node.args[0])[0] == "f64" else "f32"
            argument, function = (
                self._converted(node.args[0], type_),
                arithmetic.math(UNARY_CALLS[node.name], type_, type_),
            )
            assert function is not None
            return type_, lambda frame: function(argument(frame))
        if node.name in BINARY_CALLS and len(node.args) == 2:
            return self._pair(node)
        if node.name in ("fmaf", "__fmaf_rn", "croq::fma") and len(node.args) == 3:
            a, b, c = (self._converted(arg, "f32") for arg in node.args)
            fma = arithmetic.math("fmaf", "f32", "f32")
            assert fma is not None
            return "f32", lambda frame: fma(a(frame), b(frame), c(frame))
        return self._own(node)

    def _pair(self, node: cnodes.CallOf) -> Typed:
        kinds = [self.expression(arg)[0] for arg in node.args]
        common = "f32" if node.name in ("fmaxf", "fminf", "__fdividef", "croq::div") else self._common(*kinds)
        a, b = (self._converted(arg, common) for arg in node.args)
        function = operator(BINARY_CALLS[node.name], common)
        return common, lambda frame: function(a(frame), b(frame))

    def _shuffle(self, node: cnodes.CallOf) -> Typed:
        if len(node.args) != 3:
            raise Unsupported(f"`{node.name}` with a width")
        type_, value = self.expression(node.args[1])
        lanes, amount, partner = self.truth(node.args[0]), self._converted(node.args[2], "s32"), SHUFFLES[node.name]
        name = node.name

        def run(frame: Frame) -> Scalar:
            lanes(frame)
            if frame.mask is not None and not frame.mask.all():
                raise Unsupported(f"`{name}` by a part of a warp")
            found = value(frame)
            return found[partner(LANES, amount(frame))] if is_vector(found) else found

        return type_, run

    def _own(self, node: cnodes.CallOf) -> Typed:
        args = [self.expression(arg) for arg in node.args]
        template = tuple(self.named(a) if isinstance(a, CType) else self.constant(a) for a in node.template)
        try:
            result, function = self.library.find(node.name, template, tuple(type_ for type_, _ in args))
        except KeyError:
            raise Unsupported(f"a call of `{node.name}`") from None
        values = [value for _, value in args]
        return result, lambda frame: function(frame.warp, [value(frame) for value in values], frame.mask)
