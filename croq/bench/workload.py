"""The attention workload: its sizes, its work, and how the parameters of a compiled kernel are bound to it.

The compiler knows nothing of attention; a kernel is recognised here by its signature: four arrays of rank 4 in BSHD
layout (Q, K, V, O), and for persistent kernels the host-built work list (`tasks`, `offsets`) of `croq.bench.schedule`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from croq.diagnostics import Diagnostic, LaunchError, make

Array = NDArray[Any]
Slab = tuple[int, int]  # (batch, head)
Role = Literal["q", "k", "v", "o", "tasks", "offsets"]

NUMPY_DTYPES: Mapping[str, np.dtype[Any]] = {
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
}
LIST_DTYPES: Mapping[str, np.dtype[Any]] = {"s32": np.dtype(np.int32), "u32": np.dtype(np.uint32)}

_NAMES: Mapping[Role, frozenset[str]] = {
    "q": frozenset({"q", "query", "queries"}),
    "k": frozenset({"k", "key", "keys"}),
    "v": frozenset({"v", "value", "values"}),
    "o": frozenset({"o", "out", "output"}),
    "tasks": frozenset({"tasks", "task_list"}),
    "offsets": frozenset({"offsets", "task_offsets"}),
}
_ARRAYS: tuple[Role, ...] = ("q", "k", "v", "o")
_LISTS: tuple[Role, ...] = ("tasks", "offsets")


class Param(Protocol):
    """A parameter of a compiled kernel. `shape` holds integers and symbols; it is `None` or empty for a scalar."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> Sequence[Any] | None: ...


class Kernel(Protocol):
    """What the bench needs of a compiled kernel: its parameters, its plan, and that it can be launched."""

    @property
    def params(self) -> Sequence[Param]: ...
    @property
    def plan(self) -> Any: ...
    def __call__(self, *args: Any, stream: Any = None) -> Any: ...


@dataclass(frozen=True)
class AttentionWorkload:
    """Attention forward over `[batch, seq, heads, dim]` arrays; queries and keys have the same length."""

    batch: int = 4
    heads: int = 32
    seq: int = 8192
    dim: int = 128
    dtype: str = "bf16"
    causal: bool = True

    def __post_init__(self) -> None:
        wrong = [name for name in ("batch", "heads", "seq", "dim") if getattr(self, name) < 1]
        if wrong:
            name = wrong[0]
            raise LaunchError([make("E-4150", None, f"`{name}` of the workload is {getattr(self, name)}: at least 1")])
        if self.dtype not in NUMPY_DTYPES:
            hint = f"use one of {', '.join(NUMPY_DTYPES)}"
            raise LaunchError([make("E-4150", None, f"attention inputs cannot be made in `{self.dtype}`", hint=hint)])

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.seq, self.heads, self.dim

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return NUMPY_DTYPES[self.dtype]

    @property
    def scale(self) -> float:
        """The factor of the scores, `1 / sqrt(dim)`."""
        return 1.0 / math.sqrt(self.dim)

    @property
    def slabs(self) -> tuple[Slab, ...]:
        """Every (batch, head), batch first."""
        return tuple((b, h) for b in range(self.batch) for h in range(self.heads))

    @property
    def flop(self) -> float:
        """Useful operations of QK and PV; the causal half is counted as exactly half (the seed's formula)."""
        return (2.0 if self.causal else 4.0) * self.batch * self.heads * self.seq * self.seq * self.dim

    def tflops(self, milliseconds: float) -> float:
        """Throughput in TFLOPS of one execution that took `milliseconds`."""
        return self.flop / (milliseconds * 1e9)

    def describe(self) -> str:
        mask = "causal" if self.causal else "no mask"
        return f"B={self.batch} H={self.heads} S={self.seq} D={self.dim} {self.dtype}, {mask}"


@dataclass(frozen=True)
class Binding:
    """The role of each kernel parameter, in the order of the parameters."""

    params: tuple[Param, ...]
    roles: tuple[Role, ...]

    @property
    def persistent(self) -> bool:
        """Whether the kernel takes a work list."""
        return "tasks" in self.roles

    @property
    def dtype(self) -> str:
        """Element type of Q."""
        return self.params[self.roles.index("q")].dtype

    def adapt(self, workload: AttentionWorkload) -> AttentionWorkload:
        """The workload with the kernel's element type; raises `LaunchError` if the kernel's fixed sizes differ."""
        adapted = replace(workload, dtype=self.dtype)
        sizes = {"batch": adapted.batch, "seq": adapted.seq, "heads": adapted.heads, "dim": adapted.dim}
        faults = []
        for param, role in zip(self.params, self.roles, strict=True):
            if role in _LISTS:
                continue
            for (axis, size), wanted in zip(sizes.items(), param.shape or (), strict=True):
                literal = as_int(wanted)
                if literal is not None and literal != size:
                    text = f"parameter `{param.name}` fixes {axis} at {literal}, and the workload has {size}"
                    faults.append(make("E-4152", None, text, hint=f"ask for {axis} {literal}, or change the kernel"))
        if faults:
            raise LaunchError(faults)
        return adapted

    def arguments(self, values: Mapping[Role, Any]) -> list[Any]:
        """The values in the order of the parameters."""
        return [values[role] for role in self.roles]

    def list_dtype(self, role: Role) -> np.dtype[Any]:
        """Element type in which the kernel reads `tasks` or `offsets`."""
        return LIST_DTYPES[self.params[self.roles.index(role)].dtype]


def bind(params: Sequence[Param]) -> Binding:
    """Find Q, K, V, O and the work list in a kernel's signature: by name, else the four rank-4 arrays in order.

    Raises `LaunchError` (E-4151) when the kernel is not an attention kernel of a known signature.
    """
    roles: list[Role | None] = [_role_by_name(param) for param in params]
    if not all(roles.count(role) == 1 for role in _ARRAYS):
        rank4 = [i for i, param in enumerate(params) if _rank(param) == 4]
        if len(rank4) != len(_ARRAYS):
            raise _unknown(f"it has {len(rank4)} arrays of rank 4, and attention has four: Q, K, V, O")
        roles = [role if role in _LISTS else None for role in roles]
        for index, role in zip(rank4, _ARRAYS, strict=True):
            roles[index] = role
    faults = [_check_param(param, role) for param, role in zip(params, roles, strict=True)]
    found = [fault for fault in faults if fault is not None]
    if found:
        raise LaunchError(found)
    bound = tuple(role for role in roles if role is not None)
    if ("tasks" in bound) != ("offsets" in bound):
        raise _unknown("`tasks` and `offsets` come together")
    if len(set(bound)) != len(bound):
        raise _unknown("two parameters have the same role")
    binding = Binding(tuple(params), bound)
    dtypes = {p.dtype for p, r in zip(params, bound, strict=True) if r in ("q", "k", "v")}
    if len(dtypes) != 1 or not dtypes <= set(NUMPY_DTYPES):
        raise _unknown(f"Q, K and V must have one of the element types {', '.join(NUMPY_DTYPES)}, the same for all")
    return binding


def persistent_blocks(plan: Any) -> int:
    """The number of blocks of the first kernel of a plan, which for a persistent kernel does not depend on sizes."""
    grid = plan[0]["grid"]
    dims = [as_int(dim) for dim in grid]
    known = [dim for dim in dims if dim is not None]
    if len(known) != len(dims):
        text = f"the kernel takes a task list, but its grid {grid} depends on the sizes"
        raise LaunchError([make("E-4153", None, text, hint="launch a fixed number of blocks, one for each list")])
    return math.prod(known)


def as_int(dim: object) -> int | None:
    """The value of a dimension that is a number (`128` or `"128"`), else `None`."""
    if isinstance(dim, int):
        return dim
    text = str(dim)
    return int(text) if text.isdecimal() else None


def _role_by_name(param: Param) -> Role | None:
    wanted_rank = {4: _ARRAYS, 1: _LISTS}.get(_rank(param), ())
    name = param.name.lower().strip("_")
    return next((role for role in wanted_rank if name in _NAMES[role]), None)


def _rank(param: Param) -> int:
    return len(param.shape or ())


def _check_param(param: Param, role: Role | None) -> Diagnostic | None:
    if role is None:
        text = f"parameter `{param.name}` has no meaning in an attention workload"
        return make("E-4151", None, text, hint="call the kernel from Python, with a value for each parameter")
    if role in _LISTS and param.dtype not in LIST_DTYPES:
        return make("E-4151", None, f"parameter `{param.name}` must be a list of s32 or u32, not `{param.dtype}`")
    return None


def _unknown(why: str) -> LaunchError:
    hint = "call the kernel from Python, with a value for each parameter"
    return LaunchError([make("E-4151", None, "the kernel is not an attention kernel", notes=[why], hint=hint)])
