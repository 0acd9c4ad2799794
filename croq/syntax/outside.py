"""The C++ around the `__co__` functions, as declarations: what a `call` may name, and what the emitted file must hold.

Nothing here parses C++. A declaration is a stretch of text at file or namespace level that ends with `;` or with the
`}` of a function's body; what it may introduce is read off its words. Headers are not followed.

Rules
    X1  Every `__device__` function (and `__cok__` block) is device code.
    X2  So is what device code names, and what that names in turn: macros (those of the command line too), types,
        aliases, constants, templates of those, `constexpr` functions. It keeps its order and its namespaces.
    X3  Nothing else is: host functions, host variables and `#include` stay with the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from croq.source import Span

_WORD = re.compile(r"[^\W\d]\w*")
_TYPES = frozenset(("struct", "class", "union", "enum"))
_SERVING = frozenset((*_TYPES, "using", "typedef", "constexpr", "__constant__", "static_assert", "concept"))
_SPACES = frozenset(("namespace", "inline", "extern"))
_SPECIFIERS = """
    alignas auto bool char class const constexpr double enum explicit extern final float inline int long namespace
    noexcept operator private protected public short signed static struct template typedef typename union unsigned
    using void volatile __align__ __attribute__ __constant__ __device__ __forceinline__ __global__ __host__ __inline__
    __launch_bounds__ __noinline__ __restrict__ __shared__
"""
_NOT_NAMES = frozenset(_SPECIFIERS.split())

# Headers of the C and C++ standards and of CUDA's host side: nobody expects device code of theirs here.
_HOST_HEADER_NAMES = """
    algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex concepts coroutine
    deque exception execution expected filesystem format forward_list fstream functional future initializer_list
    iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource mutex new
    numbers numeric optional ostream print queue random ranges ratio regex scoped_allocator semaphore set
    shared_mutex source_location span sstream stack stdexcept stop_token streambuf string string_view
    syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility
    valarray variant vector version
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg
    stdatomic stdbool stddef stdint stdio stdlib string tgmath threads time uchar unistd wchar wctype
    cuda cuda_runtime cuda_runtime_api driver_types nvrtc cublas_v2 curand nvtx3/nvToolsExt
"""
_HOST_HEADERS = frozenset(_HOST_HEADER_NAMES.split())


@dataclass(frozen=True)
class Declaration:
    """`text` is what C++ shall read. `path`: the heads of the namespaces around it, outermost first.

    `names`: what it may introduce. `device`: code of the device whoever uses it (X1); `serves`: something that such
    code may need (X2).
    """

    text: str
    path: tuple[str, ...]
    names: frozenset[str]
    device: bool = False
    serves: bool = False

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self.text)) | self.spaces

    @cached_property
    def spaces(self) -> frozenset[str]:
        """The names of the namespaces around it."""
        return frozenset(w for head in self.path for w in _WORD.findall(head)) - _SPACES


@dataclass(frozen=True)
class Include:
    """An `#include` outside the `__co__` functions; `header` as written, with its quotes or angle brackets."""

    span: Span
    header: str

    @property
    def is_of_host(self) -> bool:
        """Whether it is a header of the C or C++ standard or of CUDA's host side, which holds no device code."""
        name = self.header.strip('<>"')
        return name.removesuffix(".h") in _HOST_HEADERS or name.removeprefix("c") in _HOST_HEADERS


@dataclass(frozen=True)
class Outside:
    """All of a file that is not in `__co__` functions."""

    declarations: tuple[Declaration, ...] = ()
    includes: tuple[Include, ...] = ()

    def resolves(self, name: str) -> bool:
        """Whether the text may declare `name`, which may be qualified."""
        *spaces, last = name.split("::")
        if not spaces:
            return last in self.names
        inside = [d for d in self.declarations if spaces[-1] in d.spaces]
        if inside:
            return any(last in d.names for d in inside)
        return spaces[0] in self.names  # a class, or another name of a namespace

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset[str]().union(*(d.names for d in self.declarations))


@dataclass
class Head:
    """The head of the declaration at hand: its tokens outside all brackets, up to its body or initialiser."""

    start: int
    words: list[str] = field(default_factory=list)
    body: bool = False

    def feed(self, text: str) -> None:
        self.body = self.body or text in ("{", "=")
        if not self.body:
            self.words.append(text)

    @property
    def opens_namespace(self) -> bool:
        return "namespace" in self.words[:2] or self.words == ["extern", '"C"']

    @property
    def ends_with_body(self) -> bool:
        """Whether the `}` of its braces is its end: a function's, not a type's or an initialiser's."""
        return "(" in self.words and not _TYPES & set(self._untemplated()[:1])

    def declaration(self, text: str, path: tuple[str, ...]) -> Declaration:
        kind = set(self.words)
        constant = "const" in kind and "(" not in text
        if "constexpr" in kind and "(" in self.words:  # NVRTC takes no function of the host alone
            text = re.sub(r"\bconstexpr\b", "__host__ __device__ constexpr", text, count=1)
        serves = (bool(kind & _SERVING) or constant) and "__global__" not in kind
        return Declaration(text, path, frozenset(self._names(text)) - _NOT_NAMES, serves=serves)

    def _names(self, text: str) -> Iterable[str]:
        words = self._untemplated()
        if "enum" in words or ("typedef" in words and "(" in words):
            return _WORD.findall(text)  # its members, too; somewhere inside
        if "typedef" in words:
            return _WORD.findall(text)[-1:]
        if "(" in words:
            return words[max(0, words.index("(") - 1) :][:1]
        return filter(_WORD.fullmatch, words)

    def _untemplated(self) -> list[str]:
        """The words behind the list of template parameters."""
        if self.words[:2] != ["template", "<"]:
            return self.words
        depth = 0
        for position, word in enumerate(self.words):
            depth += word.count("<") - word.count(">") if set(word) <= {"<", ">"} else 0
            if position > 0 and depth <= 0:
                return self.words[position + 1 :]
        return self.words


def device_text(declarations: Sequence[Declaration], used: Iterable[str]) -> tuple[str, ...]:
    """The declarations that device code needs, in order (X1, X2). `used`: the words of the kernels' own C++."""
    kept = {d for d in declarations if d.device}
    words = set(used).union(*(d.words for d in kept))
    waiting = [d for d in declarations if d.serves and not d.device]
    while needed := [d for d in waiting if d.names & words]:
        kept.update(needed)
        words.update(*(d.words for d in needed))
        waiting = [d for d in waiting if d not in kept]
    spaces = groupby((d for d in declarations if d in kept), key=lambda d: d.path)
    return tuple(text for path, group in spaces for text in _wrapped(path, [d.text.strip() for d in group]))


def macros_in(texts: Iterable[str]) -> frozenset[str]:
    """The macros that device text defines: names that C++ replaces anywhere below."""
    return frozenset(m for text in texts for m in re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.MULTILINE))


def _wrapped(path: tuple[str, ...], texts: list[str]) -> list[str]:
    if not path:
        return texts
    return ["".join(f"{head} {{\n" for head in path) + "\n\n".join(texts) + "\n}" * len(path)]
