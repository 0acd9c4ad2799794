"""Makes croq/cuda_names.txt: which names C++ and CUDA have taken, asked of the installed NVRTC name by name.

Candidates are the words in NVRTC's own libraries and the words of C++; each is then tried in the places where croq
would write it. Nothing is compiled to code: every trial ends in an error of its own.

    python -m tools.cuda_names            writes the table
    python -m tools.cuda_names --check    says whether the table holds for this NVRTC: exit status 1 where it does not
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import nvidia

from croq import cuda_names
from croq.driver.bindings import nvrtc

TABLE = Path(cuda_names.__file__).with_suffix(".txt")
BATCH = 90  # trials in one program: NVRTC gives up after 100 errors
SHORT = 20
CPP_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long main mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast std struct switch template this thread_local
    throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    NULL assert errno import module final override linux unix
"""
Trial = Callable[[str, int], str]  # a candidate and its number: one line of C++ that is wrong where the name is taken


def using(name: str, number: int) -> str:
    return f"namespace trial{number} {{ using ::{name}; }}"


def kernel(name: str, number: int) -> str:
    return f'extern "C" __global__ void {name}(const int* trial, int n);'


def variable(name: str, number: int) -> str:
    return f"__device__ int trial{number}(int {name}) {{ {{ int {name}[2]; {name}[0] = 1; }} return {name}; }}"


def a_value(name: str, number: int) -> str:
    return f"__device__ auto trial{number} = {name} + 0;"


def a_type(name: str, number: int) -> str:
    return f"typedef {name} trial{number};"


def candidates() -> list[str]:
    """Words in NVRTC's libraries: its built-in headers are text in there, and its built-in functions are strings."""
    found = set(CPP_WORDS.split())
    for folder in nvidia.__path__:
        for path in Path(folder).rglob("libnvrtc*.so*"):
            data = path.read_bytes()
            found |= {
                name for m in re.finditer(rb"\0([A-Za-z_]\w{0,40})(?=\0)", data) for name in _tails(m[1].decode())
            }
            for text in re.finditer(rb"[\n\t\r -~]{200,}", data):
                found |= {word.decode() for word in re.findall(rb"[A-Za-z_]\w{0,40}", text[0])}
    return sorted(name for name in found if not name.startswith("_Z"))


def _tails(word: str) -> set[str]:
    """The word, and the ends of a short one: linkers store a string that ends another one in there."""
    ends = range(1, len(word) - 1) if len(word) <= SHORT else ()
    return {word} | {word[i:] for i in ends if not word[i].isdigit()}


def holding(names: Sequence[str], trial: Trial) -> set[str]:
    """The names for which the trial is right C++."""
    kept: set[str] = set()
    for start in range(0, len(names), BATCH):
        kept |= _batch(names[start : start + BATCH], trial)
    return kept


def _batch(names: Sequence[str], trial: Trial) -> set[str]:
    lines = [trial(name, number) for number, name in enumerate(names)]
    log = _log("\n".join([*lines, 'static_assert(false, "the end");']))
    wrong = {int(number) - 1 for number in re.findall(r"^k\.cu\((\d+)\): (?:catastrophic )?error", log, re.MULTILINE)}
    if "the end" in log and not wrong - {len(names)}:
        return set(names)
    if "the end" in log:  # once more without them: after an error the compiler may skip a line that is wrong, too
        return _batch([name for number, name in enumerate(names) if number not in wrong], trial)
    if len(names) <= 1:
        return set()
    half = len(names) // 2
    return _batch(names[:half], trial) | _batch(names[half:], trial)


def _log(source: str) -> str:
    lib = nvrtc()
    _, program = lib.nvrtcCreateProgram(source.encode(), b"k.cu", 0, [], [])
    lib.nvrtcCompileProgram(program, 2, [b"--gpu-architecture=sm_90a", b"--std=c++17"])
    _, size = lib.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    lib.nvrtcGetProgramLog(program, log)
    lib.nvrtcDestroyProgram(program)
    return log.decode(errors="replace")


def table() -> dict[str, set[str]]:
    names = candidates()
    known = sorted(holding(names, using))
    known = sorted({*known, *holding([f"{name}f" for name in known if f"{name}f" not in known], using)})
    others = holding(known, a_type) | holding(known, a_value)
    functions = {n for n in known if n not in others and not n.startswith(cuda_names.OF_THE_COMPILER)}
    plain = [name for name in names if not cuda_names.reserved_by_form(name)]
    fine = holding(plain, variable) & holding(plain, kernel)
    return {"function": functions, "taken": set(plain) - fine - functions}


def text(found: dict[str, set[str]]) -> str:
    lines = ["# made by tools/cuda_names.py"]
    lines += [f"{kind}: {' '.join(sorted(names))}" for kind, names in found.items()]
    return "\n".join(lines) + "\n"


def main(arguments: Iterable[str]) -> int:
    made = text(table())
    if "--check" in arguments:
        return int(made != TABLE.read_text(encoding="utf-8"))
    TABLE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
