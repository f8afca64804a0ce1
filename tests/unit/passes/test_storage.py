"""Choosing storages: each case of the pass, equal numbers, and that it keeps away where nothing is wished."""

import numpy as np
import pytest
from pass_checks import Graph, fires, keeps, node_of, operators

from tilewright.dtypes import I32
from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.passes.storage import ChooseStorage
from tilewright.storage import PLAIN, Storage, Wish
from tilewright.types import TensorType

LAST = Storage("acdb")
HALO = ((0, 0), (0, 0), (1, 1), (1, 1))


class _Blocked:
    """Channels last for convolutions, with padding as a halo; weights and columns in blocks."""

    def wish(self, node: Node) -> Wish | None:
        if node.op == "Conv":
            return Wish((LAST, Storage("Acdb4a"), None), LAST, HALO if any(node.attrs["pads"]) else ())
        return Wish((PLAIN, Storage("Ba4b"), PLAIN), PLAIN) if node.op in ("Gemm", "MatMul") else None

    def pack_cost(self, type: TensorType) -> float:
        return 0.0

    def algorithms(self, node: Node) -> dict[str, float]:
        return {}


STORAGE = ChooseStorage(_Blocked())


def chooses(function: Function) -> Function:
    """A second run would undo the choice of the first where the two meet: the pass runs once."""
    return fires(function, STORAGE, final=False)


def conv(graph: Graph, x: Value, weights: Value | None = None, pads: int = 1) -> Value:
    weights = weights or graph.weights(4, 4, 3, 3)
    sizes = {"strides": (1, 1), "dilations": (1, 1), "pads": (pads,) * 4, "group": 1}
    return graph.op("Conv", x, weights, graph.weights(4), **sizes)


def test_wishes_are_granted_and_outputs_are_plain():
    graph = Graph()
    function = chooses(graph.returning(conv(graph, graph.input(1, 4, 5, 5), pads=0)))
    assert operators(function) == ["Pack", "Conv", "Unpack"]
    found = node_of(function, "Conv")
    assert found.operand(0).type.storage == found.output.type.storage == LAST
    assert function.outputs[0].type.storage == PLAIN


def test_weights_that_are_constants_are_packed_at_once():
    graph = Graph()
    weights = graph.weights(4, 4, 3, 3)
    function = chooses(graph.returning(conv(graph, graph.input(1, 4, 5, 5), weights)))
    packed = node_of(function, "Conv").operand(1)
    assert isinstance(packed, Constant)
    np.testing.assert_array_equal(packed.data, Storage("Acdb4a").pack(weights.data))


def test_what_was_weighed_is_noted():
    graph = Graph()
    function = chooses(graph.returning(conv(graph, graph.input(1, 4, 5, 5))))
    assert node_of(function, "Conv").notes["storage"] == {
        "reads": ["acdb", "Acdb4a"],
        "writes": "acdb",
        "granted": True,
        "gain": None,
        "packs_wished": 0,
        "packs_plain": 0,
    }


def test_without_packing_activations_are_packed_and_weights_stay():
    graph = Graph()
    weights = graph.weights(4, 4, 3, 3)
    y = conv(graph, graph.input(1, 4, 5, 5), weights)
    product = graph.op("MatMul", graph.op("Reshape", y, shape=(4, 25)), graph.weights(25, 8))
    function = fires(graph.returning(product), ChooseStorage(_Blocked(), packing=False), final=False)
    found = node_of(function, "Conv")
    assert found.operand(1) is weights
    assert found.operand(0).type.storage == Storage("acdb", HALO)
    assert node_of(function, "MatMul").operand(1).type.storage == PLAIN


def test_weights_that_are_inputs_are_packed_by_a_kernel():
    graph = Graph()
    x, weights = graph.input(1, 4, 5, 5), graph.input(4, 4, 3, 3, name="w")
    function = chooses(graph.returning(conv(graph, x, weights)))
    assert operators(function) == ["Pack", "Pack", "Conv", "Unpack"]


def test_padding_becomes_a_halo_of_what_the_producer_writes():
    graph = Graph()
    first = conv(graph, graph.input(1, 4, 5, 5))
    function = chooses(graph.returning(conv(graph, graph.op("Relu", first))))
    assert operators(function) == ["Pack", "Conv", "Relu", "Conv", "Unpack"]
    assert node_of(function, "Relu").output.type.storage.halo == HALO
    assert node_of(function, "Pack").attrs["storage"].halo == HALO
    assert all(node.attrs["padded_by_halo"] for node in function.nodes if node.op == "Conv")


@pytest.mark.parametrize(("fills", "padded"), [((7, 7), 2), ((7, 9), 1), ((None, 9), 2), ((9, None), 2)])
def test_a_halo_holds_what_its_first_reader_pads_with(fills, padded):
    """None: a halo whose elements nobody reads."""

    class Filled(_Blocked):
        def wish(self, node: Node) -> Wish:
            fill = fills[node.attrs["pad_value"] == fills[1]]
            return Wish((LAST, None, None), LAST, HALO, fill=fill)

    graph = Graph()
    x, weights = graph.input(1, 2, 4, 4, dtype=I32), graph.constant(np.ones((2, 2, 3, 3), np.int32))
    whole = {"strides": (1, 1), "dilations": (1, 1), "pads": (1,) * 4, "group": 1}
    results = [graph.op("Conv", x, weights, **whole, pad_value=fill or 0) for fill in fills]
    function = fires(graph.returning(*results), ChooseStorage(Filled()), final=False)
    storage = node_of(function, "Pack").output.type.storage
    assert storage.fill == next(fill for fill in fills if fill is not None)
    convolutions = [node for node in function.nodes if node.op == "Conv"]
    assert sum(bool(node.attrs.get("padded_by_halo")) for node in convolutions) == padded


def test_a_convolution_without_padding_reads_no_halo():
    graph = Graph()
    function = chooses(graph.returning(conv(graph, graph.input(1, 4, 5, 5), pads=0)))
    assert node_of(function, "Pack").attrs["storage"].halo == ()
    assert not node_of(function, "Conv").attrs.get("padded_by_halo")


def test_elementwise_nodes_and_concatenations_follow():
    graph = Graph()
    x, z = graph.input(1, 4, 5, 5), graph.input(1, 4, 5, 5, name="z")
    y = graph.op("Add", conv(graph, x), z)
    joined = graph.op("Concat", graph.op("Mul", y, graph.constant(2.0)), conv(graph, x), axis=1)
    function = chooses(graph.returning(joined))
    assert operators(function).count("Unpack") == 1
    assert node_of(function, "Add").output.type.storage == LAST
    assert node_of(function, "Mul").operand(1).type.storage == PLAIN  # one element, whatever it is added to
    assert node_of(function, "Concat").output.type.storage == LAST


def test_a_node_that_works_in_any_storage_stays_plain_where_its_neighbours_are():
    class Paid(_Blocked):
        def pack_cost(self, type: TensorType) -> float:
            return type.size

    graph = Graph()
    y = graph.op("Add", conv(graph, graph.input(1, 4, 5, 5)), graph.input(1, 4, 5, 5, name="z"))
    function = graph.returning(graph.op("Softmax", y, axis=1))
    fires(function, ChooseStorage(Paid()), final=False)
    assert operators(function) == ["Pack", "Conv", "Unpack", "Add", "Softmax"]


def test_everything_else_reads_plain_tensors():
    graph = Graph()
    y = conv(graph, graph.input(1, 4, 5, 5))
    flat = graph.op("Reshape", y, shape=(1, 100))
    function = chooses(graph.returning(flat, graph.op("Softmax", y, axis=1)))
    for op in ("Reshape", "Softmax"):
        assert node_of(function, op).operand(0).type.storage == PLAIN
    assert operators(function).count("Unpack") == 1, "both read the same plain tensor"


def test_constants_lie_as_what_they_are_added_to():
    graph = Graph()
    y = conv(graph, graph.input(1, 4, 5, 5))
    scaled = graph.op("Mul", graph.weights(1, 4, 5, 5), graph.input(name="z"))
    function = chooses(graph.returning(graph.op("Sub", y, scaled)))
    assert operators(function) == ["Pack", "Conv", "Mul", "Sub", "Unpack"]
    assert node_of(function, "Mul").operand(0).type.storage == LAST
    graph = Graph()
    keeps(graph.returning(graph.op("Mul", graph.weights(1, 4, 5, 5), graph.input(name="z"))), STORAGE)


def test_two_readers_share_a_pack():
    graph = Graph()
    x = graph.input(1, 4, 5, 5)
    function = chooses(graph.returning(conv(graph, x), conv(graph, x)))
    assert operators(function).count("Pack") == 1


def test_matrix_products():
    graph = Graph()
    function = chooses(graph.returning(graph.op("Gemm", graph.input(2, 3), graph.weights(3, 8))))
    assert operators(function) == ["Gemm"]
    assert function.nodes[0].operand(1).type.storage == Storage("Ba4b")


def test_nothing_changes_where_nothing_is_wished():
    graph = Graph()
    y = graph.op("Add", graph.input(2, 3), graph.weights(3))
    keeps(graph.returning(graph.op("Transpose", y, perm=(1, 0)), graph.op("Softmax", y, axis=1)), STORAGE)
