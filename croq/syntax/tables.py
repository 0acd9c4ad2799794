"""The parser's tables: made from `grammar/croq.lark` by lark, kept in the user's cache folder.

Making them takes most of a second and needs lark; reading them back takes milliseconds and does not. A cache entry is
keyed by the grammar's text and lark's version. A folder that cannot be read or written is passed over.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from croq.resources import resource

FORMAT = 3  # of the entries
FOLDER_VARIABLE = "CROQ_CACHE_DIR"
END = "$END"


@dataclass(frozen=True)
class Tables:
    """LALR(1) tables. A symbol is a terminal's name, for a fixed terminal its very text, for a rule `<its name>`."""

    patterns: list[tuple[str, str]]  # (terminal, regular expression), in the order in which they are tried
    words: dict[str, str]  # texts that a pattern matches but that are terminals of their own -> the pattern's terminal
    ignored: list[str]
    rules: list[tuple[str, str | None, int]]  # (symbol, action, length); action None: the child itself; "*": spliced
    actions: list[dict[str, int]]  # state -> symbol -> next state, or ~rule
    start: int
    end: int  # the state that has seen the whole text


@lru_cache(maxsize=1)
def load_tables() -> Tables:
    """The tables of the shipped grammar, out of the cache where it has them."""
    grammar = resource("grammar", "croq.lark").read_text(encoding="utf-8")
    entry = _folder() / f"grammar-{_key(grammar)}.json"
    with suppress(OSError, ValueError, TypeError, KeyError):
        return _decode(entry.read_text(encoding="utf-8"))
    tables = build_tables(grammar)
    _store(entry, json.dumps(asdict(tables), separators=(",", ":")))
    return tables


def build_tables(grammar: str) -> Tables:
    """Run lark's LALR construction over `grammar`."""
    import io
    import pickle

    import lark

    parser = lark.Lark(grammar, parser="lalr", lexer="basic", keep_all_tokens=True, maybe_placeholders=False)
    buffer = io.BytesIO()
    parser.save(buffer)
    saved = pickle.loads(buffer.getvalue())  # our own bytes, of the line above
    return _Translator(saved).tables()


class _Translator:
    """Reads what `Lark.save` writes: a memo of terminals and rules, and a parse table that refers to it."""

    def __init__(self, saved: dict[str, Any]) -> None:
        self.memo: dict[int, Any] = saved["memo"]
        self.parser: dict[str, Any] = saved["data"]["parser"]
        self.terminals = [e for e in self.memo.values() if e["__type__"] == "TerminalDef"]
        self.symbol = {t["name"]: t["pattern"]["value"] for t in self.terminals if self._fixed(t)}

    def tables(self) -> Tables:
        ignored = self.parser["lexer_conf"]["ignore"]
        regexes = [t for t in self.terminals if not self._fixed(t)]
        regexes.sort(key=lambda t: (-t["priority"], t["name"]))
        fixed = sorted(self.symbol.values(), key=lambda text: (-len(text), text))
        # A keyword is found by its pattern first, so that `format` is not `for` and `mat`.
        words = {
            text: t["name"]
            for text in fixed
            for t in regexes
            if t["priority"] == 0 and re.fullmatch(t["pattern"]["value"], text)
        }
        patterns = [(t["name"], t["pattern"]["value"]) for t in regexes]
        patterns += [(text, re.escape(text)) for text in fixed if text not in words]
        numbered = [key for key, e in self.memo.items() if e["__type__"] == "Rule"]
        index = {key: i for i, key in enumerate(numbered)}
        table = self.parser["parser"]
        order = self._order(table)
        return Tables(
            patterns,
            words,
            ignored,
            [self._rule(self.memo[key]) for key in numbered],
            self._states(table, order, index),
            order[table["start_states"]["start"]],
            order[table["end_states"]["start"]],
        )

    @staticmethod
    def _fixed(terminal: dict[str, Any]) -> bool:
        return bool(terminal["pattern"]["__type__"] == "PatternStr")

    @staticmethod
    def _rule(rule: dict[str, Any]) -> tuple[str, str | None, int]:
        name = rule["origin"]["name"]
        symbol = f"<{name}>"
        length = len(rule["expansion"])
        if name.startswith("_"):
            return symbol, "*", length
        if rule["options"]["expand1"] and length == 1 and not rule["alias"]:
            return symbol, None, length
        return symbol, rule["alias"] or name, length

    def _row(self, table: dict[str, Any], state: int) -> list[tuple[str, int, Any]]:
        """The entries of a state as (symbol, whether it reduces, state or rule), sorted by symbol."""
        names = {t["name"] for t in self.terminals} | {END}
        row = []
        for token, (reduces, argument) in table["states"][state].items():
            name = table["tokens"][token]
            row.append((self.symbol.get(name, name if name in names else f"<{name}>"), reduces, argument))
        return sorted(row, key=lambda entry: entry[0])

    def _order(self, table: dict[str, Any]) -> dict[int, int]:
        """New numbers for the states, in the order in which they are reached: lark's own differ from run to run."""
        order = {table["start_states"]["start"]: 0}
        for state in (pending := list(order)):
            for _, reduces, argument in self._row(table, state):
                if not reduces and argument not in order:
                    order[argument] = len(order)
                    pending.append(argument)
        return order

    def _states(self, table: dict[str, Any], order: dict[int, int], index: dict[int, int]) -> list[dict[str, int]]:
        return [
            {name: ~index[argument["@"]] if reduces else order[argument] for name, reduces, argument in rows}
            for rows in (self._row(table, state) for state in order)
        ]


def _decode(text: str) -> Tables:
    data = json.loads(text)
    data["patterns"] = [(name, pattern) for name, pattern in data["patterns"]]
    data["rules"] = [(name, action, length) for name, action, length in data["rules"]]
    return Tables(**data)


def _folder() -> Path:
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("croq"))


def _key(grammar: str) -> str:
    material = f"{FORMAT}\n{_lark_version()}\n{grammar}"
    return hashlib.sha256(material.encode()).hexdigest()[:32]


def _lark_version() -> str:
    """Read from lark's file: importing lark would cost more than all the rest."""
    from importlib.util import find_spec

    spec = find_spec("lark")
    with suppress(OSError):
        text = Path(spec.origin).read_text(encoding="utf-8") if spec is not None and spec.origin else ""
        found = re.search(r'__version__[^"=]*=\s*"([^"]+)"', text)
        return found.group(1) if found else "unknown"
    return "unknown"


def _store(entry: Path, text: str) -> None:
    temporary: str | None = None
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=entry.parent, prefix=".new-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(entry)
    except OSError:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()
