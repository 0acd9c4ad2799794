"""The WGMMA instructions of sm_90a: their shapes, and the C++ wrapper of exactly one of them.

`runtime/croq.cuh` holds every other instruction; WGMMA is written for each use, because an asm statement must list
every accumulator register and there are 32 values of N. The emitter pastes the text near the top of the file that it
makes.

Source: PTX ISA, "wgmma.mma_async" (shapes, types, operands) and "Register Fragments" (register counts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from croq.target.base import Element, Product
from croq.target.cuda import MAX_REGISTERS
from croq.target.sm90.wgmma import WGMMA, M

RegisterKind = Literal["f32", "u32"]

A_REGISTERS = 4  # 32-bit registers a thread that hold the 64 x K fragment of A, whatever the type
WRAP = 110


@dataclass(frozen=True)
class Wgmma:
    """One WGMMA instruction, `D[64, n] += A[64, k] * B[k, n]`; types have the names that the language gives them.

    `a_in_registers`: A comes from four registers a thread instead of a descriptor. `trans_a`, `trans_b`: the operand
    is MN-major in shared memory (M or N contiguous) instead of K-major. Raises ValueError for what WGMMA does not have.
    """

    shape_n: int
    a_in_registers: bool
    a_type: str
    b_type: str
    acc_type: str = "f32"
    trans_a: bool = False
    trans_b: bool = False

    def __post_init__(self) -> None:
        k = self._element.k if self.a_type in WGMMA.elements else 0
        how = self.a_in_registers, self.trans_a, self.trans_b
        fault = next(WGMMA.faults(Product(M, self.shape_n, k, self.a_type, self.b_type, self.acc_type, *how)), None)
        if fault is not None:
            raise ValueError(f"no such wgmma: {fault.message}")

    @property
    def _element(self) -> Element:
        return WGMMA.elements[self.a_type]

    @property
    def shape_k(self) -> int:
        return self._element.k

    @property
    def acc_registers(self) -> int:
        """32-bit accumulator registers of a thread: N/2 for f32, N/4 (packed pairs) for f16."""
        return self.shape_n // (2 if self.acc_type == "f32" else 4)

    @property
    def name(self) -> str:
        """The C++ name, e.g. `wgmma_m64n128k16_bf16_rs_tb`."""
        types = dict.fromkeys((_ptx(self.a_type), _ptx(self.b_type)))
        parts = [f"wgmma_m64n{self.shape_n}k{self.shape_k}", *types, "rs" if self.a_in_registers else "ss"]
        if self.acc_type == "f16":
            parts.append("f16acc")
        if self.trans_a:
            parts.append("ta")
        if self.trans_b:
            parts.append("tb")
        return "_".join(parts)

    @property
    def mnemonic(self) -> str:
        shape = f"m64n{self.shape_n}k{self.shape_k}"
        return f"wgmma.mma_async.sync.aligned.{shape}.{self.acc_type}.{_ptx(self.a_type)}.{_ptx(self.b_type)}"

    @property
    def wrapper(self) -> str:
        """C++ text of `name(d, a.., b, scale_d)`; `scale_d` of 0 ignores the old contents of d. Ends with a newline."""
        n = self.acc_registers
        a_count = A_REGISTERS if self.a_in_registers else 1
        a_names = [f"a{i}" for i in range(a_count)] if self.a_in_registers else ["a"]
        acc_cpp, constraint = ("float", "+f") if self.acc_type == "f32" else ("croq::u32", "+r")
        a_params = [f"croq::{'u32' if self.a_in_registers else 'u64'} {a}" for a in a_names]
        a_percents = [f"%{n + i}" for i in range(a_count)]
        a_operand = "{" + ", ".join(a_percents) + "}" if self.a_in_registers else a_percents[0]
        b_operand, scale = f"%{n + a_count}", f"%{n + a_count + 1}"
        tail = f"{a_operand}, {b_operand}, p, 1, 1{self._transpose_immediates()};"
        lines = [
            f"// {self._summary()}",
            *_signature(self.name, [f"{acc_cpp} (&d)[{n}]", *a_params, "croq::u64 b", "int scale_d"]),
            "    asm volatile(",
            *_quoted(["{", ".reg .pred p;", f"setp.ne.b32 p, {scale}, 0;"]),
            f'        "{self.mnemonic} "',
            *_quoted_list([f"%{i}" for i in range(n)]),
            *_quoted([tail, "}"]),
            *_operands(":", [f'"{constraint}"(d[{i}])' for i in range(n)]),
            *_operands(
                ":",
                [f'"{"r" if self.a_in_registers else "l"}"({a})' for a in a_names] + ['"l"(b)', '"r"(scale_d)'],
            ),
        ]
        lines[-1] += ");"
        return "\n".join([*lines, "}", ""])

    def _transpose_immediates(self) -> str:
        if not self._element.transposes:
            return ""
        trans_b = f", {int(self.trans_b)}"
        return trans_b if self.a_in_registers else f", {int(self.trans_a)}{trans_b}"

    def _summary(self) -> str:
        a = "in registers" if self.a_in_registers else f"{'M' if self.trans_a else 'K'}-major in shared memory"
        b = f"{'N' if self.trans_b else 'K'}-major"
        k = self.shape_k
        return f"d[64, {self.shape_n}] += A[64, {k}] {a} * B[{k}, {self.shape_n}] {b}. PTX ISA, wgmma.mma_async"


SIGNATURE = "CROQ_FN void"  # CROQ_FN is the prelude's `__device__ __forceinline__`


def _ptx(type: str) -> str:
    return type.removeprefix("f8_")


def register_fence(count: int, kind: RegisterKind = "f32") -> str:
    """C++ text of `register_fence(r)` for an array of `count` registers: an empty asm that reads and writes them all.

    It keeps the compiler from moving accesses of registers that an asynchronous WGMMA owns across a fence or a wait.
    The overloads for different counts and kinds may stand in one file. `f32` for accumulators, `u32` for packed
    pairs.
    """
    if not 1 <= count <= MAX_REGISTERS:
        raise ValueError(f"a register fence over {count} registers")
    cpp, constraint = ("float", "+f") if kind == "f32" else ("croq::u32", "+r")
    lines = [
        "// The compiler may not move accesses of these registers across this point.",
        f"{SIGNATURE} register_fence({cpp} (&r)[{count}]) {{",
        '    asm volatile(""',
        *_operands(":", [f'"{constraint}"(r[{i}])' for i in range(count)]),
        '        :: "memory");',
        "}",
        "",
    ]
    return "\n".join(lines)


def _signature(name: str, parameters: list[str]) -> list[str]:
    opening = f"{SIGNATURE} {name}("
    lines = _fill(parameters, WRAP - len(opening) - 3)
    return [(opening if i == 0 else " " * len(opening)) + line for i, line in enumerate(lines[:-1])] + [
        (opening if len(lines) == 1 else " " * len(opening)) + lines[-1] + ") {"
    ]


def _quoted(lines: list[str]) -> list[str]:
    return [f'        "{line}\\n"' for line in lines]


def _quoted_list(items: list[str]) -> list[str]:
    """The braced operand list `{..}, ` as adjacent string literals."""
    chunks = _fill(items, WRAP - 14)
    chunks[0] = "{" + chunks[0]
    chunks[-1] = chunks[-1] + "},"
    return [f'        "{chunk} "' for chunk in chunks]


def _operands(mark: str, items: list[str]) -> list[str]:
    chunks = _fill(items, WRAP - 10)
    return [f"        {mark if i == 0 else ' ' * len(mark)} {chunk}" for i, chunk in enumerate(chunks)]


def _fill(items: list[str], width: int) -> list[str]:
    """Comma-separated items, filled into lines of at most `width` characters; all lines but the last end in a comma."""
    lines: list[str] = []
    line = ""
    for i, item in enumerate(items):
        piece = item + ("," if i + 1 < len(items) else "")
        if line and len(line) + 1 + len(piece) > width:
            lines.append(line)
            line = piece
        else:
            line = f"{line} {piece}" if line else piece
    return [*lines, line]
