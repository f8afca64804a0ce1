"""Operators of opset 6, whose broadcasting had to be asked for."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tilewright.errors import ImportModelError
from tilewright.frontend.onnx_reader import read_bytes
from tilewright.ops.evaluate import evaluate_function

RANDOM = np.random.default_rng(0)


def f32(*shape):
    return RANDOM.standard_normal(shape, np.float32)


def result(op, arrays, **attributes):
    names = [f"x{index}" for index in range(len(arrays))]
    given = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
        for name, array in zip(names, arrays, strict=True)
    ]
    node = helper.make_node(op, names, ["y"], name="node", **attributes)
    graph = helper.make_graph([node], "g", given, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=3)
    function = read_bytes(model.SerializeToString()).entry
    return evaluate_function(function, dict(zip(names, arrays, strict=True)))["y"]


@pytest.mark.parametrize(
    ("shape", "axis", "seen"),
    [
        ((3, 4), 1, (3, 4, 1)),
        ((2,), 0, (2, 1, 1, 1)),
        ((4, 5), None, (4, 5)),
        ((1,), None, (1,)),
        ((3,), -3, (3, 1, 1)),
    ],
)
def test_the_axis_says_where_the_second_operand_lies(shape, axis, seen):
    a, b = f32(2, 3, 4, 5), f32(*shape)
    where = {} if axis is None else {"axis": axis}
    np.testing.assert_array_equal(result("Sub", [a, b], broadcast=1, **where), a - b.reshape(seen))


def test_without_broadcast_shapes_must_agree():
    a = f32(2, 3)
    np.testing.assert_array_equal(result("Mul", [a, a]), a * a)
    with pytest.raises(ImportModelError, match=r"node 'node' \(Add\).*'broadcast' is not set"):
        result("Add", [a, f32(3)])


def test_an_axis_without_room_is_refused():
    with pytest.raises(ImportModelError, match="has no place"):
        result("Add", [f32(2, 3), f32(2, 3)[:1]], broadcast=1, axis=1)


def test_slopes_are_those_of_channels():
    x, slope = f32(2, 3, 4), f32(3)
    np.testing.assert_array_equal(
        result("PRelu", [x, slope]), np.where(x < 0, x * slope.reshape(3, 1), x).astype(np.float32)
    )


def test_gemm_adds_its_third_operand():
    a, b, c = f32(2, 3), f32(3, 4), f32(4)
    np.testing.assert_allclose(result("Gemm", [a, b, c], broadcast=1), a @ b + c, rtol=1e-5, atol=1e-6)


def test_dropout_is_for_inference_only():
    x = f32(2, 3)
    np.testing.assert_array_equal(result("Dropout", [x], is_test=1), x)
    with pytest.raises(ImportModelError, match="'is_test' is 0"):
        result("Dropout", [x])
