"""Reads the text of loop programs back; inverse of `loops/text.py`.

kernel NAME(@ROLE BUFFER, ...) [inplace(out,in)] { STATEMENTS }
BUFFER:    NAME: TYPE[EXTENTS] [in SCOPE]
STATEMENT: KIND [tensorized(NAME)] for VAR in EXPR .. +EXPR { ... }
             | if EXPR { ... } [else { ... }] | while EXPR { ... }
         | alloc BUFFER { ... } | NAME[INDICES] = EXPR | eval EXPR
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.dtypes import BOOL, DTYPES, I64, DType
from tilewright.errors import ParseError
from tilewright.expr import COMPARISONS, Binary, Call, Cast, Const, Expr, Read, Select, Var
from tilewright.loops.ir import (
    Allocate,
    Block,
    Buffer,
    Evaluate,
    For,
    If,
    Kernel,
    LoopKind,
    Role,
    Stmt,
    Store,
    While,
)
from tilewright.loops.text import SYMBOLS

_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf|nan)(?![\w.*]))"
    r"|(?P<name>[A-Za-z_][\w.*]*)"
    r"|(?P<symbol>//|<<|>>|<=|>=|==|!=|\.\.|[-+*/%<>&|^(){}\[\],:=@]))"
)
_OPS = {symbol: op for op, symbol in SYMBOLS.items()}


def parse_kernel(text: str) -> Kernel:
    """The kernel that a text describes. Raises ParseError naming the line."""
    parser = _Parser(text)
    signature = parser.signature()
    return signature.with_body(parser.block())


def parse_signature(text: str) -> Kernel:
    """The kernel that a text describes, without its body: the first line alone is read.

    Raises ParseError when that line does not describe a kernel.
    """
    return _Parser(text.partition("\n")[0]).signature()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.at = 0
        self.buffers: dict[str, Buffer] = {}

    def signature(self) -> Kernel:
        """What stands before the body, with an empty one."""
        self.expect("kernel")
        name = self.take().text
        self.expect("(")
        roles, params = [], []
        while not self.accept(")"):
            self.expect("@")
            roles.append(Role(self.take().text))
            params.append(self.buffer())
            self.accept(",")
        inplace = []
        while self.accept("inplace"):
            self.expect("(")
            first = self.integer()
            self.expect(",")
            inplace.append((first, self.integer()))
            self.expect(")")
        return Kernel(name, tuple(params), tuple(roles), Block(()), tuple(inplace))

    def block(self) -> Stmt:
        self.expect("{")
        body: list[Stmt] = []
        while not self.accept("}"):
            body.append(self.statement())
        return body[0] if len(body) == 1 else Block(tuple(body))

    def statement(self) -> Stmt:
        word = self.take().text
        if word == "if":
            condition, then = self.expression(), self.block()
            return If(condition, then, self.block() if self.accept("else") else None)
        if word == "while":
            return While(self.expression(), self.block())
        if word == "eval":
            return Evaluate(self.expression())
        if word == "alloc":
            buffer = self.buffer()
            return Allocate(buffer, self.block())
        if self.peek() in ("for", "(", "tensorized"):
            return self.loop(word)
        buffer = self.known(word)
        indices = self.indices()
        self.expect("=")
        return Store(buffer, indices, self.expression())

    def loop(self, kind: str) -> Stmt:
        thread = ""
        if self.accept("("):
            words = []
            while not self.accept(")"):
                words.append(self.take().text)
            thread = "".join(words)
        intrinsic = ""
        if self.accept("tensorized"):
            self.expect("(")
            intrinsic = self.take().text
            self.expect(")")
        self.expect("for")
        var = Var(self.take().text)
        self.expect("in")
        start = self.expression()
        self.expect("..")
        self.expect("+")
        extent = self.expression()
        return For(var, extent, self.block(), LoopKind(kind), start, thread, intrinsic)

    def buffer(self) -> Buffer:
        name = self.take().text
        self.expect(":")
        dtype = self.dtype()
        self.expect("[")
        shape = []
        while not self.accept("]"):
            shape.append(self.integer())
            self.accept(",")
        scope = self.take().text if self.accept("in") else "global"
        buffer = Buffer(name, dtype, tuple(shape), scope)
        self.buffers[name] = buffer
        return buffer

    def expression(self) -> Expr:
        token = self.take()
        if token.kind == "number":
            return self.constant(token.text)
        if token.text == "(":
            return self.binary()
        if token.text in ("True", "False") and self.peek() == ":":
            self.expect(":")
            return Const(token.text == "True", self.dtype())
        if token.text == "select":
            condition, a, b = self.arguments()
            return Select(condition, a, b, a.dtype)
        if token.text == "cast":
            self.expect(":")
            dtype = self.dtype()
            (value,) = self.arguments()
            return Cast(value, dtype)
        return self.named(token)

    def constant(self, text: str) -> Expr:
        dtype = self.dtype() if self.accept(":") else I64
        return Const(float(text) if dtype.is_float else int(text), dtype)

    def binary(self) -> Expr:
        a = self.expression()
        symbol = self.take()
        op = _OPS.get(symbol.text)
        if op is None:
            raise ParseError(f"line {symbol.line}: '{symbol.text}' is no operator")
        b = self.expression()
        self.expect(")")
        return Binary(op, a, b, BOOL if op in COMPARISONS else a.dtype)

    def named(self, token: _Token) -> Expr:
        if token.text in self.buffers and self.peek() == "[":
            buffer = self.known(token.text)
            return Read(buffer, self.indices(), buffer.dtype)
        if token.text in ("min", "max", "pow") and self.peek() == "(":
            a, b = self.arguments()
            return Binary(token.text, a, b, a.dtype)
        if not self.accept(":"):
            return Var(token.text)
        dtype = self.dtype()
        return Call(token.text, self.arguments(), dtype) if self.peek() == "(" else Var(token.text, dtype)

    def arguments(self) -> tuple[Expr, ...]:
        self.expect("(")
        found: list[Expr] = []
        while not self.accept(")"):
            found.append(self.expression())
            self.accept(",")
        return tuple(found)

    def indices(self) -> tuple[Expr, ...]:
        self.expect("[")
        found: list[Expr] = []
        while not self.accept("]"):
            found.append(self.expression())
            self.accept(",")
        return tuple(found)

    def known(self, name: str) -> Buffer:
        if name not in self.buffers:
            raise ParseError(f"line {self.tokens[self.at - 1].line}: buffer '{name}' is not declared")
        return self.buffers[name]

    def dtype(self) -> DType:
        token = self.take()
        if token.text not in DTYPES:
            raise ParseError(f"line {token.line}: '{token.text}' is no element type")
        return DTYPES[token.text]

    def integer(self) -> int:
        token = self.take()
        if not token.text.lstrip("-").isdigit():
            raise ParseError(f"line {token.line}: expected a number, found '{token.text}'")
        return int(token.text)

    def peek(self) -> str:
        return self.tokens[self.at].text

    def take(self) -> _Token:
        token = self.tokens[self.at]
        if token.kind == "end":
            raise ParseError(f"line {token.line}: the text ends too early")
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        found = self.peek() == text
        self.at += found
        return found

    def expect(self, text: str) -> None:
        token = self.take()
        if token.text != text:
            raise ParseError(f"line {token.line}: expected '{text}', found '{token.text}'")


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at, line = 0, 1
    while match := _TOKEN.match(text, at):
        line += text.count("\n", at, match.end())
        found.append(_Token(str(match.lastgroup), match.group(str(match.lastgroup)), line))
        at = match.end()
    if text[at:].strip():
        raise ParseError(f"line {line}: cannot read '{text[at:].strip()[:20]}'")
    return [*found, _Token("end", "", line)]
