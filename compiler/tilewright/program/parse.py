"""Reads the text that `text.py` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.dtypes import DTYPES
from tilewright.errors import ParseError
from tilewright.loops.ir import Role
from tilewright.program.callee import Callee
from tilewright.program.ir import (
    Alloc,
    Branch,
    CallKernel,
    Copy,
    Dealloc,
    Instruction,
    Loop,
    Memory,
    Operand,
    Program,
    Space,
)
from tilewright.storage import PLAIN, Storage

_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(
    r"(?P<reason>reason \{[^\n]*\})"
    rf"|(?P<json>\{{(?:{_STRING}: {_STRING}(?:, )?)*\}})"
    rf"|(?P<name>%(?:{_STRING}|[A-Za-z0-9_.$/:\-]+))|(?P<string>{_STRING})|(?P<shape>\[[0-9,]*\])"
    r"|(?P<mode>@[a-z]+)|(?P<word>[A-Za-z0-9_.+:\-]+)|(?P<mark>[{},\[\]])"
)
_SPACES = {
    "constant": Space.CONSTANT,
    "input": Space.MUTABLE,
    "output": Space.MUTABLE,
    "state": Space.MUTABLE,
    "activation": Space.ACTIVATION,
}


def parse_program(text: str, constants: Mapping[str, np.ndarray], kernels: Mapping[str, Callee]) -> Program:
    """The program of a text. Raises ParseError.

    constants: arrays by the sha256 of their bytes; kernels: loop programs by name.
    """
    return _Parser(text, constants, kernels).program()


class _Parser:
    """A cursor over the tokens; each method reads one piece of grammar."""

    def __init__(self, text: str, constants: Mapping[str, np.ndarray], kernels: Mapping[str, Callee]) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._data = constants
        self._known = kernels
        self._memories: dict[str, Memory] = {}

    def program(self) -> Program:
        self._expect("program")
        result = Program(json.loads(self._take("string")))
        self._expect("declare")
        self._expect("{")
        while not self._accept("}"):
            self._declaration(result)
        self._expect("program")
        result.body = self._body()
        if self._at < len(self._tokens):
            raise self._error("the end of the text")
        return result

    def _declaration(self, result: Program) -> None:
        if self._kind() == "reason":
            result.reasons.append(_reason(self._take("reason")))
            return
        word = self._take("word")
        if word == "kernel":
            self._kernel(result)
            return
        if word not in _SPACES:
            raise ParseError(
                f"a declaration starts with {', '.join((*_SPACES, 'kernel', 'reason'))}; found '{word}'"
            )
        label = json.loads(self._take("string")) if word in ("input", "output") else ""
        memory = self._memory(_SPACES[word])
        known = self._memories.setdefault(memory.name, memory)
        if known != memory:
            raise ParseError(f"buffer '{memory.name}' is declared in two ways")
        if word == "constant":
            result.constants[memory.name] = (memory, self._constant(memory))
        if word == "input":
            result.inputs.append((label, memory))
        if word == "output":
            result.outputs.append((label, memory))
            counts = self._counts()
            if counts:
                result.counts[label] = counts

    def _counts(self) -> tuple[tuple[int, str], ...]:
        found: list[tuple[int, str]] = []
        while self._accept("count"):
            axis = int(self._take("word"))
            found.append((axis, json.loads(self._take("string"))))
        return tuple(found)

    def _kernel(self, result: Program) -> None:
        name = self._name()
        if name not in self._known:
            raise ParseError(f"kernel '{name}' is declared, but its loop program was not given")
        result.kernels[name] = self._known[name]
        if self._kind() == "json":
            result.notes[name] = json.loads(self._take("json"))

    def _memory(self, space: Space) -> Memory:
        name = self._name()
        word = self._take("word")
        if word not in DTYPES:
            raise ParseError(f"buffer '{name}': unknown element type '{word}'; known: {', '.join(DTYPES)}")
        shape = _numbers(self._take("shape"))
        logical = _numbers(self._take("shape")) if self._accept("logical") else ()
        storage = Storage.parse(self._take("word")) if self._accept("storage") else PLAIN
        return Memory(name, DTYPES[word], shape, space, logical, storage)

    def _constant(self, memory: Memory) -> np.ndarray:
        self._expect("sha256")
        found = self._take("word")
        if found not in self._data:
            raise ParseError(f"constant '{memory.name}': its data, sha256 {found}, was not given")
        return self._data[found]

    def _body(self) -> tuple[Instruction, ...]:
        self._expect("{")
        found: list[Instruction] = []
        while not self._accept("}"):
            found.append(self._instruction())
        return tuple(found)

    def _instruction(self) -> Instruction:
        word = self._take("word")
        if word == "alloc":
            return Alloc(self._known_memory())
        if word == "dealloc":
            return Dealloc(self._known_memory())
        if word == "copy":
            target = self._operand()
            self._expect(",")
            return Copy(target, self._operand())
        if word == "call":
            return self._call()
        if word == "loop":
            var, trips = self._name(), int(self._take("word"))
            reverse = self._accept("reverse")
            limit = self._operand() if self._accept("limit") else None
            condition = self._operand() if self._accept("while") else None
            return Loop(var, trips, self._body(), reverse, limit, condition)
        if word == "if":
            condition, then = self._operand(), self._body()
            return Branch(condition, then, self._body() if self._accept("else") else ())
        raise ParseError(f"unknown instruction '{word}'; known: alloc, dealloc, copy, call, loop, if")

    def _call(self) -> CallKernel:
        kernel = self._name()
        args = [self._operand()] if self._kind() == "mode" else []
        while self._accept(","):
            args.append(self._operand())
        origin = []
        if self._accept("from"):
            while self._kind() == "string":
                origin.append(json.loads(self._take("string")))
        return CallKernel(kernel, tuple(args), tuple(origin))

    def _operand(self) -> Operand:
        mode = self._take("mode")[1:]
        if mode not in list(Role):
            raise ParseError(f"unknown operand mode '@{mode}'; known: {', '.join('@' + r for r in Role)}")
        memory = self._known_memory()
        index = ""
        if self._accept("["):
            index = self._name()
            self._expect("]")
        return Operand(memory, Role(mode), index)

    def _known_memory(self) -> Memory:
        name = self._name()
        if name not in self._memories:
            raise ParseError(f"buffer '{name}' is used but not declared")
        return self._memories[name]

    def _name(self) -> str:
        text = self._take("name")[1:]
        return str(json.loads(text)) if text.startswith('"') else text

    def _kind(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else "end"

    def _take(self, kind: str) -> str:
        if self._kind() != kind:
            raise self._error(f"a {kind}")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _accept(self, text: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at][1] == text
        self._at += found
        return found

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._error(f"'{text}'")

    def _error(self, expected: str) -> ParseError:
        found = " ".join(text for _, text in self._tokens[self._at : self._at + 5]) or "the end"
        return ParseError(f"program text: expected {expected}, found: {found}")


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            line = text.count("\n", 0, at) + 1
            raise ParseError(f"program text, line {line}: unexpected '{text[at : at + 20]}'")
        found.append((match.lastgroup, match.group()))
        at = match.end()
    return found


def _reason(text: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text.removeprefix("reason"))
    except ValueError as error:
        raise ParseError(f"program text: {error}: {text}") from error
    return found


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text[1:-1].split(",") if n)
