"""The abstract syntax tree: one frozen class a construct, each with the span of its text.

Nodes compare by identity, so that later stages may key side tables by node. Nothing here is resolved: names are
strings, element types are the canonical spelling (`float` has already become `f32`), macros are already expanded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from croq.source import Span
from croq.syntax.outside import Outside


@dataclass(frozen=True, eq=False)
class Node:
    span: Span


# --------------------------------------------------------------------------------------------------- expressions
class Expr(Node):
    pass


@dataclass(frozen=True, eq=False)
class IntLit(Expr):
    value: int
    type: str  # s32 | u32 | s64 | u64


@dataclass(frozen=True, eq=False)
class FloatLit(Expr):
    value: float
    type: str  # f32 | f64; `inf` is an f32


@dataclass(frozen=True, eq=False)
class BoolLit(Expr):
    value: bool


@dataclass(frozen=True, eq=False)
class StrLit(Expr):
    value: str


@dataclass(frozen=True, eq=False)
class Name(Expr):
    id: str


@dataclass(frozen=True, eq=False)
class Wildcard(Expr):
    """`_`: a whole dimension in a view, the computed thread count in `launch_bounds`."""


@dataclass(frozen=True, eq=False)
class Unary(Expr):
    op: Literal["-", "!", "~", "#"]  # `#x` is the upper bound of x
    operand: Expr


@dataclass(frozen=True, eq=False)
class Binary(Expr):
    op: str  # + - * / % << >> < > <= >= == != && || & ^ | #
    left: Expr
    right: Expr


@dataclass(frozen=True, eq=False)
class Ternary(Expr):
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, eq=False)
class IncDec(Expr):
    op: Literal["++", "--"]
    prefix: bool
    target: Expr  # sema accepts only the name of a mutable integer


@dataclass(frozen=True, eq=False)
class Cast(Expr):
    """`__to<T>(e)`."""

    type: str
    operand: Expr


@dataclass(frozen=True, eq=False)
class Builtin(Expr):
    """A builtin function of the language: `cdiv`, `__max`, `__exp2f`, ..."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class SizeOf(Expr):
    """`|T|`: bytes of an element type."""

    type: str


@dataclass(frozen=True, eq=False)
class CountOf(Expr):
    """`|x.span|`: number of elements."""

    shape: Expr


@dataclass(frozen=True, eq=False)
class DeviceCall(Expr):
    """`call f<64>(args)`: a device function of the file or of the C++ around it; `name` may hold `::`."""

    name: str
    name_span: Span
    template_args: tuple[Expr, ...]
    args: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Subscript(Expr):
    """`tile[slot]`: one buffer or event of an array."""

    base: Expr
    indices: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class At(Expr):
    """`x.at(i, j)`: an element of data or of a fragment, or, on an event array, the generation `order`."""

    base: Expr
    indices: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class SpanOf(Expr):
    """`x.span` or `x.span(k)`."""

    base: Expr
    axis: Expr | None


@dataclass(frozen=True, eq=False)
class DataOf(Expr):
    """`f.data`: the destination of a data future."""

    base: Expr


# --------------------------------------------------------------------------------------------------------- views
@dataclass(frozen=True, eq=False)
class ChunkAt(Expr):
    base: Expr
    indices: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Subspan(Expr):
    base: Expr
    extents: tuple[Expr, ...]
    step: tuple[Expr, ...] | None
    at: tuple[Expr, ...] | None


@dataclass(frozen=True, eq=False)
class Squeeze(Expr):
    base: Expr


# ---------------------------------------------------------------------------------------------------- statements
class Stmt(Node):
    pass


@dataclass(frozen=True, eq=False)
class Block(Node):
    """A scope."""

    body: tuple[Stmt, ...]


Storage = Literal["global", "shared", "local"]


@dataclass(frozen=True, eq=False)
class ScalarDecl(Stmt):
    """`mutable u32 n = 0;`. A declaration of several names becomes several nodes, here and below."""

    name: str
    name_span: Span
    type: str | None
    mutable: bool
    storage: Storage | None
    init: Expr | None


@dataclass(frozen=True, eq=False)
class BufferDecl(Stmt):
    """`shared bf16 [128, 64] tile[STAGES];`"""

    name: str
    name_span: Span
    storage: Storage | None
    element: str
    shape: tuple[Expr, ...]
    array: tuple[Expr, ...]
    init: Expr | None


@dataclass(frozen=True, eq=False)
class FragDecl(Stmt):
    """`frag f32 [64] row_max {-inf};`"""

    name: str
    name_span: Span
    element: str
    shape: tuple[Expr, ...]
    array: tuple[Expr, ...]
    init: Expr | None


@dataclass(frozen=True, eq=False)
class EventDecl(Stmt):
    """`shared event full[STAGES] = ready;`"""

    name: str
    name_span: Span
    storage: Storage | None
    array: tuple[Expr, ...]
    ready: bool


@dataclass(frozen=True, eq=False)
class Assign(Stmt):
    """`x = e;` (declares or assigns, sema decides), `x += e;`, `x.at(i) = e;`."""

    target: Expr  # Name or At
    op: str  # "=", "+=", "-=", "*=", "/=", "%="
    value: Expr


@dataclass(frozen=True, eq=False)
class ExprStmt(Stmt):
    """`n++;` or `call f(x);`."""

    value: Expr


@dataclass(frozen=True, eq=False)
class Move(Stmt):
    """`f = tma.load.async.evict_first.swiz<128> src => dst;`"""

    name: str | None
    name_span: Span | None
    engine: Literal["dma", "tma"]
    op: Literal["copy", "load"]
    is_async: bool
    evict: Literal["evict_first", "evict_last"] | None
    swizzle: int | None  # bytes; None: not written
    source: Expr
    dest: Expr | Storage  # a view, or the storage of a buffer that the compiler makes


@dataclass(frozen=True, eq=False)
class MmaFill(Stmt):
    """`acc = mma.fill.f32 0.0f;` (declares or refills) or `mma.fill acc, v;` (refills only)."""

    name: str
    name_span: Span
    element: str | None
    value: Expr
    refill: bool


@dataclass(frozen=True, eq=False)
class MmaLoad(Stmt):
    """`a = mma.load s.chunkat(_, k);`: a register operand, or a plain name for a shared one."""

    name: str
    name_span: Span
    swizzle: int | None
    source: Expr


@dataclass(frozen=True, eq=False)
class Mma(Stmt):
    """`qk = mma.row.row.async acc, a, b;`: acc += a * b."""

    name: str | None
    name_span: Span | None
    a_layout: Literal["row", "col"]
    b_layout: Literal["row", "col"]
    is_async: bool
    acc: Expr
    a: Expr
    b: Expr


@dataclass(frozen=True, eq=False)
class MmaStore(Stmt):
    acc: Expr
    dest: Expr


@dataclass(frozen=True, eq=False)
class FragCopy(Stmt):
    dest: Expr
    source: Expr


@dataclass(frozen=True, eq=False)
class FragReduce(Stmt):
    """`reduce_max(dst, src, 1);`"""

    kind: Literal["max", "sum"]
    dest: Expr
    source: Expr
    axis: Expr


@dataclass(frozen=True, eq=False)
class FragAllReduce(Stmt):
    kind: Literal["sum"]
    frag: Expr


@dataclass(frozen=True, eq=False)
class Apply(Stmt):
    """`apply {i, j} in x.span body`."""

    iterators: tuple[Name, ...]
    frag: Expr
    body: Block


@dataclass(frozen=True, eq=False)
class Wait(Stmt):
    refs: tuple[Expr, ...]  # Name | Subscript | At


@dataclass(frozen=True, eq=False)
class Trigger(Stmt):
    events: tuple[Expr, ...]  # Name | Subscript | At
    after: tuple[Name, ...]


@dataclass(frozen=True, eq=False)
class If(Stmt):
    condition: Expr
    then: Block
    otherwise: Block | None


@dataclass(frozen=True, eq=False)
class While(Stmt):
    condition: Expr
    body: Block


@dataclass(frozen=True, eq=False)
class Within(Node):
    """`{i, j} in [m, n]`, `i in n`, `t = {i, j} in [m, n]`."""

    tuple_name: str | None
    names: tuple[Name, ...]
    ranges: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Foreach(Stmt):
    """With ranges it declares its variables; without (`ranges` empty) it iterates names that a `with` declared."""

    iterators: tuple[Within, ...]
    body: Block


@dataclass(frozen=True, eq=False)
class With(Stmt):
    iterators: tuple[Within, ...]
    body: Block


@dataclass(frozen=True, eq=False)
class Break(Stmt):
    pass


@dataclass(frozen=True, eq=False)
class Continue(Stmt):
    pass


Level = Literal["block", "group-4", "group", "thread"]


@dataclass(frozen=True, eq=False)
class ParallelBinding(Node):
    """`{x, y} by [m, n] : block`. `names` may be empty (`by 128 : thread`)."""

    tuple_name: str | None
    names: tuple[Name, ...]
    bounds: tuple[Expr, ...]
    level: Level | None


@dataclass(frozen=True, eq=False)
class Attribute(Node):
    """`[[launch_bounds(_, 1)]]`."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Parallel(Stmt):
    """`parallel p by 3 : group-4, t by 128 : thread body`: the comma form is kept, outermost first."""

    attributes: tuple[Attribute, ...]
    is_async: bool
    bindings: tuple[ParallelBinding, ...]
    body: Block


@dataclass(frozen=True, eq=False)
class InThreads(Stmt):
    is_async: bool
    condition: Expr
    body: Block


@dataclass(frozen=True, eq=False)
class Return(Stmt):
    value: Expr | None


@dataclass(frozen=True, eq=False)
class Sync(Stmt):
    """`sync.shared;` or `sync.barrier : block;`."""

    kind: Literal["shared", "barrier", "fence"]
    scope: str | None


@dataclass(frozen=True, eq=False)
class Assert(Stmt):
    """`assert(Q_SEQ == KV_SEQ, "why");` at host level: what the arguments of a launch must satisfy."""

    condition: Expr
    message: str


@dataclass(frozen=True, eq=False)
class CppText(Stmt):
    """`__cpp__("text");`"""

    text: str


# ------------------------------------------------------------------------------------------------------- program
@dataclass(frozen=True, eq=False)
class Dim(Node):
    """One dimension of a parameter: a constant expression, a symbol, or `?` (neither)."""

    value: Expr | None


@dataclass(frozen=True, eq=False)
class Param(Node):
    """`global bf16 [B, S, H, 128] q` (dims given) or `float scale` (dims None)."""

    name: str | None
    name_span: Span
    is_global: bool
    type: str
    dims: tuple[Dim, ...] | None


@dataclass(frozen=True, eq=False)
class Function(Node):
    """A `__co__` function. `return_dims` is None for scalars, `void` and `auto`."""

    name: str
    name_span: Span
    return_type: str
    return_dims: tuple[Dim, ...] | None
    params: tuple[Param, ...]
    body: Block


@dataclass(frozen=True, eq=False)
class HostText(Node):
    """C++ outside `__co__` and `__device__` functions, verbatim."""

    text: str


@dataclass(frozen=True, eq=False)
class DeviceText(Node):
    """A `__device__` function, or the inside of a `__cok__` block, verbatim; `name` is None where it declares none."""

    text: str
    name: str | None


@dataclass(frozen=True, eq=False)
class Program(Node):
    """`outside`: the C++ of the file once more, as declarations."""

    items: tuple[Function | HostText | DeviceText, ...]
    outside: Outside = field(default=Outside(), metadata={"shown": False})

    @property
    def functions(self) -> tuple[Function, ...]:
        return tuple(item for item in self.items if isinstance(item, Function))
