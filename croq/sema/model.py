"""What the analysis hands over: tables keyed by AST node (nodes compare by identity)."""

from __future__ import annotations

from dataclasses import dataclass, field

from croq.sema.symbolic import Dim
from croq.sema.symbols import DataSymbol, EventUse, FragmentSymbol, ScalarSymbol, Symbol
from croq.sema.types import Scalar, View
from croq.source import Span
from croq.syntax import ast
from croq.target import DEFAULT, Target


@dataclass(eq=False)
class Level:
    """One binding of a `parallel`, with its level settled.

    `counts` has one entry a name (one in all when there are no names), the first varying fastest. `unit` is the number
    of threads in one unit of the level; for `block` that is the CTA.
    """

    level: ast.Level
    counts: tuple[Dim, ...]
    variables: tuple[ScalarSymbol, ...]
    unit: int = 1

    @property
    def total(self) -> int:
        """Units of the level inside one unit of the level around it (constant below `block`)."""
        product = 1
        for count in self.counts:
            product *= count.known or 1
        return product


@dataclass(eq=False)
class KernelModel:
    """One `parallel` at host level."""

    name: str
    function: FunctionModel
    parallel: ast.Parallel
    is_async: bool = False
    grid: tuple[Dim, Dim, Dim] = (Dim.of(1), Dim.of(1), Dim.of(1))
    grid_rank: int = 1
    threads: int = 1
    max_threads: int | None = None
    min_blocks: int | None = None


@dataclass(frozen=True)
class Requirement:
    """`left op right` over dimensions and integer parameters, asserted at host level; checked before every launch."""

    op: str  # == != < <= > >=
    left: Dim
    right: Dim
    message: str
    span: Span


@dataclass(eq=False)
class FunctionModel:
    """`params` holds a DataSymbol or ScalarSymbol each; `host` the scalar declarations at host level, in order."""

    function: ast.Function
    params: list[DataSymbol | ScalarSymbol] = field(default_factory=list)
    host: list[ast.ScalarDecl | ast.Assign] = field(default_factory=list)
    kernels: list[KernelModel] = field(default_factory=list)
    requires: list[Requirement] = field(default_factory=list)  # asserted before the first launch


@dataclass(eq=False)
class FragmentUse:
    """A fragment, or element `index` of an array of fragments."""

    fragment: FragmentSymbol
    index: int | None = None


@dataclass(eq=False)
class Model:
    """The program with everything resolved.

    `symbols` maps a Name to what it refers to, and a declaring statement (or the Name of an iterator) to what it
    declares: an Assign, MmaFill or Move that is no key of it assigns to (or refills) an existing name.
    """

    program: ast.Program
    target: Target = DEFAULT
    functions: list[FunctionModel] = field(default_factory=list)
    types: dict[ast.Expr, Scalar] = field(default_factory=dict)
    views: dict[ast.Expr, View] = field(default_factory=dict)
    symbols: dict[ast.Node, Symbol] = field(default_factory=dict)
    targets: dict[ast.Stmt, Symbol] = field(default_factory=dict)  # what an assigning or refilling statement changes
    fragments: dict[ast.Expr, FragmentUse] = field(default_factory=dict)
    events: dict[ast.Expr, EventUse] = field(default_factory=dict)
    levels: dict[ast.ParallelBinding, Level] = field(default_factory=dict)
    buffers: dict[ast.Move, DataSymbol] = field(default_factory=dict)  # made by `=> shared`
    loops: dict[ast.Name, ScalarSymbol] = field(
        default_factory=dict
    )  # `foreach i`: the running i, symbols has the `with`'s
    indices: dict[ast.At, tuple[ast.Expr, ...]] = field(default_factory=dict)  # of element accesses, groups expanded
    ranges: dict[ast.Within, tuple[Scalar, ...]] = field(default_factory=dict)  # counts of the iteration variables

    @property
    def kernels(self) -> list[KernelModel]:
        return [kernel for function in self.functions for kernel in function.kernels]
