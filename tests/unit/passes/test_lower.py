"""Lowering to primitives."""

import dataclasses

import pytest
from pass_checks import Graph, fires, keeps, node_of, operators

from tilewright.errors import LoweringError
from tilewright.graph.ir import Function, Node, Value
from tilewright.ops.operator import REGISTRY, Builder
from tilewright.passes.lower import Lower


def test_a_lowered_node_keeps_origin_and_name():
    graph = Graph()
    x = graph.input(1, 4, 3, 3)
    function = graph.returning(graph.batch_norm(x, 4))
    name, result = function.nodes[0].name, function.outputs[0].name
    fires(function, Lower())
    assert "BatchNormalization" not in operators(function)
    assert {node.origin for node in function.nodes} == {("batchnormalization_0",)}
    assert function.nodes[-1].name == name
    assert function.outputs[0].name == result


def test_an_operator_without_a_rule_stays():
    graph = Graph()
    keeps(graph.returning(graph.op("Relu", graph.op("Exp", graph.input(3)))), Lower())


def test_a_target_may_keep_an_operator():
    graph = Graph()
    function = graph.returning(graph.op("Clip", graph.input(3), graph.constant(0.5)))
    keeps(function, Lower(should_lower=lambda node: node.op != "Clip"))


def test_no_operator_with_a_rule_is_left_in_bodies_either():
    graph = Graph()
    x = graph.input(4, 2, 3)
    y, last, _ = graph.ops(
        "LSTM", x, graph.weights(2, 20, 3), graph.weights(2, 20, 5), hidden_size=5, direction="bidirectional"
    )
    function = fires(graph.returning(y, last), Lower())
    assert [node.op for node in _all_nodes(function) if REGISTRY[node.op].lower is not None] == []
    assert operators(function).count("Scan") == 2


def _all_nodes(function: Function) -> list[Node]:
    inner = [found for node in function.nodes for body in node.bodies for found in _all_nodes(body)]
    return [*function.nodes, *inner]


@pytest.mark.parametrize(
    "attrs",
    [{}, {"group": 2}, {"dilations": (2, 2)}, {"output_padding": (1, 1), "pads": (1, 0, 0, 1)}],
    ids=str,
)
def test_transposed_convolution(attrs: dict[str, object]):
    graph = Graph()
    x = graph.input(1, 4, 5, 5)
    y = graph.op("ConvTranspose", x, graph.weights(4, 3, 3, 3), strides=(2, 2), **attrs)
    convolutions = 1 if "dilations" in attrs else 4  # one for each phase of the stride, if there are phases
    assert operators(fires(graph.returning(y), Lower())).count("Conv") == convolutions


def test_an_unused_result_is_no_obstacle():
    graph = Graph()
    x = graph.input(4, 2, 3)
    _, last, _ = graph.ops("LSTM", x, graph.weights(1, 20, 3), graph.weights(1, 20, 5), hidden_size=5)
    function = fires(graph.returning(last), Lower())
    assert node_of(function, "Scan").outputs


def test_rules_in_a_circle_are_an_error(monkeypatch: pytest.MonkeyPatch):
    def rule(build: Builder, node: Node) -> tuple[Value, ...]:
        return (build.op("Neg", node.operand(0)),)

    monkeypatch.setitem(REGISTRY, "Neg", dataclasses.replace(REGISTRY["Neg"], lower=rule))
    graph = Graph()
    function = graph.returning(graph.op("Neg", graph.input(3)))
    with pytest.raises(LoweringError, match=r"node 'neg.*': lowering Neg does not end"):
        Lower().run(function)
