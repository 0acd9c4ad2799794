"""Everything beside the text that shapes a compilation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from croq.diagnostics import CompileError, make
from croq.target import DEFAULT, TARGETS, Target


@dataclass(frozen=True)
class Settings:
    """Everything beside the text that shapes the result. Two equal settings and texts give one cubin."""

    defines: tuple[tuple[str, str], ...] = ()
    arch: str = DEFAULT.name
    lineinfo: bool = False
    verify: bool = False  # hold the lowered kernels against the protocol verifier (croq.protocol); shapes no text
    watchdog: float | None = None  # seconds after which a blocking wait reports and traps (croq.driver.watchdog)

    def __post_init__(self) -> None:
        if self.watchdog is not None and (fault := _watchdog().fault(self.watchdog)) is not None:
            raise CompileError([fault])
        if self.arch not in TARGETS:
            hint = f"use one of {', '.join(TARGETS)}"
            raise CompileError([make("E-3100", None, f"croq makes no code for `{self.arch}`", hint=hint)])

    @staticmethod
    def of(
        defines: Mapping[str, Any] | None = None,
        *,
        arch: str = DEFAULT.name,
        lineinfo: bool = False,
        verify: bool = False,
        watchdog: float | None = None,
    ) -> Settings:
        """Settings from plain values: a macro may be a string, a number, or a bool (1 or 0)."""
        if not isinstance(defines or {}, Mapping):
            raise TypeError(f"`defines` maps names to values, and is a `{type(defines).__name__}`")
        texts = {_macro_name(name): _macro_text(value) for name, value in (defines or {}).items()}
        return Settings(tuple(sorted(texts.items())), arch, lineinfo, verify, watchdog)

    @property
    def target(self) -> Target:
        return TARGETS[self.arch]

    @property
    def options(self) -> tuple[str, ...]:
        """What NVRTC is told beside the text and the architecture."""
        return () if self.watchdog is None else (_watchdog().option(self.watchdog),)


def _watchdog() -> ModuleType:
    """Imported when somebody asks for it: most compilations need nothing of the driver."""
    from croq.driver import watchdog

    return watchdog


def _macro_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a macro is a `str`, not a `{type(name).__name__}`")
    return name


def _macro_text(value: Any) -> str:
    """How a macro's value is written. Raises CompileError E-2009 for what is no line of text, else TypeError."""
    if not isinstance(value, (str, int, float)) and not hasattr(value, "__index__"):
        raise TypeError(f"the value of a macro is text or a number, not a `{type(value).__name__}`")
    text = str(int(value)) if isinstance(value, bool) else str(value)
    if not text.isprintable():
        hint = "a value is one line of printable text"
        raise CompileError([make("E-2009", None, f"{text!r} cannot be the value of a macro", hint=hint)])
    return text
