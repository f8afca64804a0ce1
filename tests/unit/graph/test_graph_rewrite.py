"""The pattern rewriter: matching, use counts, and coming to rest."""

from typing import Any

import pytest

from tilewright.graph.ir import Function
from tilewright.graph.parse import parse_function
from tilewright.graph.rewrite import (
    ANY,
    Rule,
    Uses,
    any_value,
    constant,
    match,
    op,
    remove_unused,
    rewrite_until_fixpoint,
)
from tilewright.ops.operator import Builder
from tilewright.passes.verify import verify_function


def function(body: str, results: str) -> Function:
    text = f"func @main(%x: f32[2], %z: f32[2]) -> ({results}) {{ const %c: f32[2] = [1.0, 2.0] {body} }}"
    parsed = parse_function(text)
    verify_function(parsed)
    return parsed


def node(result: str, text: str) -> str:
    return f"%{result}: f32[2] = {text} @{result}.node\n"


def ops(f: Function) -> list[str]:
    return [n.op for n in f.nodes]


def test_match_binds_names() -> None:
    f = function(node("a", "Mul(%x, %c)") + node("b", "Relu(%a)"), "%b")
    found = match(op("Relu", op("Mul", any_value("x"), constant("c"), name="mul")), f.outputs[0])
    assert found == {"x": f.inputs[0], "c": f.constants()[0], "mul": f.nodes[0].output}
    assert match(op("Relu", op("Add")), f.outputs[0]) is None
    assert match(op(("Exp", "Relu")), f.outputs[0]) == {}
    assert match(constant(), f.inputs[0]) is None


def test_a_name_that_occurs_twice_must_be_one_value() -> None:
    pattern = op("Add", any_value("v"), any_value("v"))
    assert match(pattern, function(node("a", "Add(%x, %x)"), "%a").outputs[0]) is not None
    assert match(pattern, function(node("a", "Add(%x, %z)"), "%a").outputs[0]) is None


def test_commuting_operands_match_in_either_order() -> None:
    f = function(node("a", "Add(%c, %x)"), "%a")
    assert match(op("Add", any_value("x"), constant("c")), f.outputs[0]) is None
    found = match(op("Add", any_value("x"), constant("c"), commutes=True), f.outputs[0])
    assert found == {"x": f.inputs[0], "c": f.constants()[0]}


def test_more_patterns_than_operands_do_not_match() -> None:
    f = function(node("a", "Relu(%x)"), "%a")
    assert match(op("Relu", ANY, ANY), f.outputs[0]) is None


@pytest.mark.parametrize(
    ("extra", "results", "matches"),
    [("", "%b", True), (node("d", "Exp(%a)"), "%b, %d", False), ("", "%b, %a", False)],
)
def test_once_means_one_use_and_no_output(extra: Any, results: Any, matches: Any) -> None:
    f = function(node("a", "Neg(%x)") + node("b", "Relu(%a)") + extra, results)
    pattern = op("Relu", op("Neg", once=True))
    assert (match(pattern, f.outputs[0], Uses(f)) is not None) == matches


def test_once_without_uses_is_a_mistake() -> None:
    f = function(node("a", "Neg(%x)") + node("b", "Relu(%a)"), "%b")
    with pytest.raises(ValueError, match="needs the uses"):
        match(op("Relu", op("Neg", once=True)), f.outputs[0])


DOUBLE_NEGATION = Rule(op("Neg", op("Neg", any_value("x"))), lambda f, root, bound: bound["x"])


def test_rewriting_reaches_a_fixpoint_and_removes_what_died() -> None:
    chain = "".join(node(f"n{i}", f"Neg(%{'x' if i == 0 else f'n{i - 1}'})") for i in range(7))
    f = function(chain, "%n6, %n5")
    assert rewrite_until_fixpoint(f, [DOUBLE_NEGATION])
    assert ops(f) == ["Neg"]
    assert f.outputs == [f.nodes[0].output, f.inputs[0]]
    verify_function(f)
    assert not rewrite_until_fixpoint(f, [DOUBLE_NEGATION])


def test_new_nodes_stand_before_the_root() -> Any:
    def relu_to_max(f: Any, root: Any, bound: Any) -> Any:
        build = Builder(f, origin=root.origin)
        return build.op("Max", bound["x"], build.constant(0 * f.constants()[0].data))

    f = function(node("a", "Add(%x, %c)") + node("b", "Relu(%a)") + node("d", "Exp(%b)"), "%d")
    assert rewrite_until_fixpoint(f, [Rule(op("Relu", any_value("x")), relu_to_max)])
    assert ops(f) == ["Add", "Max", "Exp"]
    verify_function(f)


def test_use_counts_follow_replacements_within_a_sweep() -> Any:
    """x gains a second user when the identity goes, so that Relu(Neg(x)) must not claim it is used once."""
    body = node("n", "Neg(%x)") + node("i", "Identity(%n)") + node("e", "Exp(%i)") + node("s", "Add(%i, %i)")
    f = function(body + node("r", "Relu(%n)"), "%e, %s, %r")
    seen: list[bool] = []

    def drop(f: Any, root: Any, bound: Any) -> Any:
        return bound["v"]

    def claim(f: Any, root: Any, bound: Any) -> None:
        seen.append(True)

    rules = [Rule(op("Identity", any_value("v")), drop), Rule(op("Relu", op("Neg", once=True)), claim)]
    assert rewrite_until_fixpoint(f, rules)
    assert seen == []
    verify_function(f)


def test_a_rule_may_decline() -> None:
    f = function(node("a", "Relu(%x)"), "%a")
    assert not rewrite_until_fixpoint(f, [Rule(op("Relu"), lambda f, root, bound: None)])


def test_rules_that_undo_each_other_are_stopped() -> Any:
    def swap(new: Any) -> Any:
        return lambda f, root, bound: Builder(f).op(new, bound["x"])

    rules = [Rule(op("Exp", any_value("x")), swap("Log")), Rule(op("Log", any_value("x")), swap("Exp"))]
    with pytest.raises(RuntimeError, match="did not come to rest after 5 sweeps"):
        rewrite_until_fixpoint(function(node("a", "Exp(%x)"), "%a"), rules, limit=5)


def test_remove_unused_keeps_what_outputs_need() -> None:
    f = function(node("a", "Neg(%x)") + node("b", "Exp(%a)") + node("d", "Log(%b)"), "%a")
    assert remove_unused(f)
    assert ops(f) == ["Neg"]
    assert not remove_unused(f)
