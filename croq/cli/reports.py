"""Where croq reports a diagnostic, in which words, and what it says to do: read off croq's own source.

A diagnostic is stated once, where it is made; `croq explain` asks there, so that no table can be out of date.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
CODE = re.compile(r"[EW]-\d{3,4}")
_QUOTED = re.compile(rf"""["']({CODE.pattern})["']""")
_CONSTANTS = PACKAGE / "syntax" / "codes.py"
_HOLE = "…"  # what a message says of the program at hand


@dataclass(frozen=True)
class Report:
    """One place that reports a code. `module`: `croq.sema.names`. Texts have a hole where the program's words go."""

    module: str
    messages: tuple[str, ...]
    notes: tuple[str, ...]
    hints: tuple[str, ...]


@lru_cache(maxsize=1)
def known_codes() -> frozenset[str]:
    """Every code that croq's source reports."""
    return frozenset(code for path in _files() for code in _QUOTED.findall(path.read_text(encoding="utf-8")))


def reports(code: str) -> list[Report]:
    """The places that report `code`, in order of the modules' names."""
    constant = _constants().get(code, "")
    found = []
    for path in _files():
        text = path.read_text(encoding="utf-8")
        if f'"{code}"' not in text and (not constant or f"codes.{constant}" not in text):
            continue
        found += list(_Reader(path, _tree(path), code, constant).reports())
    return found or list(_listed(code))


def _listed(code: str) -> Iterator[Report]:
    """A code that is looked up in a table when it is reported: what the list of a module's codes says of it."""
    for path in _files():
        match = re.search(rf"^{code}\s+(.+)$", ast.get_docstring(_tree(path)) or "", re.MULTILINE)
        if match is not None:
            yield Report(_module(path), (match[1],), (), ())


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _files() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != Path(__file__))


@lru_cache(maxsize=1)
def _constants() -> dict[str, str]:
    """Codes that the syntax stage has given names: code to name."""
    lines = _CONSTANTS.read_text(encoding="utf-8").splitlines()
    return {m[2]: m[1] for line in lines if (m := re.match(rf'(\w+) = "({CODE.pattern})"', line))}


def _module(path: Path) -> str:
    return ".".join(("croq", *path.relative_to(PACKAGE).with_suffix("").parts))


class _Reader:
    """Finds the calls that mention a code, and the texts that go with it."""

    def __init__(self, path: Path, tree: ast.Module, code: str, constant: str) -> None:
        self.module = _module(path)
        self.tree, self.code, self.constant = tree, code, constant
        self.variables: dict[str, list[str]] = {}

    def reports(self) -> Iterator[Report]:
        for function in [n for n in ast.walk(self.tree) if isinstance(n, (ast.FunctionDef, ast.Module))]:
            body = [n for statement in function.body for n in _own(statement)]
            if not any(self._is_code(node) for node in body):
                continue
            calls = [n for n in body if isinstance(n, ast.Call) and self._mentions(n)]
            self.variables = {}
            for node in body:
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.variables.setdefault(node.targets[0].id, []).extend(self._texts(node.value))
            found = [report for report in map(self._report, calls) if report.messages]
            more = [self._around(body) if not calls else self._elsewhere(function, calls)]
            yield from found or [report for report in more if report.messages]

    def _mentions(self, call: ast.Call) -> bool:
        return any(self._is_code(value) for value in [*call.args, *(k.value for k in call.keywords)])

    def _is_code(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr == self.constant
        return isinstance(node, ast.Constant) and node.value == self.code

    def _elsewhere(self, function: ast.AST, calls: list[ast.Call]) -> Report:
        """Where the words stand in the function that is called, or with those who call this one."""
        called = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
        own = getattr(function, "name", "")
        nodes = [n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef) and n.name in called]
        parts: list[ast.AST] = [statement for node in nodes for statement in node.body]
        parts += [
            n
            for n in ast.walk(self.tree)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == own
        ]
        return Report(self.module, self._spoken(parts), (), ())

    def _around(self, body: list[ast.AST]) -> Report:
        """Where the code is chosen apart from its words: those of the smallest part of the function that has any."""
        holders = [n for n in body if any(self._is_code(inner) for inner in ast.walk(n))]
        for parts in ([holder] for holder in reversed(holders)):
            if spoken := self._spoken(parts):
                return Report(self.module, spoken, (), ())
        return Report(self.module, self._spoken(body), (), ())

    def _spoken(self, nodes: list[ast.AST]) -> tuple[str, ...]:
        whole = [inner for node in nodes for inner in _own(node)]
        texts = [
            text for node in whole if isinstance(node, (ast.Constant, ast.JoinedStr)) for text in self._texts(node)
        ]
        return _once([text for text in texts if " " in text and "\n" not in text])

    def _report(self, call: ast.Call) -> Report:
        named = {k.arg: self._texts(k.value) for k in call.keywords}
        spoken = [text for value in call.args for text in self._texts(value) if not CODE.fullmatch(text)]
        messages = named.get("message", []) + [text for text in spoken if " " in text]
        return Report(self.module, _once(messages), _once(named.get("notes", [])), _once(named.get("hint", [])))

    def _texts(self, node: ast.AST) -> list[str]:
        """The texts that an expression may be."""
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else []
        if isinstance(node, ast.JoinedStr):
            return ["".join(p.value if isinstance(p, ast.Constant) else _HOLE for p in node.values)]  # type: ignore[misc]
        if isinstance(node, ast.IfExp):
            return self._texts(node.body) + self._texts(node.orelse)
        if isinstance(node, (ast.List, ast.Tuple)):
            return [text for item in node.elts for text in self._texts(item)]
        if isinstance(node, ast.Name):
            return self.variables.get(node.id, [])
        if isinstance(node, ast.BinOp):
            return self._texts(node.left) + self._texts(node.right)
        return []


def _own(statement: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement, without those of functions in it."""
    pending = [statement]
    while pending:
        node = pending.pop(0)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        yield node
        if isinstance(node, (ast.ClassDef, ast.JoinedStr)):
            continue
        pending += ast.iter_child_nodes(node)


def _once(texts: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text.strip()))
