"""Splits become slices where slices can be read in their place."""

from pass_checks import Graph, fires, keeps, operators

from tilewright.passes.lower import Lower
from tilewright.passes.slice_splits import SliceSplits
from tilewright.storage import Storage


def test_splits_become_slices_of_what_is_read():
    graph = Graph()
    first, second, _ = graph.ops("Split", graph.input(2, 9), axis=1, sizes=(2, 3, 4))
    function = fires(graph.returning(graph.op("Relu", second), first), SliceSplits())
    assert sorted(operators(function)) == ["Relu", "Slice", "Slice"]
    assert {node.attrs["starts"] for node in function.nodes if node.op == "Slice"} == {(0, 0), (0, 2)}


def test_slices_of_a_split_in_a_body():
    graph = Graph()
    operands = (graph.input(4, 2, 3), graph.weights(1, 20, 3), graph.weights(1, 20, 5))
    y, *_ = graph.ops("LSTM", *operands, hidden_size=5)
    function = graph.returning(y)
    assert fires(function, Lower(), SliceSplits())
    (scan,) = (node for node in function.nodes if node.op == "Scan")
    assert operators(scan.bodies[0]).count("Slice") == 4


def test_a_split_of_another_storage_stays():
    graph = Graph()
    storage = Storage("ba")
    packed = graph.op("Pack", graph.input(2, 8), storage=storage)
    first, second = graph.ops("Split", packed, axis=1, sizes=(4, 4))
    for value in (first, second):
        value.type = value.type.with_storage(storage)
    plain = [graph.op("Unpack", value) for value in (first, second)]
    keeps(graph.returning(*plain), SliceSplits())


def test_slices_and_concatenations_stay():
    graph = Graph()
    x = graph.input(2, 8)
    part = graph.op("Slice", x, starts=(0,), ends=(4,), axes=(1,), steps=(1,))
    keeps(graph.returning(graph.op("Concat", part, x, axis=1)), SliceSplits())
