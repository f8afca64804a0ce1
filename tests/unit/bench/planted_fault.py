"""A model with two branches, and an engine that computes one of its operators wrongly."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from virtual_world import FakeEngine

from tilewright_bench.engines.base import Arrays, EngineSpec, Prepared, Session, Settings
from tilewright_bench.engines.registry import known_engines

FAULT = "middle/b:0"  # the tensor that the faulty engine gets wrong


def branches(path: Path) -> Path:
    """y = concat(left(x), right(x)), x [n, 4]; the right branch comes first, then the left, in the file."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])
    w = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], name="matmul"),
        helper.make_node("Tanh", ["product"], ["right"], name="tanh"),
        helper.make_node("Sigmoid", ["right"], [FAULT], name="sigmoid"),
        helper.make_node("Exp", [FAULT], ["right_end"], name="exp"),
        helper.make_node("Abs", ["product"], ["left"], name="abs"),
        helper.make_node("Neg", ["left"], ["left_end"], name="neg"),
        helper.make_node("Concat", ["left_end", "right_end"], ["y"], name="concat", axis=1),
        helper.make_node("Sin", ["left"], ["unread"], name="sin"),
    ]
    graph = helper.make_graph(nodes, "branches", [x], [y], [onnx.numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@dataclass
class FaultyEngine(FakeEngine):
    """ONNX Runtime on the model with another operator where `FAULT` is made.

    `hides` is a tensor which, when it is returned, makes the fault disappear, as breaking up a kernel may.
    """

    name: str = "faulty"
    keys: Mapping[str, str] = field(default_factory=lambda: {"hides": "a tensor", "drops": "a tensor"})

    def load(self, prepared: Prepared, spec: EngineSpec, settings: Settings) -> Session:
        model = onnx.load(prepared.path)
        outputs = {value.name for value in model.graph.output}
        if spec.options.get("hides") not in outputs:
            for node in model.graph.node:
                if FAULT in node.output:
                    node.op_type = "Softsign"
        path = prepared.path.with_name("faulty.onnx")
        onnx.save(model, path)
        session = known_engines()["ort"].load(Prepared(path), EngineSpec("ort", "ort", "cpu"), settings)
        return WithoutTensor(session, spec.options.get("drops", ""))


class WithoutTensor(Session):
    """A session that leaves one output out."""

    def __init__(self, session: Session, dropped: str) -> None:
        self.inputs, self.outputs = session.inputs, session.outputs
        self.precision, self.notes = session.precision, session.notes
        self._session, self._dropped = session, dropped

    def run(self, inputs: Arrays) -> Arrays:
        return {n: array for n, array in self._session.run(inputs).items() if n != self._dropped}
