"""Passes around If and Loop: what nobody reads goes, what never changes is packed outside."""

import numpy as np

from tilewright.graph.ir import Node
from tilewright.graph.parse import parse_function
from tilewright.graph.text import same
from tilewright.ops.evaluate import evaluate_function
from tilewright.passes.dce import Dce
from tilewright.passes.storage import ChooseStorage
from tilewright.passes.verify import verify_function
from tilewright.storage import Storage, Wish

TEXT = """
func @main(%c: bool[], %m: i64[], %x: f32[2], %w: f32[2]) -> (%y as "y", %h as "h") {
  %y: f32[2], %unread: f32[2] = If(%c, %x, %w, %x) @branch bodies {
    func @then(%a: f32[2], %b: f32[2], %d: f32[2]) -> (%p, %b) {
      %p: f32[2] = Neg(%a) @neg
    }
    func @orelse(%a: f32[2], %b: f32[2], %d: f32[2]) -> (%p, %q) {
      %p: f32[2] = Exp(%a) @exp
      %q: f32[2] = Neg(%b) @neg
    }
  }
  %h: f32[2], %k: f32[4,2] = Loop(%m, %c, %x, %w, %x) {num_states=1, max_trips=4, conditional=true} @l
    bodies {
    func @body(%s: f32[2], %v: f32[2], %u: f32[2]) -> (%go, %t, %u) {
      %t: f32[2] = Add(%s, %v) @add
      %z: f32[2] = Sub(%t, %t) @sub
      %top: f32[] = ReduceMax(%z) {axes=[0], keepdims=false} @top
      %go: bool[] = Equal(%top, %top) @equal
    }
  }
}
"""


def _node(function, op) -> Node:
    return next(node for node in function.nodes if node.op == op)


def test_unread_results_and_captures_go():
    function = parse_function(TEXT)
    verify_function(function)
    inputs = {"c": np.array(True), "m": np.array(2), "x": np.ones(2, "f4"), "w": np.arange(2, dtype="f4")}
    before = evaluate_function(function, inputs)
    assert Dce().run(function)
    verify_function(function)
    branch, loop = _node(function, "If"), _node(function, "Loop")
    assert [v.name for v in branch.inputs] == ["c", "x"]
    assert len(branch.outputs) == 1
    assert [[n.op for n in body.nodes] for body in branch.bodies] == [["Neg"], ["Exp"]]
    assert [v.name for v in loop.inputs] == ["m", "c", "x", "w"]
    assert len(loop.outputs) == 1
    assert not Dce().run(function)
    for name, array in evaluate_function(function, inputs).items():
        np.testing.assert_array_equal(array, before[name])


def test_a_loop_without_readers_goes_and_a_used_one_stays():
    function = parse_function(TEXT.replace('(%y as "y", %h as "h")', '(%x as "y")'))
    assert Dce().run(function)
    assert not function.nodes
    whole = parse_function(TEXT)
    again = parse_function(TEXT)
    whole.outputs += [_node(whole, "If").outputs[1], _node(whole, "Loop").outputs[1]]
    whole.output_names += ["a", "b"]
    Dce().run(whole)
    assert len(_node(whole, "If").outputs) == 2
    assert not same(whole, again)


class _WantsBlocks:
    """Multiplications read their second operand in blocks."""

    storage = Storage.parse("ab2b")

    def wish(self, node):
        return Wish((None, self.storage), Storage("")) if node.op == "MatMul" else None


PACKED = """
func @main(%c: bool[], %m: i64[], %x: f32[2,2], %w: f32[2,2]) -> (%y as "y", %h as "h") {
  %y: f32[2,2] = If(%c, %x, %w) @branch bodies {
    func @then(%a: f32[2,2], %b: f32[2,2]) -> (%p) {
      %p: f32[2,2] = Neg(%a) @neg
    }
    func @orelse(%a: f32[2,2], %b: f32[2,2]) -> (%p) {
      %p: f32[2,2] = MatMul(%a, %b) @product
    }
  }
  %h: f32[2,2] = Loop(%m, _, %x, %w) {num_states=1} @loop bodies {
    func @body(%s: f32[2,2], %v: f32[2,2]) -> (%u) {
      %t: f32[2,2] = MatMul(%s, %v) @one
      %u: f32[2,2] = MatMul(%v, %t) @two
    }
  }
}
"""


def test_captures_are_packed_in_front():
    function = parse_function(PACKED)
    ChooseStorage(_WantsBlocks()).run(function)
    verify_function(function)
    assert [node.op for node in function.nodes if node.op == "Pack"] == ["Pack"], (
        "both share one packed tensor"
    )
    branch, loop = _node(function, "If"), _node(function, "Loop")
    packed = _node(function, "Pack").output
    assert branch.inputs[-1] is packed
    assert loop.inputs[-1] is packed
    assert [len(body.inputs) for body in branch.bodies] == [3, 3]
    assert [node.op for node in loop.bodies[0].nodes] == ["MatMul", "Pack", "MatMul"], (
        "what changes is packed inside"
    )
    inputs = {
        "c": np.array(False),
        "m": np.array(2),
        "x": np.ones((2, 2), "f4"),
        "w": np.arange(4, dtype="f4").reshape(2, 2),
    }
    expected = evaluate_function(parse_function(PACKED), inputs)
    for name, array in evaluate_function(function, inputs).items():
        np.testing.assert_array_equal(array, expected[name])
