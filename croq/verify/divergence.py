"""Whether all threads that call a C++ function come to a place in it: read off the tokens before that place.

A place is passed by some if it lies under a condition (`if`, `else`, `switch`, `? :`, `&&`, `||`, a loop) or behind a
`return`, `break`, `continue` or `goto`. Loops and conditions over numbers, a loop's own variable and constants are the
same for all. What the values are is not followed: a condition that is the same for all threads counts as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

_EXITS = frozenset({"return", "break", "continue", "goto"})
_HEADED = frozenset({"if", "for", "while", "switch"})
STEERING = _EXITS | _HEADED | {"else", "do", "case", "?", "&", "|", "{", "}"}  # in a macro: it is not expanded here
_OPEN, _CLOSED = "([{", ")]}"


def condition_of(body: Sequence[str], place: int, constant: Callable[[str], bool]) -> str:
    """What decides whether `body[place]` is come to, from the innermost outwards; "" where all come. `body`: the tokens
    of functions, each from the parenthesis of its parameters on. `constant`: of names that are the same for all."""
    at = place - 1
    statement = True  # still in the statement that holds the place
    while at >= 0:
        token = body[at]
        if token in _CLOSED:
            opened = _opening(body, at)
            if token == ")" and statement and _headed(body, opened, at, constant):
                return _word(body, opened)
            left = _exit(body[opened:at])
            if left:
                return left
            statement = statement and token != "}"
            at = opened
        elif token == "{":
            word = _block(body, at, constant)
            if word is not None:
                return word
            statement = True
        elif token == ";":
            statement = False
        elif (word := _at(body, at, statement)) is not None:
            return word
        at -= 1
    return ""


def _at(body: Sequence[str], at: int, statement: bool) -> str | None:
    """What the token itself decides; None for nothing. `statement`: of the statement that holds the place."""
    token = body[at]
    if token == "(" and body[at - 1 : at] == ["while"]:
        return "while"
    if token in _EXITS and not statement:
        return token
    if statement and (token in ("?", "else", "do", "case") or (token in "&|" and body[at - 1] == token)):
        return token if token not in "&|" else 2 * token
    return None


def _exit(tokens: Iterable[str]) -> str:
    return next((token for token in tokens if token in _EXITS), "")


def _block(body: Sequence[str], at: int, constant: Callable[[str], bool]) -> str | None:
    """What decides of the block that opens here: None for nothing, "" where it is a function's."""
    before = body[at - 1] if at else ""
    if before in ("", ";", "{", "}"):
        return None
    if before != ")":
        return before
    opened = _opening(body, at - 1)
    if opened == 0 or body[opened - 1] in ("}", ";"):
        return ""
    return _word(body, opened) if _headed(body, opened, at - 1, constant) else None


def _word(body: Sequence[str], opened: int) -> str:
    return body[opened - 1] if opened else ""


def _headed(body: Sequence[str], opened: int, closed: int, constant: Callable[[str], bool]) -> bool:
    """Whether the parentheses are those of an `if` or a loop that threads may take differently."""
    word = _word(body, opened)
    if word not in _HEADED:
        return False
    header = body[opened + 1 : closed]
    own = header[: header.index("=")][-1:] if word == "for" and "=" in header else []
    names = {token for token in header if token[0].isalpha() or token[0] == "_"}
    return not all(name in own or constant(name) for name in names)


def _opening(body: Sequence[str], closed: int) -> int:
    depth = 0
    for at in range(closed, -1, -1):
        depth += (body[at] in _CLOSED) - (body[at] in _OPEN)
        if not depth:
            return at
    return 0
