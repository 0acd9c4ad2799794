"""Reads the subset of C++ that device functions of `.co` files are mostly written in.

    function   ::= ('template' '<' param % ',' '>')? qualifier* type name '(' params ')' block
    statement  ::= declaration | expression ';' | 'if' | 'for' | 'while' | 'return' | 'break' | 'continue' | block
    expression ::= C's, with assignment, ?:, casts, calls (with template arguments), subscripts, & and * of pointers

No classes, no overloading, no preprocessor. What is outside the subset raises `Unsupported`, which names the construct.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from croq.simulate.cnodes import (
    Assign,
    CallOf,
    CFunction,
    Choose,
    Conditional,
    Convert,
    CType,
    Declare,
    Do,
    Expression,
    Infix,
    Leave,
    Loop,
    Name,
    Number,
    Postfix,
    Prefix,
    Sequence,
    Statement,
    Subscript,
    Unsupported,
)

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/|\#(?:[^\n\\]|\\.|\\\n)*)
      | (?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[fFlL]?|\d+[eE][+-]?\d+[fFlL]?)
      | (?P<int>0[xX][0-9a-fA-F]+[uUlL]*|\d+[uUlL]*)
      | (?P<name>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)
      | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<op><<=|>>=|\+\+|--|->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])""",
    re.VERBOSE | re.DOTALL,
)

TYPES = {
    "void": "void",
    "bool": "bool",
    "char": "s8",
    "short": "s16",
    "int": "s32",
    "long": "s64",
    "unsigned": "u32",
    "float": "f32",
    "double": "f64",
    "size_t": "u64",
    **{f"{sign}int{bits}_t": f"{'u' if sign else 's'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"croq::{t}": t for t in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "bf16", "f16")},
}
_QUALIFIERS = {
    "__device__",
    "__host__",
    "__forceinline__",
    "__noinline__",
    "__inline__",
    "__restrict__",
    "static",
    "inline",
    "constexpr",
    "const",
    "volatile",
    "extern",
}


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Unsupported(f"the character `{text[at]}`")
        if match.lastgroup != "space":
            found.append(_Token(match.lastgroup or "", match.group()))
        at = match.end()
    return [*found, _Token("end", "")]


def functions(text: str) -> dict[str, CFunction | Unsupported]:
    """Every function that the text defines; one outside the subset is its fault instead."""
    found: dict[str, CFunction | Unsupported] = {}
    parser = _Parser(_tokens(text))
    while parser.peek() != "":
        start = parser.at
        try:
            function = parser.function()
        except Unsupported as reason:
            parser.at = start
            name = parser.skip_definition()
            if name:
                found[name] = reason
        else:
            if function is not None:
                found[function.name] = function
    return found


_BINDING = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens, self.at = tokens, 0
        self.types: set[str] = set()  # template parameters that are types
        self.nested_template = 0

    # ------------------------------------------------------------------------------------------ tokens
    def peek(self, ahead: int = 0) -> str:
        index = min(self.at + ahead, len(self.tokens) - 1)
        return self.tokens[index].text

    def kind(self) -> str:
        return self.tokens[self.at].kind

    def take(self) -> str:
        text = self.peek()
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return text

    def accept(self, text: str) -> bool:
        if self.peek() == text and self.kind() != "string":
            self.take()
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise Unsupported(f"`{self.peek()}` where `{text}` was expected")

    # ------------------------------------------------------------------------------------------ functions
    def skip_definition(self) -> str:
        """Skip to the end of a definition; its name when it looks like a function's."""
        name, depth = "", 0
        while self.kind() != "end":
            if not name and self.kind() == "name" and self.peek(1) == "(":
                name = self.peek()
            text = self.take()
            depth += (text in "({[") - (text in ")}]") if len(text) == 1 else 0
            if depth <= 0 and text in (";", "}"):
                break
        return name

    def function(self) -> CFunction | None:
        self.types = set()
        template = self._template()
        result = self.type_()
        if self.kind() != "name":
            raise Unsupported(f"`{self.peek()}` at file level")
        name = self.take()
        self.expect("(")
        params = []
        while not self.accept(")"):
            params.append(self._param())
            if self.peek() != ")":
                self.expect(",")
        if self.accept(";"):
            return None
        return CFunction(name, template, result, tuple(params), self.sequence())

    def _template(self) -> tuple[str, ...]:
        names: list[str] = []
        if self.accept("template"):
            self.expect("<")
            while not self.accept(">"):
                if self.accept("class") or self.accept("typename"):
                    names.append(self.take())
                    self.types.add(names[-1])
                else:
                    self.type_()
                    names.append(self.take())
                if self.peek() != ">":
                    self.expect(",")
        return tuple(names)

    def _param(self) -> tuple[CType, str]:
        type_ = self.type_()
        if self.accept("("):  # float (&x)[64]
            self.expect("&")
            name = self.take()
            self.expect(")")
            self.expect("[")
            length = self.expression()
            self.expect("]")
            return CType(type_.base, pointer=True, length=length), name
        name = self.take() if self.kind() == "name" else ""
        if self.accept("["):
            if self.peek() != "]":
                self.expression()
            self.expect("]")
            type_ = CType(type_.base, pointer=True)
        return type_, name

    def at_type(self) -> bool:
        text = self.peek()
        return text in _QUALIFIERS or text in TYPES or text in self.types or text == "auto" or text == "signed"

    def type_(self) -> CType:
        words: list[str] = []
        while self.at_type():
            word = self.take()
            if word not in _QUALIFIERS:
                words.append(word)
        if not words:
            raise Unsupported(f"the type `{self.peek()}`")
        base = self._base(words)
        pointer = reference = False
        while self.peek() in ("*", "&", "const", "__restrict__"):
            mark = self.take()
            if mark == "*" and pointer:
                raise Unsupported("a pointer to a pointer")
            pointer |= mark == "*"
            reference |= mark == "&"
        return CType(base, pointer, reference)

    def _base(self, words: list[str]) -> str:
        if len(words) == 1:
            word = words[0]
            return "s32" if word == "signed" else TYPES.get(word, word)
        unsigned = "unsigned" in words
        rest = [w for w in words if w not in ("unsigned", "signed", "int")] or ["int"]
        if rest not in (["int"], ["long"], ["long", "long"], ["short"], ["char"]):
            raise Unsupported(f"the type `{' '.join(words)}`")
        base = TYPES[rest[0]]
        return f"u{base[1:]}" if unsigned else base

    # ------------------------------------------------------------------------------------------ statements
    def sequence(self) -> Sequence:
        self.expect("{")
        body = []
        while not self.accept("}"):
            if self.kind() == "end":
                raise Unsupported("a body without an end")
            body.append(self.statement())
        return Sequence(tuple(body))

    def statement(self) -> Statement:
        text = self.peek()
        if text == "{":
            return self.sequence()
        if self.accept(";"):
            return Sequence(())
        if text in ("if", "for", "while"):
            self.take()
            keyword: dict[str, Callable[[], Statement]] = {"if": self._if, "for": self._for, "while": self._while}
            return keyword[text]()
        if text in ("return", "break", "continue"):
            self.take()
            value = self.expression() if self.peek() != ";" else None
            self.expect(";")
            return Leave(text, value)
        if text in ("switch", "do", "goto", "asm", "try", "struct", "using", "typedef", "static_assert"):
            raise Unsupported(f"`{text}`")
        return self._simple()

    def _simple(self) -> Statement:
        """A declaration or an expression, with its semicolon."""
        if self.at_type() and self.peek(1) != "(":
            statement: Statement = self._declaration()
        else:
            statement = Do(self.expression())
        self.expect(";")
        return statement

    def _declaration(self) -> Sequence:
        type_ = self.type_()
        found = []
        while True:
            if self.kind() != "name":
                raise Unsupported(f"`{self.peek()}` in a declaration")
            name, one = self.take(), type_
            if self.accept("["):
                one = CType(type_.base, length=self.expression())
                self.expect("]")
                if self.peek() == "[":
                    raise Unsupported("an array of arrays")
            found.append(Declare(one, name, self._initial()))
            if not self.accept(","):
                return Sequence(tuple(found), scope=False)

    def _initial(self) -> Expression | tuple[Expression, ...] | None:
        braces = self.peek() == "{"
        if not braces and not self.accept("="):
            return None
        if not self.accept("{"):
            return self.expression()
        items = []
        while not self.accept("}"):
            items.append(self.expression())
            if self.peek() != "}":
                self.expect(",")
        return tuple(items)

    def _if(self) -> Choose:
        self.accept("constexpr")
        self.expect("(")
        test = self.expression()
        self.expect(")")
        then = self.statement()
        return Choose(test, then, self.statement() if self.accept("else") else None)

    def _for(self) -> Sequence:
        self.expect("(")
        init = self.statement()
        test = self.expression() if self.peek() != ";" else None
        self.expect(";")
        step = self.expression(comma=True) if self.peek() != ")" else None
        self.expect(")")
        return Sequence((Loop(init, test, step, self.statement()),))

    def _while(self) -> Loop:
        self.expect("(")
        test = self.expression()
        self.expect(")")
        return Loop(None, test, None, self.statement())

    # ------------------------------------------------------------------------------------------ expressions
    def expression(self, comma: bool = False) -> Expression:
        left = self._assignment()
        while comma and self.accept(","):
            left = Infix(",", left, self._assignment())
        return left

    def _assignment(self) -> Expression:
        left = self._conditional()
        if self.peek() in _ASSIGN and self.kind() == "op":
            op = self.take()
            return Assign(op[:-1], left, self._assignment())
        return left

    def _conditional(self) -> Expression:
        test = self._infix(1)
        if self.accept("?"):
            then = self._assignment()
            self.expect(":")
            return Conditional(test, then, self._assignment())
        return test

    def _infix(self, least: int) -> Expression:
        left = self._prefix()
        while self.kind() == "op":
            op = self.peek()
            power = _BINDING.get(op, 0)
            if power < least or (self.nested_template and op in (">", ">>")):
                break
            self.take()
            left = Infix(op, left, self._infix(power + 1))
        return left

    def _prefix(self) -> Expression:
        if self.kind() == "op" and self.peek() in ("-", "+", "!", "~", "*", "&", "++", "--"):
            op = self.take()
            return Prefix(op, self._prefix())
        if self.peek() == "(" and self._cast_ahead():
            self.expect("(")
            type_ = self.type_()
            self.expect(")")
            return Convert(type_, self._prefix())
        return self._postfix(self._primary())

    def _cast_ahead(self) -> bool:
        self.at += 1
        found = self.at_type()
        self.at -= 1
        return found

    def _postfix(self, left: Expression) -> Expression:
        while True:
            if self.accept("["):
                left = Subscript(left, self.expression())
                self.expect("]")
            elif self.kind() == "op" and self.peek() in ("++", "--"):
                left = Postfix(self.take(), left)
            elif self.peek() in (".", "->") and isinstance(left, Name):
                self.take()
                left = Name(f"{left.name}.{self.take()}")
            else:
                return left

    def _primary(self) -> Expression:
        kind, text = self.kind(), self.peek()
        if kind in ("int", "float"):
            return self._number(self.take())
        if self.accept("("):
            nested, self.nested_template = self.nested_template, 0
            inner = self.expression(comma=True)
            self.nested_template = nested
            self.expect(")")
            return inner
        if kind != "name":
            raise Unsupported(f"`{text}` in an expression" if text else "an expression without an end")
        if self.at_type():  # float(x)
            type_ = self.type_()
            self.expect("(")
            operand = self.expression()
            self.expect(")")
            return Convert(type_, operand)
        return self._named(self.take())

    def _named(self, name: str) -> Expression:
        if name in ("true", "false"):
            return Number(name == "true", "bool")
        if name in ("static_cast", "reinterpret_cast", "const_cast"):
            if name == "reinterpret_cast":
                raise Unsupported("`reinterpret_cast`")
            self.expect("<")
            type_ = self.type_()
            self.expect(">")
            self.expect("(")
            operand = self.expression()
            self.expect(")")
            return Convert(type_, operand)
        template: tuple[CType | Expression, ...] = ()
        if self.peek() == "<" and self._template_ahead():
            template = self.template_arguments()
        if not self.accept("("):
            return Name(name)
        args = []
        nested, self.nested_template = self.nested_template, 0
        while not self.accept(")"):
            args.append(self._assignment())
            if self.peek() != ")":
                self.expect(",")
        self.nested_template = nested
        return CallOf(name, template, tuple(args))

    def _template_ahead(self) -> bool:
        """Whether `<` opens template arguments: it closes again directly before a `(`."""
        depth = 0
        for i in range(self.at, len(self.tokens) - 1):
            text = self.tokens[i].text
            if text in (";", "{", "}", "&&", "||"):
                return False
            depth += (text == "<") - (text == ">")
            if depth == 0:
                return self.tokens[i + 1].text == "("
        return False

    def template_arguments(self) -> tuple[CType | Expression, ...]:
        self.expect("<")
        found: list[CType | Expression] = []
        self.nested_template += 1
        while not self.accept(">"):
            found.append(self.type_() if self.at_type() else self._infix(1))
            if self.peek() != ">":
                self.expect(",")
        self.nested_template -= 1
        return tuple(found)

    def _number(self, text: str) -> Number:
        lower = text.lower()
        if not lower.startswith("0x") and (set(lower) & {".", "e"} or lower.endswith("f")):
            return Number(float(lower.rstrip("fl")), "f32" if lower.endswith("f") else "f64")
        digits = lower.rstrip("ul")
        suffix = lower[len(digits) :]
        value = (
            int(digits, 0) if digits.startswith("0x") or digits == "0" else int(digits, 8 if digits[0] == "0" else 10)
        )
        wide = "l" in suffix
        if "u" in suffix:
            return Number(value, "u64" if wide or value >= 1 << 32 else "u32")
        if wide or value >= 1 << 32:
            return Number(value, "s64")
        return Number(value, "s32" if value < 1 << 31 else "u32" if digits.startswith("0x") else "s64")


def template_argument(text: str) -> CType | Expression:
    """One template argument of a call in the IR, which is text."""
    parser = _Parser(_tokens(text))
    return parser.type_() if parser.at_type() else parser.expression()
