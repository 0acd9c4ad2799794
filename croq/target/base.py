"""What an architecture is to the compiler: a name, a few limits, and the matrix products that its tensor cores have.

A `Target` is data. `croq.target.TARGETS` has one for each folder of this package; the settings name it, and model,
kernels and everything behind them carry that name. Facts that all architectures share stand in croq/target/cuda.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Place = Literal["a", "b", "acc"]


@dataclass(frozen=True)
class Product:
    """acc[m, n] += a[m, k] * b[n, k], with the element types of the three.

    `a_transposed`, `b_transposed`: M or N is contiguous in shared memory, not K.
    """

    m: int
    n: int
    k: int
    a: str
    b: str
    acc: str
    a_in_registers: bool = False
    a_transposed: bool = False
    b_transposed: bool = False


@dataclass(frozen=True)
class Fault:
    """Why there is no such product, and by which of its parts; `against` another one, where two do not agree."""

    code: str
    at: Place
    message: str
    note: str = ""
    hint: str | None = None
    against: Place | None = None


@dataclass(frozen=True)
class Element:
    """What tensor cores do with operands of one type. `k`: of one instruction. `sums`: types of accumulators.

    `mixes`: types that the other operand may have. `transposes`: M or N may be contiguous in shared memory.
    `in_registers`: A may be a fragment, because its elements lie in registers as those of an accumulator do.
    """

    k: int
    sums: tuple[str, ...]
    mixes: tuple[str, ...] = ()
    transposes: bool = False
    in_registers: bool = False


@dataclass(frozen=True)
class TensorCore:
    """The products of one warpgroup: multiples of `m` rows, `n` columns, and for each type multiples of its K."""

    m: int
    n: range
    elements: Mapping[str, Element]

    def faults(self, product: Product) -> Iterator[Fault]:
        """Everything that stands against a product, at most one fault for each reason."""
        if (wrong := self._type(product)) is not None:
            yield wrong
        else:
            yield from self._layout(product)
        if (wrong := self._extent(product)) is not None:
            yield wrong

    def _type(self, product: Product) -> Fault | None:
        a, b = product.a, product.b
        found = self.elements.get(a)
        if a != b and (found is None or b not in found.mixes):
            return Fault("E-1113", "b", f"A has elements of `{a}`, B of `{b}`", against="a")
        if found is None:
            types = ", ".join(sorted(self.elements))
            return Fault("E-1113", "a", f"no tensor core instruction multiplies `{a}`", f"it is one of {types}")
        if product.acc not in found.sums:
            message = f"products of `{a}` cannot be summed in `{product.acc}`"
            return Fault("E-1113", "acc", message, hint=f"use an `{found.sums[0]}` accumulator")
        return None

    def _layout(self, product: Product) -> Iterator[Fault]:
        either = "16-bit types may be stored the other way"
        a, b = self.elements[product.a], self.elements[product.b]
        if product.b_transposed and not b.transposes:
            yield Fault(
                "E-1113", "b", f"B of `{product.b}` must have K contiguous", f"only {either}", "use `.row` for B"
            )
        if product.a_transposed and (product.a_in_registers or not a.transposes):
            yield Fault("E-1113", "a", "A must have K contiguous here", f"only shared tiles of {either}")
        if product.a_in_registers and not a.in_registers:
            yield Fault(
                "E-1114",
                "a",
                f"a fragment of `{product.a}` cannot be an operand",
                f"in registers A is one of {', '.join(t for t, e in self.elements.items() if e.in_registers)}",
                "convert it with `apply` to a fragment of such a type, or store it to a shared tile",
            )

    def _extent(self, product: Product) -> Fault | None:
        step = self.elements[product.a].k if product.a in self.elements else 1
        if product.m % self.m or product.m <= 0:
            return Fault("E-1113", "a", f"M is {product.m}", f"a warpgroup computes multiples of {self.m} rows")
        if product.n not in self.n:
            return Fault("E-1113", "b", f"N is {product.n}", f"it is a multiple of {self.n.step}, at most {self.n[-1]}")
        if product.k % step or product.k <= 0:
            return Fault("E-1113", "a", f"K is {product.k}", f"for `{product.a}` it is a multiple of {step}")
        return None


@dataclass(frozen=True)
class Cost:
    """Of an instruction or a latency: `value` in the unit that `what` says, cycles where it says none."""

    value: float
    measured: bool
    what: str


@dataclass(frozen=True)
class Target:
    """One architecture. `register_requests`: the operands of `setmaxnreg`. `costs`: in modelled time, by name."""

    name: str
    capability: tuple[int, int]
    shared_bytes: int  # of a CTA
    registers: int  # of a CTA, and of an SM, 32 bits each
    sm_shared_bytes: int  # of an SM
    cta_shared_reserved: int  # bytes that the system takes of each CTA
    sm_warps: int
    sm_ctas: int
    register_requests: range
    named_barriers: int
    tensor_core: TensorCore
    costs: Mapping[str, Cost]

    def cycles(self, name: str) -> float:
        return self.costs[name].value
