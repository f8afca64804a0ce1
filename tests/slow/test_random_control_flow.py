"""Random models of nested If, Loop and Scan: all engines against ONNX Runtime, on several inputs each."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import tilewright as tw

SEEDS = range(100)
ENGINES = (("numpy", 3), ("cpu", 0), ("cpu", 3))
DEPTH = 3
VALUE = "float[2,3]"


class Writer:
    """Writes ONNX text. values, flags: names of the floats and booleans that are in scope."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.stacked: list[str] = []

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def block(self, values: list[str], flags: list[str], depth: int, length: int) -> str:
        simple = [self.unary, self.binary, self.binary, self.compare]
        nested = [self.branch, self.loop, self.scan] if depth < DEPTH else []
        kinds = [self.random.choice(simple + nested) for _ in range(length)]
        return "\n".join(kind(values, flags, depth) for kind in kinds)

    def pick(self, among: list[str]) -> str:
        return self.random.choice(among)

    def unary(self, values: list[str], flags: list[str], depth: int) -> str:
        made, operand = self.name(), self.pick(values)
        values.append(made)
        return f"{made} = {self.pick(['Neg', 'Tanh', 'Sin', 'Identity', 'Abs'])}({operand})"

    def binary(self, values: list[str], flags: list[str], depth: int) -> str:
        made, a, b = self.name(), self.pick(values), self.pick(values)
        values.append(made)
        return f"{made} = {self.pick(['Add', 'Sub', 'Mul', 'Max'])}({a}, {b})"

    def compare(self, values: list[str], flags: list[str], depth: int) -> str:
        a, b, made = self.name(), self.name(), self.name()
        flags.append(made)
        means = [f"{n} = ReduceMean <keepdims = 0> ({self.pick(values)})" for n in (a, b)]
        return f"{' '.join(means)} {made} = Less({a}, {b})"

    def branch(self, values: list[str], flags: list[str], depth: int) -> str:
        arms = []
        for _ in range(2):
            seen = list(values)
            body = self.block(seen, list(flags), depth + 1, self.random.randint(0, 3))
            first, second = self.name(), self.name()
            results = f"{first} = Identity({self.pick(seen)}) {second} = Neg({self.pick(seen)})"
            arms.append(f"g{first} () => ({VALUE} {first}, {VALUE} {second}) {{ {body} {results} }}")
        a, b, condition = self.name(), self.name(), self.pick(flags)
        values += [a, b]
        return f"{a}, {b} = If ({condition}) <then_branch = {arms[0]}, else_branch = {arms[1]}>"

    def loop(self, values: list[str], flags: list[str], depth: int) -> str:
        turn, going, h, k, again, h2, k2, out = (self.name() for _ in range(8))
        seen, known = [*values, h, k], list(flags)
        body = self.block(seen, known, depth + 1, self.random.randint(1, 4))
        condition = self.random.choice([going, "yes", self.pick(known)])
        changed = [(k, h), (self.pick(seen), self.pick(seen))][self.random.random() < 0.7]
        inputs = f"int64 {turn}, bool {going}, {VALUE} {h}, {VALUE} {k}"
        outputs = f"bool {again}, {VALUE} {h2}, {VALUE} {k2}, {VALUE} {out}"
        results = (
            f"{again} = Identity({condition}) {h2} = Tanh({changed[0]}) {k2} = Identity({changed[1]}) "
            f"{out} = Sub({h}, {self.pick(seen)})"
        )
        a, b, stack = self.name(), self.name(), self.name()
        starts = (
            f"{self.pick(['three', 'one'])}, {self.pick(flags)}, {self.pick(values)}, {self.pick(values)}"
        )
        self._results(values, [a, b], stack, depth)
        function = f"b{h2} ({inputs}) => ({outputs}) {{ {body} {results} }}"
        return f"{a}, {b}, {stack} = Loop ({starts}) <body = {function}>"

    def scan(self, values: list[str], flags: list[str], depth: int) -> str:
        h, x, h2, out, made, stack = (self.name() for _ in range(6))
        start, captured = self.pick(values), self.pick(values)
        ways = [self.random.randint(0, 1) for _ in range(2)]
        attributes = (
            f"num_scan_inputs = 1, scan_input_directions = [{ways[0]}], scan_output_directions = [{ways[1]}]"
        )
        body = f"s{h2} = Add({h}, {x}) {h2} = Sin(s{h2}) {out} = Mul({h2}, {captured})"
        function = f"b{h2} ({VALUE} {h}, {VALUE} {x}) => ({VALUE} {h2}, {VALUE} {out}) {{ {body} }}"
        self._results(values, [made], stack, depth)
        return f"{made}, {stack} = Scan ({start}, steps) <{attributes}, body = {function}>"

    def _results(self, values: list[str], made: list[str], stack: str, depth: int) -> None:
        values += made
        if depth == 0:
            self.stacked.append(stack)

    def model(self) -> bytes:
        values = ["x", "w"]
        body = self.block(values, ["c", "d"], 0, self.random.randint(2, 5))
        names = [f"out{i}" for i in range(1 + len(self.stacked))]
        results = " ".join(f"{n} = Neg({v})" for n, v in zip(names, [values[-1], *self.stacked], strict=True))
        types = [VALUE, *(f"float[n{i},2,3]" for i in range(len(self.stacked)))]
        outputs = ", ".join(f"{t} {n}" for t, n in zip(types, names, strict=True))
        text = f"""<ir_version: 8, opset_import: ["" : 17]>
            g ({VALUE} x, {VALUE} w, float[4,2,3] steps, bool c, bool d) => ({outputs})
            <int64 three = {{3}}, int64 one = {{1}}, bool yes = {{1}}>
            {{ {body} used1 = And(c, d) used2 = Mul(x, w) used3 = Identity(steps) {results} }}"""
        return onnx.parser.parse_model(text).SerializeToString()


@pytest.mark.parametrize("seed", SEEDS)
def test_engines_agree(seed: int, tmp_path: Path) -> None:
    data = Writer(seed).model()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    rng = np.random.default_rng(seed)
    runs = []
    for c, d in ((True, True), (True, False), (False, True), (False, False)):
        floats = {n: rng.uniform(-1, 1, s) for n, s in (("x", (2, 3)), ("w", (2, 3)), ("steps", (4, 2, 3)))}
        runs.append(
            {n: a.astype(np.float32) for n, a in floats.items()} | {"c": np.array(c), "d": np.array(d)}
        )
    for target, level in ENGINES:
        engine = tw.compile(
            data, target=target, opt_level=level, cache_dir=tmp_path, verify_each=True, threads=1
        )
        for inputs in runs:
            found = engine.run(inputs)
            for name, wanted in zip(names, session.run(names, inputs), strict=True):
                assert found[name].shape == wanted.shape
                np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-5)
