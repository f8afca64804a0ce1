"""Products of bytes as generated code: the very numbers of the operators' meaning, with and without VNNI.

Scales are powers of two, so that a requantised number is the same however its factors are multiplied.
"""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tilewright.targets.cpu.codegen_dot import QUADS
from tilewright.targets.cpu.detect import host

KINDS = {"u8": (np.uint8, TensorProto.UINT8), "i8": (np.int8, TensorProto.INT8)}


def full(rng, kind, shape):
    """Random bytes over their whole range."""
    limits = np.iinfo(KINDS[kind][0])
    return rng.integers(limits.min, limits.max + 1, shape).astype(KINDS[kind][0])


def model(nodes, inputs, result, constants):
    """inputs: shape and kind by name; result: name and ONNX type."""
    graph = helper.make_graph(
        nodes,
        "bytes",
        [helper.make_tensor_value_info(n, KINDS[k][1], s) for n, (s, k) in inputs.items()],
        [helper.make_tensor_value_info(*result, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    imports = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()


def layer(rng, name, source, kind, weights, **attrs):
    """A QLinearConv from `source` to `name` and its constants: scales of columns, zero points but 0."""
    columns, depth = weights[0], int(np.prod(weights[1:]))
    scale = 2.0 ** np.ceil(np.log2(73 * 73 * np.sqrt(depth) / 40))
    constants = {
        "one": np.float32(1),
        "x_zero": KINDS[kind][0](100),
        "y_zero": KINDS[kind][0](90),
        f"{name}_w": full(rng, "i8", weights),
        f"{name}_s": rng.choice([0.5, 1.0, 2.0], columns).astype(np.float32),
        f"{name}_wz": np.zeros(columns, np.int8),
        f"{name}_ys": np.float32(scale),
        f"{name}_b": rng.integers(-9999, 9999, columns).astype(np.int32),
    }
    zero = "x_zero" if source == "x" else "y_zero"
    operands = [source, "one", zero, *(f"{name}_{part}" for part in ("w", "s", "wz", "ys"))]
    return helper.make_node("QLinearConv", [*operands, "y_zero", f"{name}_b"], [name], **attrs), constants


def same(data, feeds, tmp_path, **options):
    """The only result equals its meaning; the executable."""
    wanted = tw.evaluate(data, feeds)
    executable = tw.compile(data, cache_dir=tmp_path, verify_each=True, **options)
    for name, found in executable.run(feeds).items():
        assert found.dtype == wanted[name].dtype
        np.testing.assert_array_equal(found, wanted[name])
    return executable


def algorithms(executable):
    """What was chosen for each product that had a choice."""
    (segment,) = executable.package.segments
    return [row["algorithm"]["chosen"] for row in segment.info["reasons"] if "algorithm" in row]


CONVOLUTIONS = {
    "1x1": ([1, 16, 7, 7], [24, 16, 1, 1], {}),
    "strided": ([2, 8, 13, 11], [40, 8, 3, 3], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "odd columns": ([1, 12, 9, 9], [19, 12, 3, 3], {"pads": [1, 0, 2, 1]}),
    "odd channels": ([1, 3, 12, 12], [16, 3, 3, 3], {"pads": [1, 1, 1, 1]}),
    "many odd channels": ([1, 37, 5, 5], [33, 37, 3, 3], {"pads": [1, 1, 1, 1]}),
    "dilated": ([1, 4, 9, 9], [33, 4, 3, 3], {"dilations": [2, 2], "pads": [2, 2, 2, 2]}),
    "groups": ([1, 16, 6, 6], [32, 8, 3, 3], {"group": 2, "pads": [1, 1, 1, 1]}),
    "depthwise": ([1, 24, 9, 8], [24, 1, 3, 3], {"group": 24, "pads": [1, 1, 1, 1]}),
    "a gap after channels": ([1, 4096, 2, 2], [16, 4096, 1, 1], {}),
    "1-D": ([2, 12, 30], [17, 12, 5], {"pads": [2, 2]}),
    "3-D": ([1, 4, 5, 6, 7], [8, 4, 3, 3, 3], {"pads": [1] * 6}),
}
KEPT = {
    "odd groups": ([1, 6, 6, 6], [4, 3, 3, 3], {"group": 2, "pads": [1, 1, 1, 1]}),
    "one column": ([1, 8, 6, 6], [1, 8, 3, 3], {"pads": [1, 1, 1, 1]}),
}


@pytest.mark.parametrize(("kind", "threads"), [("u8", 2), ("i8", 1)])
@pytest.mark.parametrize("name", [*CONVOLUTIONS, *KEPT])
def test_convolutions(name, kind, threads, tmp_path):
    shape, weights, attrs = (CONVOLUTIONS | KEPT)[name]
    rng = np.random.default_rng(1)
    node, constants = layer(rng, "y", "x", kind, weights, **attrs)
    data = model([node], {"x": (shape, kind)}, ("y", KINDS[kind][1]), constants)
    executable = same(data, {"x": full(rng, kind, shape)}, tmp_path, threads=threads)
    if QUADS.on(host()):
        assert algorithms(executable) == (["int8"] if name in CONVOLUTIONS else [])


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("weights", list(KINDS))
@pytest.mark.parametrize(
    ("a", "b"), [([5, 32], 50), ([3, 4, 20], 7), ([1, 64], 200), ([3, 15], 10), ([7, 3], 1)]
)
def test_matrix_products(a, b, kind, weights, tmp_path):
    rng = np.random.default_rng(2)
    zero = np.uint8(128) if weights == "u8" else np.int8(0)
    constants = {"b": full(rng, weights, (a[-1], b)), "az": KINDS[kind][0](99), "bz": zero}
    node = helper.make_node("MatMulInteger", ["x", "b", "az", "bz"], ["y"])
    data = model([node], {"x": (a, kind)}, ("y", TensorProto.INT32), constants)
    executable = same(data, {"x": full(rng, kind, a)}, tmp_path)
    if QUADS.on(host()):
        assert algorithms(executable) == (["int8"] if b > 1 else [])


@pytest.mark.parametrize("point", [0, 3, 255])
@pytest.mark.parametrize("group", [1, 16])
def test_unsigned_weights(point, group, tmp_path):
    """Without their zero point they are beyond i8, on one side or on both."""
    rng = np.random.default_rng(4)
    weights = full(rng, "u8", (16, 16 // group, 3, 3))
    weights.flat[:2] = 0, 255
    constants = {"w": weights, "az": np.uint8(99), "wz": np.uint8(point)}
    node = helper.make_node("ConvInteger", ["x", "w", "az", "wz"], ["y"], pads=[1, 1, 1, 1], group=group)
    data = model([node], {"x": ([1, 16, 9, 9], "u8")}, ("y", TensorProto.INT32), constants)
    same(data, {"x": full(rng, "u8", [1, 16, 9, 9])}, tmp_path)


@pytest.mark.parametrize("weight", [-128, 127])
@pytest.mark.parametrize("zero", [0, 255])
def test_the_largest_sums(weight, zero, tmp_path):
    """No intermediate sum of 16 bits saturates, as that of vpmaddubsw would."""
    constants = {"w": np.full((16, 64, 3, 3), weight, np.int8), "zero": np.uint8(zero)}
    node = helper.make_node("ConvInteger", ["x", "w", "zero"], ["y"], pads=[1, 1, 1, 1])
    data = model([node], {"x": ([1, 64, 4, 4], "u8")}, ("y", TensorProto.INT32), constants)
    same(data, {"x": np.full((1, 64, 4, 4), 255 - zero, np.uint8)}, tmp_path)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    ("op", "shape", "weights", "attrs"),
    [
        ("MatMulInteger", [5, 12], [12, 20], {}),
        ("ConvInteger", [1, 8, 5, 5], [20, 8, 3, 3], {}),
        ("ConvInteger", [1, 8, 5, 5], [20, 8, 3, 3], {"pads": [1, 2, 0, 1]}),
        ("ConvInteger", [2, 8, 5, 5], [20, 8, 3, 3], {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ],
    ids=str,
)
def test_a_zero_point_that_is_an_input(op, shape, weights, attrs, kind, tmp_path):
    rng = np.random.default_rng(3)
    node = helper.make_node(op, ["x", "w", "zero"], ["y"], **attrs)
    inputs = {"x": (shape, kind), "zero": ([], kind)}
    data = model([node], inputs, ("y", TensorProto.INT32), {"w": full(rng, "i8", weights)})
    feeds = {"x": full(rng, kind, shape), "zero": full(rng, kind, ())}
    executable = same(data, feeds, tmp_path)
    if QUADS.on(host()):
        assert algorithms(executable) == ["int8"]


def block(rng, kind):
    """A bottleneck: what is read by windows, with padding, is written by other products."""
    layers = [
        layer(rng, "a", "x", kind, [24, 8, 1, 1]),
        layer(rng, "b", "a", kind, [24, 1, 3, 3], group=24, pads=[1, 1, 1, 1]),
        layer(rng, "c", "b", kind, [16, 24, 3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        layer(rng, "d", "a", kind, [16, 24, 5, 5], pads=[2, 2, 2, 2], strides=[2, 2]),
        layer(rng, "e", "c", kind, [16, 16, 1, 1]),
    ]
    nodes = [node for node, _ in layers]
    nodes.append(helper.make_node("Concat", ["e", "d"], ["y"], axis=1))
    constants = {name: array for _, more in layers for name, array in more.items()}
    return model(nodes, {"x": ([1, 8, 9, 9], kind)}, ("y", KINDS[kind][1]), constants)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    "options",
    [
        *({"opt_level": level} for level in range(4)),
        *({"without": [name]} for name in ("winograd", "direct", "packing", "storage", "fusion", "matrix")),
        {"target": "numpy"},
    ],
    ids=str,
)
def test_a_network(kind, options, tmp_path):
    rng = np.random.default_rng(4)
    data = block(rng, kind)
    executable = same(data, {"x": full(rng, kind, [1, 8, 9, 9])}, tmp_path, **options)
    if QUADS.on(host()) and options in ({"opt_level": 3}, {"without": ["matrix"]}):
        assert algorithms(executable) == ["int8"] * 5


def test_two_readers_that_pad_with_other_values(tmp_path):
    """One halo holds one of them; the other reader keeps guards."""
    rng = np.random.default_rng(6)
    layers = [layer(rng, name, "x", "u8", [20, 8, 3, 3], pads=[1] * 4) for name in "ab"]
    layers[1][0].input[2] = "other"
    constants = {name: array for _, more in layers for name, array in more.items()} | {"other": np.uint8(7)}
    nodes = [*(node for node, _ in layers), helper.make_node("Concat", ["a", "b"], ["y"], axis=1)]
    data = model(nodes, {"x": ([1, 8, 9, 9], "u8")}, ("y", TensorProto.UINT8), constants)
    same(data, {"x": full(rng, "u8", [1, 8, 9, 9])}, tmp_path)


def test_a_machine_without_the_instruction(tmp_path, monkeypatch):
    monkeypatch.setattr(type(QUADS), "on", lambda dot, machine: False)
    rng = np.random.default_rng(5)
    executable = same(block(rng, "u8"), {"x": full(rng, "u8", [1, 8, 9, 9])}, tmp_path)
    assert "int8" not in algorithms(executable)


def test_readers_whose_padding_has_two_values(tmp_path):
    """One of them keeps a guard around what it reads, which no instruction on quads does."""
    rng = np.random.default_rng(5)
    constants = {f"w{i}": full(rng, "i8", [32, 16, 3, 3]) for i in range(2)}
    constants |= {f"z{i}": np.uint8(zero) for i, zero in enumerate((3, 7))}
    pads = {"pads": [1, 1, 1, 1]}
    nodes = [helper.make_node("ConvInteger", ["x", f"w{i}", f"z{i}"], [f"c{i}"], **pads) for i in range(2)]
    nodes.append(helper.make_node("Add", ["c0", "c1"], ["y"]))
    data = model(nodes, {"x": ([1, 16, 9, 9], "u8")}, ("y", TensorProto.INT32), constants)
    same(data, {"x": full(rng, "u8", [1, 16, 9, 9])}, tmp_path)
