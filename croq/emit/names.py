"""C++ names: the source's own where possible, unique among all that is visible at a place."""

from __future__ import annotations

from collections.abc import Iterable

# C++ keywords and what CUDA and the emitted file itself define
_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const constexpr
    const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr
    operator or or_eq private protected public register reinterpret_cast requires return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union
    unsigned using virtual void volatile wchar_t while xor xor_eq
    threadIdx blockIdx blockDim gridDim warpSize croq croq_smem register_fence
    s8 s16 s32 s64 u8 u16 u32 u64 f32 f64 bf16 f16 f8_e4m3 f8_e5m2
"""
RESERVED = frozenset(_WORDS.split())


class Names:
    """Names of one function. Scopes nest; a name that goes out of scope may be given again."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._scopes: list[set[str]] = [set(RESERVED) | set(reserved)]

    def push(self) -> None:
        self._scopes.append(set())

    def pop(self) -> None:
        self._scopes.pop()

    def taken(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)

    def declare(self, wanted: str) -> str:
        """`wanted`, or the first of `wanted_2`, `wanted_3`, ... that nothing visible has."""
        name, n = wanted, 1
        while self.taken(name):
            n += 1
            name = f"{wanted}_{n}"
        self._scopes[-1].add(name)
        return name
