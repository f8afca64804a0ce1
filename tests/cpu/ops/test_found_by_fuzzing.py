"""What the fuzzer found, each as the kind of model that it was."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw


def model(nodes, shape, constants=None, outputs=("y",)):
    """The bytes of a model from `x`, of f32."""
    graph = helper.make_graph(
        nodes,
        "found",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()


def check(data, shape, tmp_path, tolerance=1e-5):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    wanted = tw.evaluate(data, {"x": x})
    for level in (0, 3):
        for name, found in tw.compile(data, opt_level=level, cache_dir=tmp_path).run({"x": x}).items():
            error = f"{name} at -O{level}"
            np.testing.assert_allclose(found, wanted[name], rtol=tolerance, atol=tolerance, err_msg=error)


@pytest.mark.parametrize(("rows", "columns"), [(9, 12), (12, 12), (15, 12), (12, 9), (11, 16), (3, 2)])
def test_transpositions_of_odd_tiles(rows, columns, tmp_path):
    """LLVM could not select instructions for undefined rows of a square of vectors."""
    shape = [rows, 2, columns]
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[2, 1, 0])
    check(model([node], shape), shape, tmp_path, 0.0)


LAYERS = {
    "contraction": ("Conv", [2, 5, 7, 9], [19, 5, 2, 2], {}),
    "winograd": ("Conv", [1, 32, 14, 14], [33, 32, 3, 3], {"pads": [1, 1, 1, 1]}),
    "windowed": ("Conv", [1, 8, 12, 12], [8, 1, 3, 3], {"group": 8}),
    "product": ("MatMul", [7, 33], [33, 50], {}),
    "pool": ("LpPool", [1, 4, 9, 11], None, {"kernel_shape": [2, 2]}),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_costly_values_that_are_read_twice_behind_a_layer(layer, tmp_path):
    """They are not inlined, and were computed where the layer's sums were gone."""
    op, shape, weights, attributes = LAYERS[layer]
    scale = np.random.default_rng(1).standard_normal(weights or 0) / 8
    constants = {"w": scale.astype(np.float32)} if weights else {}
    nodes = [
        helper.make_node(op, ["x", *constants], ["c"], **attributes),
        helper.make_node("Sigmoid", ["c"], ["s"]),
        helper.make_node("Neg", ["s"], ["n"]),
        helper.make_node("Mul", ["s", "n"], ["m"]),
        helper.make_node("Exp", ["m"], ["e"]),
        helper.make_node("Add", ["e", "s"], ["a"]),
        helper.make_node("Mul", ["a", "e"], ["y"]),
    ]
    check(model(nodes, shape, constants), shape, tmp_path)


def test_copies_that_are_no_transpositions(tmp_path):
    """Expand repeats what it reads, and a packed weight has blocks of another axis innermost."""
    shape = [8, 1, 5, 1, 3]
    nodes = [helper.make_node("Expand", ["x", "to"], ["y"])]
    check(model(nodes, shape, {"to": np.array([8, 2, 5, 6, 3])}), shape, tmp_path, 0.0)
    shape = [17, 16]
    nodes = [helper.make_node("Transpose", ["x"], ["w"]), helper.make_node("MatMul", ["x", "w"], ["y"])]
    check(model(nodes, shape), shape, tmp_path)
    check(model([helper.make_node("MatMul", ["x", "x"], ["y"])], [33, 33]), [33, 33], tmp_path)


def test_a_transposition_inside_a_chain_does_not_run_in_place(tmp_path):
    """Every stage of its own read the operand in step, but what came from it was read transposed."""
    shape = [4, 4, 8, 8]
    nodes = [
        helper.make_node("Sin", ["x"], ["t"]),
        helper.make_node("MaxPool", ["t"], ["p"], kernel_shape=[2, 2]),
        helper.make_node("Relu", ["t"], ["r"]),
        helper.make_node("Transpose", ["r"], ["u"], perm=[0, 1, 3, 2]),
        helper.make_node("Exp", ["u"], ["y"]),
    ]
    check(model(nodes, shape, outputs=("y", "p")), shape, tmp_path)


@pytest.mark.parametrize("shape", [[1, 4, 5, 3], [1, 16, 1, 5]])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin", "ReduceSum"])
def test_a_result_that_does_not_depend_on_the_reduction_before_it(op, shape, tmp_path):
    """The largest of one element is at 0: the reduction that was to decide the template is not there."""
    nodes = [
        helper.make_node("ArgMax", ["x"], ["a"], axis=2, keepdims=0),
        helper.make_node("Cast", ["a"], ["f"], to=TensorProto.FLOAT),
        helper.make_node(op, ["f"], ["y"], **({} if op == "ReduceSum" else {"axis": 0})),
    ]
    check(model(nodes, shape), shape, tmp_path, 0.0)


@pytest.mark.parametrize(("upper", "k"), [(0, 0), (0, 1), (1, -8)])
def test_a_transposition_behind_a_choice_that_is_always_the_same(upper, k, tmp_path):
    """The template took it for a plain copy, which the intrinsic's proof refused."""
    shape = [1, 4, 3, 6, 1]
    nodes = [
        helper.make_node("Trilu", ["x", "k"], ["t"], upper=upper),
        helper.make_node("Transpose", ["t"], ["y"], perm=[0, 3, 4, 2, 1]),
    ]
    check(model(nodes, shape, {"k": np.array(k)}), shape, tmp_path, 0.0)


def test_costly_values_that_are_read_twice_by_a_result_of_more_axes(tmp_path):
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["sum"]),
        helper.make_node("Mul", ["sum", "e"], ["y"]),
    ]
    check(model(nodes, [40], {"one": np.ones([1, 1, 40], np.float32)}), [40], tmp_path)
