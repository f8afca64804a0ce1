"""Dead code and common subexpressions."""

import numpy as np
from pass_checks import Graph, fires, keeps, node_of, operators

from tilewright.graph.ir import Function, Value
from tilewright.ops.control import scan
from tilewright.passes.cse import Cse
from tilewright.passes.dce import Dce


def test_dead_chains_go_and_unused_inputs_stay():
    graph = Graph()
    x, unused = graph.input(2), graph.input(2, name="unused")
    graph.op("Exp", graph.op("Neg", unused))
    function = fires(graph.returning(graph.op("Relu", x)), Dce())
    assert operators(function) == ["Relu"]
    assert [value.name for value in function.inputs] == ["x", "unused"]


def test_live_code_stays():
    graph = Graph()
    x = graph.input(2)
    middle = graph.op("Neg", x)
    keeps(graph.returning(graph.op("Relu", middle), middle), Dce())


def _cumulated(graph: Graph) -> tuple[list[Value], Value]:
    """A Scan of one state with a stacked result and a capture that nothing reads."""
    body = Graph("step")
    state, element, capture = body.input(2, name="h"), body.input(2, name="s"), body.input(2, name="c")
    total = body.op("Add", state, element)
    inner = body.returning(total, body.op("Exp", body.op("Mul", total, total)))
    body.op("Neg", capture)
    x, start = graph.input(3, 2), graph.input(2, name="start")
    return scan(graph.builder, inner, [start], [x], [graph.input(2, name="captured")]), x


def test_a_scan_loses_unread_results_and_captures():
    graph = Graph()
    (final, _), _ = _cumulated(graph)
    function = fires(graph.returning(final), Dce())
    node = node_of(function, "Scan")
    assert len(node.outputs) == 1
    assert len(node.inputs) == 2
    assert operators(node.bodies[0]) == ["Add"]


def test_a_scan_keeps_what_is_read():
    graph = Graph()
    (_, stacked), _ = _cumulated(graph)
    function = fires(graph.returning(stacked), Dce())
    node = node_of(function, "Scan")
    assert len(node.outputs) == 2
    assert operators(node.bodies[0]) == ["Add", "Mul", "Exp"]


def test_equal_nodes_are_computed_once():
    graph = Graph()
    x = graph.input(2, 3)
    first, second = (graph.op("Softmax", graph.op("Relu", x), axis=1) for _ in range(2))
    function = fires(graph.returning(graph.op("Add", first, second), second), Cse())
    assert operators(function) == ["Relu", "Softmax", "Add"]
    assert function.nodes[0].origin == ("relu_0", "relu_2")


def test_equal_constants_become_one():
    graph = Graph()
    x = graph.input(2)
    first, second = (graph.op("Add", x, graph.constant([1.0, 2.0])) for _ in range(2))
    function = fires(graph.returning(graph.op("Mul", first, second)), Cse())
    assert operators(function) == ["Add", "Mul"]
    assert len(function.constants()) == 1


def test_what_differs_stays():
    graph = Graph()
    x = graph.input(2, 2)
    parts = [
        graph.op("Softmax", x, axis=0),
        graph.op("Softmax", x, axis=1),
        graph.op("Elu", x, alpha=1.0),
        graph.op("Elu", x, alpha=2.0),
        graph.op("Sub", x, graph.constant([1.0, 2.0])),
        graph.op("Sub", graph.constant([1.0, 2.5]), x),
        graph.op("Div", x, graph.constant(np.array([0.0, 1.0]))),
        graph.op("Div", x, graph.constant(np.array([-0.0, 1.0]))),
    ]
    keeps(graph.returning(*parts), Cse())


def test_two_outputs_may_become_one_value():
    graph = Graph()
    x = graph.input(2)
    function = fires(graph.returning(graph.op("Exp", x), graph.op("Exp", x)), Cse())
    assert function.outputs[0] is function.outputs[1]


def test_bodies_are_treated():
    graph = Graph()
    body = Graph("step")
    state, element = body.input(2, name="h"), body.input(2, name="s")
    total = body.op("Add", body.op("Exp", element), body.op("Exp", element))
    inner: Function = body.returning(body.op("Add", total, state))
    (final,) = scan(graph.builder, inner, [graph.input(2, name="start")], [graph.input(3, 2)])
    function = fires(graph.returning(final), Cse())
    assert operators(node_of(function, "Scan").bodies[0]) == ["Exp", "Add", "Add"]
