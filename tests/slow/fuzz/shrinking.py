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


def shrink(case: Case, fails: Callable[[Case], bool], tries: int = 250) -> Case:
    """The smallest case found that still fails. fails: runs one; tries: how many at most."""
    progress = True
    while progress and tries > 0:
        progress = False
        for kind in (_one_output, _fewer_outputs, _earlier_output, _cut, _zeros):
            candidates = kind(case)
            while tries > 0 and (candidate := next(candidates, None)) is not None:
                tries -= 1
                if fails(candidate):
                    case, progress = candidate, True
                    candidates = kind(case)
    return case


def _one_output(case: Case) -> Iterator[Case]:
    outputs = case.model.graph.output
    for info in outputs if len(outputs) > 1 else ():
        yield _kept(case, [info], {})


def _fewer_outputs(case: Case) -> Iterator[Case]:
    outputs = case.model.graph.output
    for info in outputs if len(outputs) > 1 else ():
        yield _kept(case, [other for other in outputs if other.name != info.name], {})


def _earlier_output(case: Case) -> Iterator[Case]:
    """A fault in an early node shows there as well."""
    graph, types = case.model.graph, _types(case)
    for name in (name for node in graph.node[:-1] for name in node.output):
        if name in types and [info.name for info in graph.output] != [name]:
            yield _kept(case, [types[name]], {})


def _cut(case: Case) -> Iterator[Case]:
    """What a node computes becomes an input, with its value."""
    graph, types = case.model.graph, _types(case)
    values = _values(case, [name for node in graph.node for name in node.output if name in types])
    for node in graph.node:
        cut = {name: values[name] for name in node.output if name in values}
        if cut and not any(info.name in cut for info in graph.output):
            yield _kept(case, list(graph.output), cut, [types[name] for name in cut])


def _zeros(case: Case) -> Iterator[Case]:
    for name, array in case.feeds.items():
        if array.any():
            yield Case(case.model, {**case.feeds, name: np.zeros_like(array)})


def _types(case: Case) -> dict:
    """Type and shape of every tensor, as ONNX declares them."""
    graph = case.model.graph
    inferred = onnx.shape_inference.infer_shapes(case.model).graph.value_info
    return {info.name: info for info in (*inferred, *graph.input, *graph.output)}


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
