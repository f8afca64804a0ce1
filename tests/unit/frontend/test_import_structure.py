"""Shape of the graph: order, names, outputs, and what is folded while reading."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tilewright.errors import ImportModelError
from tilewright.frontend.onnx_reader import read_bytes

Build = Callable[..., onnx.ModelProto]
Run = Callable[..., dict[str, np.ndarray]]

X = {"x": np.array([1, -2], np.float32)}


def node(op: Any, inputs: Any, outputs: Any, **attributes: Any) -> Any:
    return helper.make_node(op, inputs, outputs, **attributes)


def read(model: onnx.ModelProto, **options: Any) -> Any:
    return read_bytes(model.SerializeToString(), **options).entry


def test_an_output_may_be_the_input_or_an_initializer_or_stand_twice(build: Build, run: Run) -> None:
    constants = {"zero": np.zeros(2, np.float32)}
    relu = [node("Relu", ["x"], ["y"])]
    model = build(relu, X, ["zero", "x", "y"], constants)
    got = run(model, X)
    np.testing.assert_array_equal(got["zero"], [0, 0])
    np.testing.assert_array_equal(got["x"], X["x"])
    assert not np.shares_memory(got["x"], X["x"])

    twice = build(relu, X, ["y", "y"])
    function = read(twice)
    assert function.output_names == ["y", "y"]
    assert len({id(value) for value in function.outputs}) == 2


def test_every_output_is_the_result_of_a_node(build: Build) -> None:
    nodes = [node("Identity", ["x"], ["same"]), node("Constant", [], ["c"], value_floats=[1.0])]
    function = read(build(nodes, X, ["same", "c", "x"]))
    assert [value.producer.op for value in function.outputs] == ["Identity"] * 3
    assert function.output_names == ["same", "c", "x"]


def test_an_output_may_be_read_inside(build: Build, run: Run) -> None:
    model = build([node("Relu", ["x"], ["y"]), node("Neg", ["y"], ["z"])], X, ["y", "z"])
    got = run(model, X)
    np.testing.assert_array_equal(got["y"], [1, 0])
    np.testing.assert_array_equal(got["z"], [-1, 0])


def test_both_sides_of_an_activation_may_be_outputs(build: Build, run: Run) -> None:
    x = {"x": np.ones((1, 1, 2, 2), np.float32)}
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["r"])]
    got = run(build(nodes, x, ["c", "r"], {"w": -np.ones((1, 1, 1, 1), np.float32)}), x)
    assert (got["c"] == -1).all()
    assert (got["r"] == 0).all()


def test_nodes_out_of_order_are_sorted(build: Build, run: Run) -> None:
    model = build([node("Neg", ["a"], ["y"]), node("Relu", ["x"], ["a"])], X, ["y"])
    np.testing.assert_array_equal(run(model, X)["y"], [-1, 0])


def test_a_cycle_is_refused(build: Build) -> None:
    nodes = [node("Add", ["x", "b"], ["a"], name="first"), node("Neg", ["a"], ["b"], name="second")]
    with pytest.raises(ImportModelError, match=r"cycle through node '(first|second)'"):
        read(build(nodes, X, ["b"]))


def test_unused_nodes_inputs_and_initializers_do_no_harm(build: Build, run: Run) -> None:
    inputs = X | {"unused": np.zeros(3, np.float32)}
    nodes = [node("Neg", ["x"], ["nobody"]), node("Relu", ["x"], ["y"])]
    model = build(nodes, inputs, ["y"], {"w": np.zeros(5, np.float32)})
    np.testing.assert_array_equal(run(model, inputs)["y"], [1, 0])


def test_initializers_may_be_listed_as_inputs(build: Build) -> None:
    model = build([node("Add", ["x", "w"], ["y"])], X, ["y"], {"w": np.ones(2, np.float32)})
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [2]))
    assert [value.name for value in read(model).inputs] == ["x"]


def test_names_with_slash_and_colon(build: Build, run: Run) -> None:
    x = {"gpu_0/data:0": X["x"]}
    model = build([node("Relu", ["gpu_0/data:0"], ["out/y"], name="a:b/c")], x, ["out/y"])
    np.testing.assert_array_equal(run(model, x)["out/y"], [1, 0])
    assert [n.name for n in read(model).nodes] == ["a:b/c"]


def test_nodes_and_values_keep_their_names_and_know_their_origin(build: Build) -> None:
    nodes = [
        node("Relu", ["x"], ["y"], name="first"),
        node("Sum", ["y", "x", "y"], ["s"], name="total"),
        node("Neg", ["s"], ["z"]),
        node("Exp", ["z"], ["e"], name="first"),
    ]
    function = read(build(nodes, X, ["e"]))
    assert [n.name for n in function.nodes] == ["first", "total.add", "total", "z", "first.exp"]
    assert [n.origin for n in function.nodes] == [("first",), ("total",), ("total",), ("z",), ("first",)]
    assert [n.outputs[0].name for n in function.nodes if "." not in n.name] == ["y", "s", "z"]


def test_generated_names_do_not_take_names_of_the_model(build: Build, run: Run) -> None:
    nodes = [
        node("Sum", ["x", "x", "x"], ["y"], name="n"),
        node("Relu", ["y"], ["add.0"], name="n.add"),
        node("Neg", ["add.0"], ["n"], name="add"),
    ]
    function = read(build(nodes, X, ["n"]))
    assert {"y", "add.0", "n"} <= {v.name for n in function.nodes for v in n.outputs}
    np.testing.assert_array_equal(run(build(nodes, X, ["n"]), X)["n"], [-3, 0])


def test_shape_arithmetic_is_done_while_reading(build: Build, run: Run) -> None:
    x = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Unsqueeze", ["n", "first"], ["n1"]),
        node("Concat", ["n1", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {
        "zero": np.array(0, np.int64),
        "first": np.array([0], np.int64),
        "rest": np.array([1, -1], np.int64),
    }
    model = build(nodes, x, ["y"], constants)
    assert [n.op for n in read(model).nodes] == ["Reshape"]
    assert run(model, x)["y"].shape == (2, 1, 3)


def test_shape_operands_may_pass_through_real_numbers(build: Build, run: Run) -> None:
    x = {"x": np.arange(6, dtype=np.float32)}
    nodes = [
        node("Mul", ["half", "four"], ["real"]),
        node("Cast", ["real"], ["target"], to=TensorProto.INT64),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"half": np.array([0.5, 0.75], np.float32), "four": np.array([4], np.float32)}
    assert run(build(nodes, x, ["y"], constants), x)["y"].shape == (2, 3)


def test_a_shape_operand_that_is_an_input_names_node_and_input(build: Build) -> None:
    inputs = X | {"target": np.array([2, 1], np.int64)}
    model = build([node("Reshape", ["x", "target"], ["y"], name="r")], inputs, ["y"])
    with pytest.raises(ImportModelError, match=r"node 'r' \(Reshape\).*depends on the input 'target'"):
        read(model)


def test_large_fills_stay_small_in_memory(build: Build) -> None:
    nodes = [node("ConstantOfShape", ["s"], ["c"]), node("ReduceMax", ["c"], ["y"], keepdims=0)]
    function = read(build(nodes, X, ["y"], {"s": np.array([1 << 20, 1 << 10], np.int64)}))
    assert sum(constant.data.nbytes for constant in function.constants()) < 100


def test_lstm_layouts_agree(build: Build, run: Run) -> None:
    rng = np.random.default_rng(3)
    t, b, i, h = 3, 2, 4, 5
    weights = {
        "w": rng.normal(size=(1, 4 * h, i)).astype(np.float32),
        "r": rng.normal(size=(1, 4 * h, h)).astype(np.float32),
    }
    x = rng.normal(size=(t, b, i)).astype(np.float32)
    results = []
    for layout, data in ((0, x), (1, x.transpose(1, 0, 2))):
        lstm = node("LSTM", ["x", "w", "r"], ["y", "yh"], hidden_size=h, layout=layout)
        results.append(run(build([lstm], {"x": data}, ["y", "yh"], weights), {"x": data}))
    np.testing.assert_array_equal(results[1]["y"], results[0]["y"].transpose(2, 0, 1, 3))
    np.testing.assert_array_equal(results[1]["yh"], results[0]["yh"].transpose(1, 0, 2))


def test_named_and_unnamed_dimensions_are_bound(build: Build) -> None:
    model = build([node("Relu", ["x"], ["y"])], {"x": np.zeros((2, 3, 4), np.float32)}, ["y"])
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_param = "N"
    dims[2].Clear()
    with pytest.raises(ImportModelError, match=r"input 'x'.*--dim N=N.*--dim x:2=N"):
        read(model)
    assert read(model, dims={"N": 5, "x:2": 7, "other": 1}).inputs[0].shape == (5, 3, 7)
    with pytest.raises(ImportModelError, match="N=-1"):
        read(model, dims={"N": -1, "x:2": 7})


def test_an_empty_batch(build: Build, run: Run) -> None:
    x = {"x": np.zeros((0, 4), np.float32)}
    model = build([node("Gemm", ["x", "w"], ["y"])], x, ["y"], {"w": np.ones((4, 3), np.float32)})
    assert run(model, x)["y"].shape == (0, 3)


def test_declared_outputs_are_checked(build: Build) -> None:
    model = build([node("Relu", ["x"], ["y"])], X, ["y"])
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 3
    with pytest.raises(ImportModelError, match=r"output 'y' is declared with shape \[3\].*f32\[2\]"):
        read(model)
    model = build([node("Relu", ["x"], ["y"])], X, ["y"], output_kind=TensorProto.INT64)
    with pytest.raises(ImportModelError, match="output 'y' is declared as INT64"):
        read(model)


def test_what_is_defined_twice_or_never_is_refused(build: Build) -> None:
    twice = build([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])], X, ["y"])
    with pytest.raises(ImportModelError, match="'y' is defined twice"):
        read(twice)
    shadow = build([node("Relu", ["x"], ["w"])], X, ["w"], {"w": np.zeros(1, np.float32)})
    with pytest.raises(ImportModelError, match="'w' is defined twice"):
        read(shadow)
    with pytest.raises(ImportModelError, match="node 'y' reads 'nothing'"):
        read(build([node("Relu", ["nothing"], ["y"])], X, ["y"]))
    with pytest.raises(ImportModelError, match="output 'z' is produced by no node"):
        read(build([node("Relu", ["x"], ["y"])], X, ["z"]))


def test_all_unsupported_nodes_are_listed_at_once(build: Build) -> None:
    nodes = [
        node("StringNormalizer", ["x"], ["a"], name="first"),
        node("Relu", ["x"], ["b"]),
        node("Mystery", ["b"], ["c"], name="second", domain="com.example"),
        node("StringNormalizer", ["c"], ["d"], name="third"),
        node("Conv", ["x", "x"], ["e"], name="fourth", pads=[-1, 0]),
        node("Relu", ["b"], ["f"], name="fifth", alpha=1.0),
        node("Relu", ["b", "b"], ["g"], name="sixth"),
    ]
    with pytest.raises(ImportModelError) as caught:
        read(build(nodes, X, ["d"]))
    text = str(caught.value)
    assert "\n" not in text
    assert "StringNormalizer (domain ai.onnx, opset 17): nodes 'first', 'third'" in text
    assert "Mystery (domain com.example): node 'second'" in text
    assert "'pads' has negative values [-1, 0], use Slice or Pad to crop: node 'fourth'" in text
    assert "attribute 'alpha' does not exist in this version of the operator: node 'fifth'" in text
    assert "it has 2 operands, the operator takes 1: node 'sixth'" in text


def test_operators_inside_branches_are_listed_too(build: Build) -> None:
    branch = helper.make_graph(
        [node("StringNormalizer", ["x"], ["i"], name="inner")],
        "branch",
        [],
        [helper.make_tensor_value_info("i", TensorProto.INT64, None)],
    )
    nodes = [node("If", ["c"], ["y"], name="outer", then_branch=branch, else_branch=branch)]
    with pytest.raises(ImportModelError, match=r"StringNormalizer .*'inner'"):
        read(build(nodes, {"c": np.array(True), **X}, ["y"]))


@pytest.mark.parametrize("opset", [5, 999])
def test_opsets_out_of_range(build: Build, opset: Any) -> None:
    model = build([node("Relu", ["x"], ["y"])], X, ["y"])
    model.opset_import[0].version = opset
    with pytest.raises(ImportModelError, match=f"opset {opset}"):
        read(model)


def test_a_model_without_opset_or_graph_is_refused(build: Build) -> None:
    model = build([node("Relu", ["x"], ["y"])], X, ["y"])
    del model.opset_import[:]
    with pytest.raises(ImportModelError, match="opset_import"):
        read(model)
    with pytest.raises(ImportModelError, match="no graph"):
        read(onnx.ModelProto(ir_version=8))
