"""Tensors without elements, on generated code: no operator may trip over an extent of zero."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw


def model_of(op, shapes, opset=18, outputs=1, constants=(), **attributes):
    """One node with float inputs of these shapes, then these constants; its bytes."""
    names = [f"x{index}" for index in range(len(shapes))]
    fixed = [numpy_helper.from_array(np.asarray(array), f"c{index}") for index, array in enumerate(constants)]
    results = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(
        op, [*names, *(tensor.name for tensor in fixed)], results, name="node", **attributes
    )
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes, strict=True)],
        [onnx.ValueInfoProto(name=name) for name in results],
        fixed,
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()


def ints(values):
    return np.array(values, np.int64)


CASES = {
    "an element-wise operator": ("Relu", [(0, 3)], {}),
    "broadcasting": ("Add", [(0, 3), (1, 3)], {}),
    "broadcasting from one": ("Mul", [(2, 0), (2, 1)], {}),
    "a rank of one": ("Exp", [(0,)], {}),
    "a product without rows": ("MatMul", [(0, 4), (4, 5)], {}),
    "a product without a depth": ("MatMul", [(2, 0), (0, 5)], {}),
    "a stack of none": ("MatMul", [(0, 2, 3), (0, 3, 4)], {}),
    "Gemm without a depth": ("Gemm", [(2, 0), (0, 5), (5,)], {}),
    "a convolution of no image": ("Conv", [(0, 3, 8, 8), (4, 3, 3, 3)], {"pads": [1, 1, 1, 1]}),
    "a pool of no image": ("MaxPool", [(0, 3, 8, 8)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "a mean of no image": ("GlobalAveragePool", [(0, 3, 8, 8)], {}),
    "a sum over nothing": ("ReduceSum", [(0, 3)], {"constants": [ints([0])]}),
    "a sum of rows without elements": ("ReduceSum", [(3, 0)], {"constants": [ints([1])], "keepdims": 0}),
    "a product over nothing": ("ReduceProd", [(2, 0)], {"constants": [ints([1])]}),
    "a softmax of no rows": ("Softmax", [(0, 5)], {"axis": 1}),
    "a softmax of empty rows": ("Softmax", [(5, 0)], {"axis": 1}),
    "normalising no rows": ("LayerNormalization", [(0, 4), (4,), (4,)], {}),
    "an empty part": ("Concat", [(0, 3), (2, 3)], {"axis": 0}),
    "empty parts alone": ("Concat", [(0, 3), (0, 3)], {"axis": 0}),
    "a transposition": ("Transpose", [(2, 0, 3)], {"perm": [2, 0, 1]}),
    "another shape": ("Reshape", [(0, 3)], {"constants": [ints([3, 0])], "allowzero": 1}),
    "no indices": ("Gather", [(4, 3)], {"constants": [ints([])]}),
    "nothing selected": ("Slice", [(4, 3)], {"constants": [ints([2]), ints([2]), ints([0])]}),
    "padding of nothing": ("Pad", [(0, 3)], {"constants": [ints([1, 0, 1, 0]), np.float32(7)]}),
    "expanding to nothing": ("Expand", [(1, 3)], {"constants": [ints([0, 3])]}),
    "repeating never": ("Tile", [(2, 3)], {"constants": [ints([0, 2])]}),
    "a cast": ("Cast", [(0,)], {"to": TensorProto.INT32}),
    "an empty part of a split": ("Split", [(3, 2)], {"constants": [ints([0, 3])], "axis": 0, "outputs": 2}),
    "the largest of no rows": ("ArgMax", [(0, 3)], {"axis": 1}),
}


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("case", CASES)
def test_an_extent_of_zero(case, level, tmp_path):
    op, shapes, options = CASES[case]
    model = model_of(op, shapes, **options)
    random = np.random.default_rng(3)
    inputs = {f"x{i}": random.standard_normal(shape, np.float32) for i, shape in enumerate(shapes)}
    expected = tw.evaluate(model, inputs, dtype="float32")
    found = tw.compile(model, opt_level=level, cache_dir=tmp_path, threads=2, verify_each=True).run(inputs)
    for name, array in expected.items():
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)


def test_no_kernel_is_made_for_a_tensor_without_elements(tmp_path):
    exe = tw.compile(model_of("Relu", [(0, 3)]), cache_dir=tmp_path)
    assert exe.package.segments[0].info["kernels"] == []
