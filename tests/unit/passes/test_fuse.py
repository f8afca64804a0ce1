"""Operator fusion: what becomes one kernel, and what must not."""

import numpy as np
import pytest
from pass_checks import Graph, fires, fused, keeps, node_of

from tilewright.dtypes import BF16, F32, F64
from tilewright.graph.ir import Constant, Value
from tilewright.passes.dce import Dce
from tilewright.passes.fuse import Fuse
from tilewright.passes.lower import Lower
from tilewright.passes.slice_splits import SliceSplits
from tilewright.storage import Storage


def _conv(graph: Graph, x: Value) -> Value:
    return graph.op("Conv", x, graph.weights(4, 4, 3, 3), graph.weights(4), pads=(1, 1, 1, 1))


def _image(graph: Graph, name: str = "x") -> Value:
    return graph.input(1, 4, 6, 6, name=name)


def test_convolution_takes_what_follows():
    graph = Graph()
    y = graph.op("Relu", graph.op("Mul", _conv(graph, _image(graph)), graph.weights(4, 1, 1)))
    function = fires(graph.returning(y), Fuse())
    assert fused(function) == [["Conv", "Mul", "Relu"]]
    (node,) = function.nodes
    assert node.origin == ("conv_0", "mul_1", "relu_2")
    assert [v.type for v in node.inputs if v is not None] == [v.type for v in node.bodies[0].inputs]
    assert len(node.inputs) == 4


def test_residual_sum_goes_to_the_later_convolution():
    graph = Graph()
    x = _image(graph)
    first = graph.op("Relu", _conv(graph, x))
    second = _conv(graph, first)
    y = graph.op("Relu", graph.op("Add", second, first))
    function = fires(graph.returning(y), Fuse())
    assert fused(function) == [["Conv", "Relu"], ["Conv", "Add", "Relu"]]


def test_a_cast_from_fewer_bytes_joins_the_sum_that_reads_it():
    graph = Graph()
    wide = graph.op("Cast", graph.input(1, 4, 6, 6, name="r", dtype=BF16), to=F32)
    y = graph.op("Relu", graph.op("Add", _conv(graph, _image(graph)), wide))
    node = node_of(fires(graph.returning(y), Fuse()), "Fused")
    assert fused(graph.function) == [["Cast", "Conv", "Add", "Relu"]]
    assert BF16 in [v.dtype for v in node.inputs]


@pytest.mark.parametrize("constant", [True, False])
def test_a_constant_times_a_number_joins_the_sum_that_reads_it(constant: bool):
    graph = Graph()
    x = _image(graph)
    table = graph.weights(*x.shape) if constant else graph.input(*x.shape, name="t")
    y = graph.op("Sub", _conv(graph, x), graph.op("Mul", table, graph.input(name="n")))
    fires(graph.returning(y), Fuse())
    assert fused(graph.function) == ([["Conv", "Mul", "Sub"]] if constant else [["Mul"], ["Conv", "Sub"]])


@pytest.mark.parametrize("reason", ["more bytes", "read elsewhere", "of another shape", "of the convolution"])
def test_other_casts_stay_kernels(reason: str):
    graph = Graph()
    x = _image(graph)
    dtype = F64 if reason == "more bytes" else BF16
    shape = (1, 4, 1, 1) if reason == "of another shape" else x.shape
    cast = graph.op("Cast", graph.input(*shape, name="r", dtype=dtype), to=F32)
    y = graph.op("Add", _conv(graph, cast if reason == "of the convolution" else x), cast)
    outputs = (y, graph.op("MaxPool", cast, kernel_shape=(2, 2))) if reason == "read elsewhere" else (y,)
    function = fires(graph.returning(*outputs), Fuse())
    assert fused(function)[:2] == [["Cast"], ["Conv", "Add"]]


def test_never_two_convolutions_in_one_kernel():
    graph = Graph()
    x = _image(graph)
    function = fires(graph.returning(graph.op("Add", _conv(graph, x), _conv(graph, x))), Fuse())
    assert fused(function) == [["Conv"], ["Conv", "Add"]]


def test_a_chain_of_convolutions_stays():
    graph = Graph()
    keeps(graph.returning(_conv(graph, _conv(graph, _image(graph)))), Fuse())


def test_diamond_is_fused_as_a_whole():
    graph = Graph()
    c = _conv(graph, _image(graph))
    y = graph.op("Mul", c, graph.op("Sigmoid", c))
    assert fused(fires(graph.returning(y), Fuse())) == [["Conv", "Sigmoid", "Mul"]]


def test_diamond_with_a_path_that_cannot_be_fused_is_not():
    """Squeeze and excitation: a mean over all elements stands on one path."""
    graph = Graph()
    c = _conv(graph, _image(graph))
    squeezed = graph.op("ReduceMean", c, axes=(2, 3), keepdims=True)
    y = graph.op("Mul", c, graph.op("Sigmoid", squeezed))
    function = fires(graph.returning(y), Fuse())
    assert fused(function) == [["Conv"], ["ReduceMean", "Sigmoid"], ["Mul"]]


def test_nested_diamonds():
    graph = Graph()
    c = _conv(graph, _image(graph))
    inner = graph.op("Add", graph.op("Exp", c), graph.op("Neg", c))
    y = graph.op("Mul", graph.op("Tanh", inner), c)
    function = fires(graph.returning(y), Fuse())
    assert len(fused(function)) == 1


@pytest.mark.parametrize("returned", [0, 1])
def test_an_output_is_never_swallowed(returned: int):
    """ONNX Runtime issue 4110."""
    graph = Graph()
    c = _conv(graph, _image(graph))
    r = graph.op("Relu", c)
    s = graph.op("Sigmoid", r)
    function = fires(graph.returning(s, (c, r)[returned]), Fuse())
    assert fused(function) == [[["Conv"], ["Relu", "Sigmoid"]], [["Conv", "Relu"], ["Sigmoid"]]][returned]


def test_a_value_read_by_another_kernel_is_not_swallowed():
    graph = Graph()
    c = _conv(graph, _image(graph))
    y, z = graph.op("Relu", c), graph.op("MaxPool", c, kernel_shape=(2, 2))
    keeps(graph.returning(y, z), Fuse())


def test_a_sum_that_grows_the_shape_stays_outside():
    graph = Graph()
    y = graph.op("Add", _conv(graph, _image(graph)), graph.input(2, 1, 6, 6, name="z"))
    keeps(graph.returning(y), Fuse())


def test_another_order_in_memory_stays_outside_and_another_halo_does_not():
    for storage, groups in ((Storage("acdb"), 2), (Storage("", ((0, 0), (0, 0), (1, 1), (1, 1))), 1)):
        graph = Graph()
        y = graph.op("Relu", _conv(graph, _image(graph)))
        function = graph.returning(y)
        y.type = y.type.with_storage(storage)
        Fuse().run(function)
        assert len(function.nodes) == groups
        assert function.outputs[0].type.storage == storage


def test_reduction_takes_both_sides():
    graph = Graph()
    x = graph.input(3, 8)
    squares = graph.op("Mul", x, x)
    y = graph.op("Sqrt", graph.op("ReduceSum", squares, axes=(1,), keepdims=True))
    assert fused(fires(graph.returning(y), Fuse())) == [["Mul", "ReduceSum", "Sqrt"]]


def test_reduction_leaves_an_operand_that_others_read():
    graph = Graph()
    squares = graph.op("Exp", graph.input(3, 8))
    total = graph.op("ReduceSum", squares, axes=(1,), keepdims=True)
    function = graph.returning(graph.op("Div", squares, total))
    keeps(function, Fuse())


def test_reduction_takes_no_data_movement():
    graph = Graph()
    turned = graph.op("Transpose", graph.input(3, 8), perm=(1, 0))
    keeps(graph.returning(graph.op("ReduceSum", turned, axes=(1,), keepdims=True)), Fuse())


def test_reduction_repeats_no_arithmetic():
    graph = Graph()
    gate = graph.op("Sigmoid", graph.input(3, 1, name="gate"))
    scaled = graph.op("Mul", graph.input(3, 8), gate)
    function = fires(graph.returning(graph.op("ReduceSum", scaled, axes=(1,), keepdims=True)), Fuse())
    assert fused(function) == [["Sigmoid"], ["Mul", "ReduceSum"]]


def test_pooling_windows_compute_nothing_again():
    graph = Graph()
    y = graph.op("MaxPool", graph.op("Exp", _image(graph)), kernel_shape=(3, 3))
    keeps(graph.returning(y), Fuse())


def test_injective_chain():
    graph = Graph()
    y = graph.op("Transpose", graph.op("Exp", graph.input(3, 8)), perm=(1, 0))
    y = graph.op("Slice", graph.op("Neg", y), starts=(1, 0), ends=(7, 3), axes=(0, 1), steps=(2, 1))
    assert fused(fires(graph.returning(y), Fuse())) == [["Exp", "Transpose", "Neg", "Slice"]]


def test_branches_meet_in_a_concat():
    graph = Graph()
    x = graph.input(3, 8)
    y = graph.op("Concat", graph.op("Exp", x), graph.op("Neg", x), axis=1)
    function = fires(graph.returning(graph.op("Relu", y)), Fuse())
    assert sorted(fused(function)[0]) == ["Concat", "Exp", "Neg", "Relu"]


def test_arithmetic_is_not_repeated_for_every_copy():
    graph = Graph()
    y = graph.op("Expand", graph.op("Exp", graph.input(8)), shape=(100, 8))
    keeps(graph.returning(y), Fuse())
    graph = Graph()
    y = graph.op("Expand", graph.op("Reshape", graph.op("Exp", graph.input(8)), shape=(8, 1)), shape=(8, 100))
    keeps(graph.returning(y), Fuse())
    graph = Graph()
    turned = graph.op("Transpose", graph.input(1, 8), perm=(1, 0))
    grown = graph.op("Expand", graph.op("Exp", turned), shape=(8, 100))
    function = fires(graph.returning(graph.op("Mul", grown, turned)), Fuse())
    assert fused(function) == [["Transpose"], ["Exp"], ["Expand", "Mul"]]


def test_views_stay_at_the_border_and_join_in_the_middle():
    graph = Graph()
    first = graph.op("Reshape", graph.input(4, 6), shape=(24,))
    middle = graph.op("Reshape", graph.op("Exp", first), shape=(6, 4))
    last = graph.op("Reshape", graph.op("Neg", middle), shape=(2, 12))
    function = fires(graph.returning(last), Fuse())
    assert fused(function) == [["Reshape"], ["Exp", "Reshape", "Neg"], ["Reshape"]]


def test_a_view_ends_what_a_convolution_takes():
    graph = Graph()
    c = _conv(graph, _image(graph))
    y = graph.op("Relu", graph.op("Reshape", c, shape=(4, 36)))
    keeps(graph.returning(y), Fuse())


def test_pack_joins_elementwise_nodes_but_no_convolution():
    graph = Graph()
    packed = graph.op("Pack", graph.op("Exp", _image(graph)), storage=Storage("acdb"))
    function = fires(graph.returning(graph.op("Unpack", _conv(graph, packed))), Fuse())
    assert fused(function) == [["Exp", "Pack"], ["Conv"], ["Unpack"]]


def test_several_results_stay_alone():
    graph = Graph()
    first, second = graph.ops("Split", graph.op("Exp", graph.input(4)), axis=0, sizes=(2, 2))
    keeps(graph.returning(graph.op("Add", first, second)), Fuse())


def test_single_elements_become_literals():
    graph = Graph()
    scale, shift = graph.constant(2.5), graph.weights(4)
    y = graph.op("Add", graph.op("Mul", graph.input(4), scale), shift)
    node = node_of(fires(graph.returning(y), Fuse()), "Fused")
    assert len(node.inputs) == 2
    inside = node.bodies[0].constants()
    assert [constant.data.item() for constant in inside] == [2.5]
    assert [value for value in node.inputs if isinstance(value, Constant)] == [shift]


def test_a_value_used_twice_is_one_input():
    graph = Graph()
    x = graph.input(4)
    y = graph.op("Mul", graph.op("Exp", x), graph.op("Add", x, x))
    node = node_of(fires(graph.returning(y), Fuse()), "Fused")
    assert node.inputs == [x]


def test_groups_are_limited():
    graph = Graph()
    y: Value = graph.input(4)
    for _ in range(10):
        y = graph.op("Neg", graph.op("Exp", y))
    function = fires(graph.returning(y), Fuse(max_nodes=8))
    assert max(map(len, fused(function))) == 8


def test_an_operand_that_a_full_group_leaves_joins_what_it_reads():
    graph = Graph()
    half = graph.op("Neg", graph.input(1, 4, 6, 6, name="r", dtype=BF16))
    y = graph.op("Add", _conv(graph, _image(graph)), graph.op("Cast", half, to=F32))
    function = fires(graph.returning(y), Fuse(max_nodes=2))
    assert sorted(fused(function)) == [["Conv", "Add"], ["Neg", "Cast"]]


def test_bodies_of_a_scan_are_fused():
    graph = Graph()
    y, _, _ = graph.ops(
        "LSTM", graph.input(4, 1, 3), graph.weights(1, 20, 3), graph.weights(1, 20, 5), hidden_size=5
    )
    function = fires(graph.returning(y), Lower(), SliceSplits(), Fuse())
    kernels = [len(group) for group in fused(node_of(function, "Scan").bodies[0])]
    assert len(kernels) <= 3
    assert sum(kernels) > 10


def test_order_stays_valid_when_a_residual_comes_late():
    """The other operand of a sum may be produced after the convolution: the kernel stands after both."""
    graph = Graph()
    x = _image(graph)
    c = _conv(graph, x)
    late = graph.op("MaxPool", x, kernel_shape=(1, 1))
    function = fires(graph.returning(graph.op("Relu", graph.op("Add", c, late))), Fuse())
    assert fused(function) == [["MaxPool"], ["Conv", "Add", "Relu"]]


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs(seed: int):
    """Whatever the shape of the graph: valid, the same numbers, at most one convolution in a kernel."""
    graph = Graph()
    random = np.random.default_rng(seed)
    values: list[Value] = [_image(graph), _image(graph, "z")]
    for _ in range(25):
        x, z = (values[int(at)] for at in random.integers(max(0, len(values) - 5), len(values), 2))
        match int(random.integers(0, 9)):
            case 0:
                values.append(_conv(graph, x))
            case 1:
                values.append(graph.op("MaxPool", x, kernel_shape=(3, 3), pads=(1, 1, 1, 1)))
            case 2:
                values.append(graph.op("Softmax", x, axis=1))
            case 3:
                values.append(graph.op("Transpose", x, perm=(0, 1, 3, 2)))
            case 4:
                values.append(graph.op("Tanh", x))
            case 5:
                values.append(graph.op("Add", x, graph.weights(4, 1, 1)))
            case 6:
                values.append(graph.op("Reshape", graph.op("Reshape", x, shape=(4, 36)), shape=(1, 4, 6, 6)))
            case _:
                values.append(graph.op("Max", x, z))
    function = graph.returning(values[-1], values[int(random.integers(2, len(values)))])
    Dce().run(function)
    before = len(function.nodes)
    fires(function, Fuse())
    assert sum(map(len, fused(function))) == before
    assert all(group.count("Conv") <= 1 for group in fused(function))
