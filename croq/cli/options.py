"""What commands take, read from a command line: each parameter of a function is an argument or an option.

    def plan(session: Session, file: Annotated[str, Argument(help="..")], json: Annotated[bool, Option()] = False)

Its type says what is read: `bool` a switch, `list` what may be given again, `Literal` one of its words. A parameter
without a default must be given. The annotations of a command are evaluated when it is called.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args, get_origin, get_type_hints

from croq.diagnostics import CroqError, make

HELP = ("-h", "--help")
OFF = "--no-"
NUMBERS = {int: "whole number", float: "number"}


class UsageFault(CroqError):
    """The command line is wrong."""

    exit_status = 2


def refused(option: str, message: str, hint: str | None = None) -> UsageFault:
    """What an option says cannot be meant."""
    return UsageFault([make("E-3101", None, f"`{option}`: {message}", hint=hint)])


@dataclass(frozen=True)
class Argument:
    help: str = ""


@dataclass(frozen=True)
class Option:
    """`flags`: its spellings, `--NAME` where there are none; one that begins with `--no-` switches off."""

    flags: str = ""
    help: str = ""
    metavar: str = ""
    least: int | None = None  # the smallest number
    counts: bool = False  # how often it is given
    read: Callable[[str], Any] | None = None  # the value that a text stands for


@dataclass(frozen=True)
class Parameter:
    """A parameter of a command. `words`: those that it may be."""

    name: str
    declared: Argument | Option
    kind: type
    words: tuple[str, ...]
    many: bool
    default: Any
    common: bool

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def switch(self) -> bool:
        return self.kind is bool or (isinstance(self.declared, Option) and self.declared.counts)

    @cached_property
    def flags(self) -> list[str]:
        given = self.declared.flags.split() if isinstance(self.declared, Option) else []
        return given or ["--" + self.name.strip("_").replace("_", "-")]

    @property
    def metavar(self) -> str:
        """What stands for the value."""
        if isinstance(self.declared, Argument):
            return self.name.upper()
        return self.declared.metavar or "|".join(self.words) or ("N" if self.kind in NUMBERS else self.name.upper())

    def value(self, flag: str, text: str) -> Any:
        """What a text means. Raises UsageFault."""
        declared = self.declared
        if self.words and text not in self.words:
            raise refused(flag, f"`{text}` is none of {', '.join(self.words)}")
        if isinstance(declared, Argument):
            return self.kind(text)
        if declared.read is not None:
            return declared.read(text)
        try:
            number = self.kind(text)
        except ValueError:
            raise refused(flag, f"`{text}` is no {NUMBERS[self.kind]}") from None
        if declared.least is not None and number < declared.least:
            raise refused(flag, f"`{text}` is less than {declared.least}")
        return number


def parameters(function: Callable[..., Any], *, common: bool = False) -> list[Parameter]:
    """What a function takes, but for its session."""
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function).parameters
    return [_parameter(name, hints[name], signature[name].default, common) for name in signature if name != "session"]


def _parameter(name: str, hint: Any, default: Any, common: bool) -> Parameter:
    kind, declared = get_args(hint)
    (kind,) = [part for part in get_args(kind) if part is not type(None)] if type(None) in get_args(kind) else [kind]
    many = get_origin(kind) is list
    if many:
        (kind,) = get_args(kind)
    words = get_args(kind) if get_origin(kind) is Literal else ()
    return Parameter(name, declared, str if words else kind, words, many, default, common)


@dataclass
class CommandLine:
    """The words behind a command's name, read as far as they can be: `values` hold even where there is a `fault`."""

    command: str
    parameters: Sequence[Parameter]
    values: dict[str, Any] = field(default_factory=dict)
    fault: UsageFault | None = None
    help: bool = False

    def read(self, words: Iterable[str]) -> None:
        self.values = {p.name: None if p.required else p.default for p in self.parameters}
        self.left = deque(words)
        try:
            missing = self._read([p for p in self.parameters if isinstance(p.declared, Argument)])
        except UsageFault as fault:
            self.fault = self.fault or fault
            self.read_on()
            return
        if missing:
            self.fault = self.refused(f"needs {missing[0].metavar}")

    def read_on(self) -> None:
        """Behind a fault: how diagnostics are to be printed may still be said."""
        while self.left:
            try:
                self._read([])
            except UsageFault:
                continue

    def _read(self, arguments: list[Parameter]) -> list[Parameter]:
        """Take all words, behind `--` as arguments; give the arguments that are missing."""
        free, plain = deque(arguments), False
        while self.left:
            word = self.left.popleft()
            if word == "--" and not plain:
                plain = True
            elif word.startswith("-") and word != "-" and not plain:
                self._option(word)
            elif free:
                argument = free.popleft()
                self.values[argument.name] = argument.value(argument.metavar, word)
            else:
                raise self.refused(f"takes no argument `{word}` here")
        return [argument for argument in free if argument.required]

    def _option(self, word: str) -> None:
        """`--flag VALUE`, `--flag=VALUE`, `-f VALUE`, `-fVALUE`, `-abc`."""
        flag, equals, text = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        if flag in HELP:
            self.help = True
            return
        option = self._flags.get(flag)
        if option is None:
            raise self._unknown(flag)
        if not option.switch:
            self._take(option, flag, text if equals else self._next(option, flag))
            return
        if equals and word.startswith("--"):
            raise refused(flag, "takes no value")
        counts = isinstance(option.declared, Option) and option.declared.counts
        self.values[option.name] = self.values[option.name] + 1 if counts else not flag.startswith(OFF)
        if text:
            self._option(f"-{text}")

    def _take(self, option: Parameter, flag: str, text: str) -> None:
        value = option.value(flag, text)
        self.values[option.name] = [*(self.values[option.name] or ()), value] if option.many else value

    def _next(self, option: Parameter, flag: str) -> str:
        if not self.left or self.left[0] in self._flags:
            raise refused(flag, f"needs a value, {option.metavar}")
        return self.left.popleft()

    @cached_property
    def _flags(self) -> Mapping[str, Parameter]:
        return {flag: p for p in self.parameters if isinstance(p.declared, Option) for flag in p.flags}

    def _unknown(self, flag: str) -> UsageFault:
        from croq.texts import close

        hint = close(flag, [*self._flags]) or f"`{self.command} -h` lists them"
        return self.refused(f"has no option `{flag}`", hint)

    def refused(self, message: str, hint: str | None = None) -> UsageFault:
        hint = hint or f"`{self.command} -h` shows how it is called"
        return UsageFault([make("E-3101", None, f"`{self.command}` {message}", hint=hint)])


# ----------------------------------------------------------------------------------------------------------------- help
def usage(command: str, function: Callable[..., Any], parameters: Sequence[Parameter]) -> Iterator[str]:
    """What `-h` prints of a command."""
    arguments = [p for p in parameters if isinstance(p.declared, Argument)]
    shown = [p.metavar if p.required else f"[{p.metavar}]" for p in arguments]
    yield " ".join(["usage:", command, *shown, "[options]"])
    yield from ("", inspect.getdoc(function) or "")
    options = [p for p in parameters if isinstance(p.declared, Option)]
    for title, group in (
        ("arguments", arguments),
        ("options", [p for p in options if not p.common]),
        ("common options", [p for p in options if p.common]),
    ):
        if group:
            yield from ("", f"{title}:", *listed((_spelling(p), _meaning(p)) for p in group))


def listed(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Two columns, the second one wrapped."""
    import shutil
    import textwrap

    width = min(shutil.get_terminal_size().columns, 120)
    for left, right in rows:
        lines = textwrap.wrap(right, max(width - 30, 30)) or [""]
        if len(left) > 26:
            yield f"  {left}"
        else:
            yield f"  {left:<28}{lines.pop(0)}".rstrip()
        yield from (f"{'':30}{line}" for line in lines)


def _spelling(parameter: Parameter) -> str:
    if isinstance(parameter.declared, Argument):
        return parameter.metavar
    flags = ", ".join(parameter.flags)
    return flags if parameter.switch else f"{flags} {parameter.metavar}"


def _meaning(parameter: Parameter) -> str:
    parts = [parameter.declared.help]
    if parameter.kind is bool and parameter.default:
        parts.append(f"(default: {parameter.flags[0]})")
    elif parameter.default not in (None, False, 0, "", inspect.Parameter.empty):
        parts.append(f"(default: {parameter.default})")
    return " ".join(part for part in parts if part)
