"""Reads the text of the graph IR. The grammar is in docs/graph.md; `text.py` prints it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tilewright.dtypes import BOOL, DTYPES, DType
from tilewright.errors import ParseError, TilewrightError
from tilewright.graph.ir import Constant, Function, Module, Node, Placeholder, Value
from tilewright.graph.text import digest, sidecar
from tilewright.storage import PLAIN, Storage
from tilewright.types import Bounded, TensorType

T = TypeVar("T", bound=Value)

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<digest>sha256:[0-9a-f]{64})
    |(?P<number>[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+)|[-+](?:inf|nan)\b)
    |(?P<word>[A-Za-z_][A-Za-z0-9_.]*)
    |(?P<mark>->|<=|[(){}\[\],:=%@?])""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


def parse_module(text: str, data: Mapping[str, np.ndarray] | None = None) -> Module:
    """The module of a text. data: bytes of large constants by sha256. Raises ParseError with the line."""
    parser = _Parser(text, data or {})
    return parser.module()


def parse_function(text: str, data: Mapping[str, np.ndarray] | None = None) -> Function:
    """The only function of a text."""
    module = parse_module(text, data)
    if len(module.functions) != 1:
        raise ParseError(f"expected one function, found {len(module.functions)}")
    return module.entry


def read_text(path: Path) -> Module:
    """The module in a file `X.tw.txt`, with the constants of its sidecar `X.tw.npz`. Raises ParseError."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ParseError(f"'{path}' cannot be read: {error}") from error
    data: dict[str, np.ndarray] = {}
    if sidecar(path).exists():
        try:
            with np.load(sidecar(path), allow_pickle=False) as file:
                data = dict(file)
        except (OSError, ValueError) as error:
            raise ParseError(f"'{sidecar(path)}' is not a readable sidecar: {error}") from error
    try:
        return parse_module(text, data)
    except ParseError as error:
        raise ParseError(f"'{path}', {error}") from error


class _Parser:
    def __init__(self, text: str, data: Mapping[str, np.ndarray]) -> None:
        self.data = data
        self.tokens = _tokens(text)
        self.at = 0
        # Functions of one text share a constant when its name, type and content agree.
        self.constants: dict[tuple[str, TensorType, str], Constant] = {}

    def module(self) -> Module:
        main = None
        if self._accept("entry"):
            main = self._name("@")
        functions: dict[str, Function] = {}
        while self._peek().kind != "end":
            function = self._function()
            if function.name in functions:
                raise self._error(f"function '{function.name}' is defined twice")
            functions[function.name] = function
        if not functions:
            raise self._error("expected a function")
        main = main or ("main" if "main" in functions else next(iter(functions)))
        if main not in functions:
            raise self._error(f"the entry '{main}' is not defined")
        return Module(functions, main)

    # Functions and statements.

    def _function(self) -> Function:
        self._expect("func")
        function = Function(self._name("@"))
        scope: dict[str, Value] = {}
        self._expect("(")
        while not self._accept(")"):
            placeholder = Placeholder(*self._typed_name())
            function.inputs.append(self._define(function, scope, placeholder))
            self._separator(")")
        self._expect("->")
        results = self._results()
        self._expect("{")
        while not self._accept("}"):
            if self._accept("const"):
                self._constant(function, scope)
            else:
                function.nodes.append(self._node(function, scope))
        for name, shown, line in results:
            function.outputs.append(self._lookup(scope, name, line))
            if shown is not None:
                function.output_names.append(shown)
        if len(function.output_names) not in (0, len(results)):
            raise self._error("either all results have a name after 'as' or none")
        return function

    def _results(self) -> list[tuple[str, str | None, int]]:
        self._expect("(")
        results: list[tuple[str, str | None, int]] = []
        while not self._accept(")"):
            line = self._peek().line
            name = self._name("%")
            results.append((name, self._string() if self._accept("as") else None, line))
            self._separator(")")
        return results

    def _constant(self, function: Function, scope: dict[str, Value]) -> None:
        name, type = self._typed_name()
        self._expect("=")
        token = self._peek()
        if token.kind == "digest":
            self.at += 1
            array = self._from_sidecar(token.text.removeprefix("sha256:"), name, type)
        else:
            array = self._elements(type.dtype, type.physical_shape)
        key = (name, type, digest(array))
        constant = self.constants.setdefault(key, Constant(name, type, data=array))
        self._define(function, scope, constant)

    def _node(self, function: Function, scope: dict[str, Value]) -> Node:
        outputs: list[Value] = []
        while not outputs or self._accept(","):
            outputs.append(Value(*self._typed_name()))
        self._expect("=")
        node = Node(self._word("an operator"), "", [], outputs=outputs)
        self._expect("(")
        while not self._accept(")"):
            node.inputs.append(self._operand(scope))
            self._separator(")")
        if self._accept("{"):
            while not self._accept("}"):
                key = self._word("an attribute")
                self._expect("=")
                node.attrs[key] = self._attribute()
                self._separator("}")
        node.name = self._name("@")
        if self._accept("from"):
            node.origin = self._list(self._string)
        if self._accept("bodies"):
            node.bodies = self._bodies()
        for index, value in enumerate(outputs):
            value.producer, value.index = node, index
            self._define(function, scope, value)
        function.fresh(node.name)
        return node

    def _bodies(self) -> tuple[Function, ...]:
        self._expect("{")
        bodies: list[Function] = []
        while not self._accept("}"):
            bodies.append(self._function())
        return tuple(bodies)

    def _operand(self, scope: dict[str, Value]) -> Value | None:
        if self._accept("_"):
            return None
        line = self._peek().line
        return self._lookup(scope, self._name("%"), line)

    def _define(self, function: Function, scope: dict[str, Value], value: T) -> T:
        if value.name in scope:
            raise self._error(f"%{value.name} is defined twice")
        scope[value.name] = value
        function.fresh(value.name)
        return value

    def _lookup(self, scope: dict[str, Value], name: str, line: int) -> Value:
        if name not in scope:
            raise ParseError(f"line {line}: %{name} is used before it is defined")
        return scope[name]

    # Types and values.

    def _typed_name(self) -> tuple[str, TensorType]:
        name = self._name("%")
        self._expect(":")
        return name, self._type()

    def _type(self) -> TensorType:
        word = self._word("an element type")
        if word not in DTYPES:
            raise self._error(f"'{word}' is no element type; known: {', '.join(DTYPES)}")
        shape = self._list(self._extent)
        storage = self._storage() if self._accept("@") else PLAIN
        type = TensorType(DTYPES[word], shape, storage)
        self._guard(lambda: type.physical_shape)
        return type

    def _extent(self) -> int:
        if self._accept("?"):
            return self._bounded()
        value = self._number(DTYPES["i64"])
        if value < 0:
            raise self._error(f"extent {value} is negative")
        return int(value)

    def _bounded(self) -> Bounded:
        name = self._word("the name of a count")
        self._expect("<=")
        return Bounded(self._extent(), name)

    def _storage(self) -> Storage:
        text = self._word("a storage")
        if self._peek().text.startswith("+"):  # the halo: the lexer reads +1.1.0.0 as +1.1, .0, .0
            text += self._halo()
            if self._accept(":"):
                text += f":{self._next().text}"
        return self._guard(lambda: Storage.parse(text))  # type: ignore[no-any-return]

    def _halo(self) -> str:
        parts = []
        while self._peek().kind == "number":
            parts.append(self._next().text)
        return "".join(parts)

    def _attribute(self) -> Any:
        token = self._peek()
        if token.text == "[":
            return self._list(self._attribute)
        if token.kind == "string":
            return self._string()
        if token.kind == "number":
            self.at += 1
            return int(token.text) if re.fullmatch(r"[-+]?\d+", token.text) else float(token.text)
        if self._accept("?"):
            return self._bounded()
        word = self._word("a value")
        if word in ("true", "false"):
            return word == "true"
        if word in ("inf", "nan"):
            return float(word)
        if word == "storage":
            self._expect("(")
            storage = self._storage()
            self._expect(")")
            return storage
        if word not in DTYPES:
            raise self._error(f"'{word}' is no attribute value")
        if self._peek().text != "[":
            return DTYPES[word]
        shape = self._list(self._extent)
        return self._elements(DTYPES[word], shape)

    def _elements(self, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
        numbers = self._list(lambda: self._number(dtype))
        if len(numbers) != prod(shape):
            raise self._error(f"{dtype}{list(shape)} needs {prod(shape)} values, found {len(numbers)}")
        return self._guard(lambda: np.array(numbers, dtype.numpy).reshape(shape))  # type: ignore[no-any-return]

    def _number(self, dtype: DType) -> Any:
        token = self._next()
        if dtype == BOOL and token.text in ("true", "false"):
            return token.text == "true"
        whole = re.fullmatch(r"[-+]?\d+", token.text) is not None
        number = token.kind == "number" or token.text in ("inf", "nan")
        if not number or dtype == BOOL or not (whole or dtype.is_float):
            raise self._error(f"'{token.text}' is no value of type {dtype}", token)
        return float(token.text) if dtype.is_float else int(token.text)

    def _from_sidecar(self, key: str, name: str, type: TensorType) -> np.ndarray:
        raw = self.data.get(key)
        if raw is None:
            raise self._error(f"constant %{name}: the sidecar file holds no sha256:{key}")
        raw = np.ascontiguousarray(raw)
        if raw.dtype != np.uint8 or raw.size != type.bytes or digest(raw) != key:
            raise self._error(
                f"constant %{name}: its data in the sidecar file is damaged or does not fit {type}"
            )
        return raw.view(type.dtype.numpy).reshape(type.physical_shape)

    # Tokens.

    def _list(self, item: Any) -> tuple[Any, ...]:
        self._expect("[")
        found: list[Any] = []
        while not self._accept("]"):
            found.append(item())
            self._separator("]")
        return tuple(found)

    def _separator(self, end: str) -> None:
        if self._peek().text != end:
            self._expect(",")

    def _name(self, sigil: str) -> str:
        self._expect(sigil)
        return self._string() if self._peek().kind == "string" else self._word("a name")

    def _string(self) -> str:
        token = self._next()
        if token.kind != "string":
            raise self._error(f"expected a string, found '{token.text}'", token)
        return str(self._guard(lambda: json.loads(token.text)))

    def _word(self, what: str) -> str:
        token = self._next()
        if token.kind != "word":
            raise self._error(f"expected {what}, found '{token.text}'", token)
        return token.text

    def _peek(self) -> _Token:
        return self.tokens[self.at]

    def _next(self) -> _Token:
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def _accept(self, text: str) -> bool:
        token = self._peek()
        if token.text != text or token.kind in ("string", "end"):
            return False
        self.at += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._error(f"expected '{text}', found '{self._peek().text}'")

    def _error(self, message: str, token: _Token | None = None) -> ParseError:
        return ParseError(f"line {(token or self._peek()).line}: {message}")

    def _guard(self, build: Any) -> Any:
        """Other rooms' complaints about a value, with the line."""
        try:
            return build()
        except (TilewrightError, ValueError, OverflowError) as error:
            raise self._error(str(error)) from error


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ParseError(f"line {line}: unexpected character '{text[at]}'")
        kind = match.lastgroup or ""
        if kind != "space":
            tokens.append(_Token(kind, match.group(), line))
        line += match.group().count("\n")
        at = match.end()
    tokens.append(_Token("end", "the end of the text", line))
    return tokens
