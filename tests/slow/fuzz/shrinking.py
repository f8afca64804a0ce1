"""Makes a failing case small: fewer outputs, nodes that become inputs, numbers that become zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, helper

from fuzz.drawing import Case
from tilewright.errors import TilewrightError
from tilewright.ops.evaluate import evaluate_function
from tilewright.source import Source


def shrink(case: Case, fails: Callable[[Case], bool], tries: int = 150) -> Case:
    """The smallest case found that still fails. fails: runs one; tries: how many at most."""
    progress = True
    while progress and tries > 0:
        progress = False
        for candidate in _smaller(case):
            tries -= 1
            if fails(candidate):
                case, progress = candidate, True
                break
            if tries <= 0:
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Candidates, the boldest first."""
    graph = case.model.graph
    types = {info.name: info for info in onnx.shape_inference.infer_shapes(case.model).graph.value_info}
    types |= {info.name: info for info in (*graph.input, *graph.output)}
    if len(graph.output) > 1:
        for info in graph.output:
            yield _kept(case, [info], {})
        for info in graph.output:
            yield _kept(case, [other for other in graph.output if other.name != info.name], {})
    # an output further up: a fault in an early node shows there as well
    for node in graph.node[:-1]:
        for name in node.output:
            if name in types and [info.name for info in graph.output] != [name]:
                yield _kept(case, [types[name]], {})
    values = _values(case, [name for node in graph.node for name in node.output if name in types])
    for node in graph.node:
        cut = {name: values[name] for name in node.output if name in values}
        if cut and not any(info.name in cut for info in graph.output):
            yield _kept(case, list(graph.output), cut, [types[name] for name in cut])
    for name, array in case.feeds.items():
        if array.any():
            yield Case(case.model, {**case.feeds, name: np.zeros_like(array)})


def _values(case: Case, names: list[str]) -> dict[str, np.ndarray]:
    """What the tensors of a case hold, in their own types."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    try:
        return evaluate_function(Source.of(model.SerializeToString()).read({}).entry, case.feeds)
    except TilewrightError:
        return {}  # the fault is in reading or evaluating: nothing can be cut


def _kept(case: Case, outputs: list, cut: dict[str, np.ndarray], infos: list | None = None) -> Case:
    """The part of a model that its outputs need when the tensors of `cut` are inputs."""
    graph = case.model.graph
    needed = {info.name for info in outputs}
    nodes = []
    for node in reversed(graph.node):
        if any(name in needed and name not in cut for name in node.output):
            nodes.append(node)
            needed.update(node.input)
    inputs = [*(i for i in graph.input if i.name in needed), *(i for i in infos or () if i.name in needed)]
    constants = [tensor for tensor in graph.initializer if tensor.name in needed]
    model: ModelProto = helper.make_model(
        helper.make_graph(nodes[::-1], graph.name, inputs, outputs, constants),
        opset_imports=list(case.model.opset_import),
        ir_version=case.model.ir_version,
    )
    feeds = case.feeds | cut
    return Case(model, {info.name: feeds[info.name] for info in inputs})


def save(case: Case, folder: Path, name: str, message: str) -> str:
    """Writes the model, its inputs and what is wrong; the path of the model."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(case.model, folder / f"{name}.onnx")
    np.savez(folder / f"{name}.npz", **case.feeds)
    (folder / f"{name}.txt").write_text(message + "\n")
    return str(folder / f"{name}.onnx")
