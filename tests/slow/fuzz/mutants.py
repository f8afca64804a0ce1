"""Broken ONNX files: valid models with a few bytes, fields, sizes, names, types or paths changed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

from fuzz.graphs import draw

BAD_SIZES = (-1, -7, 0, 3, 1 << 20, 1 << 31, (1 << 62) + 1, -(1 << 63), (1 << 63) - 1)
OUTSIDE = (
    "../outside.bin",
    "/etc/hostname",
    "link.bin",
    "loop.bin",
    "sub/../../outside.bin",
    "..",
    "",
    "missing.bin",
    "weights.bin\0x",
)
FOLDER = "model"  # the only folder that may be read; `outside.bin` lies next to it


def prepare(place: Path) -> Path:
    """The folder that a mutant is put into, with external data, and a secret outside of it."""
    folder = place / FOLDER
    (folder / "sub").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(np.ones(36, np.float32).tobytes())
    (place / "outside.bin").write_bytes(np.ones(36, np.float32).tobytes())
    (folder / "link.bin").symlink_to("../outside.bin")
    (folder / "loop.bin").symlink_to("loop.bin")
    return folder


def mutant(seed: int) -> tuple[str, bytes]:
    """What was done, and the file. The same seed gives the same file."""
    r = random.Random(seed)
    model = _original(r)
    kind = list(MUTATIONS)[seed % len(MUTATIONS)]
    changed = MUTATIONS[kind](r, model)
    return kind, changed if isinstance(changed, bytes) else model.SerializeToString()


def _original(r: random.Random) -> ModelProto:
    choice = r.randrange(4)
    if choice == 0:
        return _control_flow()
    if choice == 1:
        return _network()
    return draw(r.randrange(1000)).model


def _network() -> ModelProto:
    """A convolution with external weights, a reshape and a product."""
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 1, 3, 3])
    weights.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "weights.bin"), ("offset", "0"), ("length", "144")):
        weights.external_data.add(key=key, value=value)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["c"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["p", "shape"], ["r"], "reshape"),
        helper.make_node("Gemm", ["r", "m"], ["g"], "gemm", alpha=0.5),
        helper.make_node("Pad", ["g", "pads"], ["y"], "pad"),
    ]
    constants = {
        "shape": np.array([1, -1]),
        "m": np.ones((36, 5), np.float32),
        "pads": np.array([0, 1, 0, 2]),
    }
    return _model(nodes, [("x", [1, 1, 6, 6])], ["y"], constants, [weights])


def _control_flow() -> ModelProto:
    """An If and a Loop with sub-graphs."""
    info = helper.make_tensor_value_info
    small, large = (
        helper.make_graph([helper.make_node(op, ["x"], [op], op)], op, [], [info(op, 1, None)])
        for op in ("Neg", "Exp")
    )
    step = helper.make_graph(
        [
            helper.make_node("Add", ["s", "x"], ["t"], "add"),
            helper.make_node("Identity", ["going"], ["on"], "on"),
        ],
        "step",
        [info("i", 7, []), info("going", 9, []), info("s", 1, [3])],
        [info("on", 9, []), info("t", 1, [3])],
    )
    nodes = [
        helper.make_node("If", ["b"], ["a"], "choice", then_branch=small, else_branch=large),
        helper.make_node("Loop", ["n", "", "a"], ["y"], "loop", body=step),
    ]
    graph_inputs = [("x", [3]), ("b", [])]
    model = _model(nodes, graph_inputs, ["y"], {"n": np.array(4)}, [])
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.BOOL
    return model


def _model(nodes: list, inputs: list, outputs: list, constants: dict, tensors: list) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "original",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [*tensors, *(numpy_helper.from_array(a, n) for n, a in constants.items())],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


# mutations: of the bytes


def _flip(r: random.Random, model: ModelProto) -> bytes:
    data = bytearray(model.SerializeToString())
    for _ in range(r.randint(1, 8)):
        data[r.randrange(len(data))] = r.randrange(256)
    return bytes(data)


def _shorten(r: random.Random, model: ModelProto) -> bytes:
    data = model.SerializeToString()
    a, b = sorted(r.randrange(len(data)) for _ in range(2))
    return r.choice((data[:b], data[:a] + data[b:], data[:b] + data[a:], data[a:]))


# of the messages


def _messages(message: Any) -> Iterator[Any]:
    """A message and all below it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for child in value if field.is_repeated else [value]:
            yield from _messages(child)


def _drop(r: random.Random, model: ModelProto) -> None:
    for _ in range(r.randint(1, 3)):
        options = [(m, field) for m in _messages(model) for field, _ in m.ListFields()]
        message, field = r.choice(options)
        values = getattr(message, field.name)
        if field.is_repeated and r.random() < 0.7:
            del values[r.randrange(len(values))]
        else:
            message.ClearField(field.name)


def _tensors(model: ModelProto) -> list[TensorProto]:
    return [m for m in _messages(model) if isinstance(m, TensorProto)]


def _nodes(model: ModelProto) -> list:
    return [m for m in _messages(model) if isinstance(m, onnx.NodeProto)]


def _size(r: random.Random, model: ModelProto) -> None:
    """A dimension of an initializer, an input or an output."""
    dims = [m for m in _messages(model) if type(m).__name__ == "Dimension"]
    lists = [t.dims for t in _tensors(model) if t.dims]
    for _ in range(r.randint(1, 2)):
        if dims and (not lists or r.random() < 0.5):
            dim = r.choice(dims)
            if r.random() < 0.2:
                dim.dim_param = r.choice(("", "n", "x" * 500, "\n"))
            else:
                dim.dim_value = r.choice(BAD_SIZES)
        elif lists:
            chosen = r.choice(lists)
            chosen[r.randrange(len(chosen))] = r.choice(BAD_SIZES)


def _attribute(r: random.Random, model: ModelProto) -> None:
    """Numbers in attributes, and in the constants that are shape operands."""
    attributes = [m for m in _messages(model) if isinstance(m, AttributeProto)]
    whole = [t for t in _tensors(model) if t.data_type == TensorProto.INT64 and t.raw_data]
    if whole and (not attributes or r.random() < 0.5):
        tensor = r.choice(whole)
        array = numpy_helper.to_array(tensor).copy()
        if array.size:
            array.reshape(-1)[r.randrange(array.size)] = r.choice(BAD_SIZES)
            tensor.raw_data = array.tobytes()
        return
    if not attributes:
        return
    attribute = r.choice(attributes)
    if attribute.ints and r.random() < 0.7:
        attribute.ints[r.randrange(len(attribute.ints))] = r.choice(BAD_SIZES)
    elif attribute.ints:
        attribute.ints.extend([1] * r.randint(1, 3))
    else:
        attribute.i, attribute.f = r.choice(BAD_SIZES), r.choice((float("nan"), float("inf"), -1e38))
        attribute.s = r.choice((b"", b"\xff\xfe", b"nonsense"))


def _cycle(r: random.Random, model: ModelProto) -> None:
    nodes = _nodes(model)
    node = r.choice([n for n in nodes if n.input])
    made = [name for n in nodes for name in n.output]
    node.input[r.randrange(len(node.input))] = r.choice([*node.output, *made])


def _name(r: random.Random, model: ModelProto) -> None:
    """A name that nothing has, or that something else has."""
    nodes = _nodes(model)
    node = r.choice(nodes)
    wished = r.choice(
        ("nobody", "", "x\ny", "y" * 3000, *(name for n in nodes for name in (*n.input, *n.output)))
    )
    where = r.choice([field for field in (node.input, node.output, "op", "name") if len(field)])
    if where == "op":
        node.op_type = r.choice(
            ("Nonsense", "", "Conv", "Add", "Reshape", "If", "Gather", "Concat", "TopK", "LSTM")
        )
    elif where == "name":
        node.name = wished
    else:
        where[r.randrange(len(where))] = wished


def _type(r: random.Random, model: ModelProto) -> None:
    tensors = _tensors(model)
    types = [m for m in _messages(model) if type(m).__name__ == "Tensor"]
    attributes = [m for m in _messages(model) if isinstance(m, AttributeProto)]
    code = r.choice((*range(24), 99, -1))
    chosen = r.choice([*tensors, *types, *attributes])
    if isinstance(chosen, TensorProto):
        chosen.data_type = code
    elif isinstance(chosen, AttributeProto):
        chosen.type = r.choice(list(AttributeProto.AttributeType.values()))
    else:
        chosen.elem_type = code


def _external(r: random.Random, model: ModelProto) -> None:
    tensors = _tensors(model)
    if not tensors:
        return
    tensor = r.choice(tensors)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    location = r.choice((*OUTSIDE, "weights.bin"))
    numbers = ("0", "-1", "1000000000000", "x", "4", "144", "")
    for key, value in (("location", location), ("offset", r.choice(numbers)), ("length", r.choice(numbers))):
        if r.random() < 0.8 or key == "location":
            tensor.external_data.add(key=key, value=value)


def _version(r: random.Random, model: ModelProto) -> None:
    if model.opset_import:
        model.opset_import[0].version = r.choice((0, -1, 1, 6, 7, 12, 13, 99, 1 << 40))
    if r.random() < 0.3:
        model.opset_import.add(domain=r.choice(("", "com.example")), version=r.choice((1, 13)))


MUTATIONS = {
    "flipped bytes": _flip,
    "missing bytes": _shorten,
    "missing fields": _drop,
    "sizes": _size,
    "attributes": _attribute,
    "cycles": _cycle,
    "names": _name,
    "types": _type,
    "external data": _external,
    "opsets": _version,
}
