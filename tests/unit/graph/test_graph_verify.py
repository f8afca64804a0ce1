"""The verifier finds every way in which a function can be malformed."""

from typing import Any

import numpy as np
import pytest

from tilewright.dtypes import F32, I64
from tilewright.errors import VerifyError
from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.graph.parse import parse_function
from tilewright.ops.operator import Builder
from tilewright.passes.verify import verify_function
from tilewright.storage import PLAIN, Storage
from tilewright.types import TensorType

HALO = Storage("acdb", ((0, 0), (0, 0), (1, 1), (1, 1)))


def chain() -> Function:
    return parse_function(
        """func @main(%x: f32[1,2,3,4]) -> (%b as "y") {
          const %c: f32[1] = [2.0]
          %a: f32[1,2,3,4] = Mul(%x, %c) @first
          %b: f32[1,2,3,4] = Relu(%a) @second
        }"""
    )


def test_valid_functions_pass() -> None:
    verify_function(chain())


def broken(change: Any, message: Any) -> None:
    function = chain()
    change(function)
    with pytest.raises(VerifyError, match=message):
        verify_function(function)


def test_use_before_production() -> None:
    broken(lambda f: f.nodes.reverse(), r"node 'second' \(Relu\): 'a' is used before it is produced")


def test_foreign_values() -> None:
    stranger = Function("other").add_input("z", TensorType(F32, (1, 2, 3, 4)))

    def change(function: Function) -> None:
        function.nodes[1].inputs[0] = stranger

    broken(change, "'z' is used before it is produced")
    broken(lambda f: f.outputs.append(stranger), "outputs.*'z' is used before")


def test_names_are_unique() -> None:
    def rename_value(function: Function) -> None:
        function.nodes[1].output.name = "a"

    def rename_node(function: Function) -> None:
        function.nodes[1].name = "first"

    def rename_constant(function: Function) -> None:
        function.constants()[0].name = "x"

    broken(rename_value, "two values have the name 'a'")
    broken(rename_node, r"node 'first' \(Relu\): another node has this name")
    broken(rename_constant, "two values have the name 'x'")


def test_results_know_their_producer() -> None:
    def orphan(function: Function) -> None:
        function.nodes[0].output.producer = None

    def misplace(function: Function) -> None:
        function.nodes[0].output.index = 1

    broken(orphan, "node 'first'.*does not name it as its producer")
    broken(misplace, "node 'first'.*does not name it as its producer")


def test_types_are_inferred_again() -> None:
    def retype(function: Function) -> None:
        function.nodes[1].output.type = TensorType(F32, (2, 2))

    def surplus(function: Function) -> None:
        node = function.nodes[1]
        node.outputs.append(Value("extra", node.output.type, node, 1))

    broken(retype, r"node 'second' \(Relu\): result 'b' has type f32\[2,2\], expected f32\[1,2,3,4\]")
    broken(surplus, "node 'second'.*has 2 results, expected 1")


def test_operators_and_attributes_are_declared() -> None:
    def unknown(function: Function) -> None:
        function.nodes[1].op = "Mystery"

    def extra(function: Function) -> None:
        function.nodes[1].attrs["speed"] = 3

    def unfit(function: Function) -> None:
        function.nodes[0].inputs[1] = function.constant(np.zeros(3, np.float32))

    broken(unknown, "operator 'Mystery' is not declared")
    broken(extra, "node 'second'.*attribute 'speed' is not declared")
    broken(unfit, "node 'first'.*do not broadcast")


def test_attribute_kinds() -> None:
    function = Function("main")
    x = function.add_input("x", TensorType(F32, (2, 3)))
    y = Builder(function).op("Transpose", x, perm=(1, 0))
    function.outputs.append(y)
    verify_function(function)
    function.nodes[0].attrs["perm"] = "10"
    with pytest.raises(VerifyError, match="attribute 'perm' is '10', expected ints"):
        verify_function(function)


def test_constants_fill_their_memory_shape() -> None:
    def shrink(function: Function) -> None:
        function.constants()[0].data = np.zeros(2, np.float32)

    def convert(function: Function) -> None:
        function.constants()[0].data = np.zeros(1, np.int64)

    broken(shrink, "constant 'c' of type .* holds an array float32")
    broken(convert, "constant 'c' of type .* holds an array int64")


def test_a_stored_constant_has_the_shape_of_its_storage() -> None:
    type = TensorType(F32, (1, 2, 3, 4), HALO)
    function = Function("main", outputs=[Constant("w", type, data=np.zeros((1, 5, 6, 2), np.float32))])
    verify_function(function)
    function.outputs = [Constant("w", type, data=np.zeros((1, 2, 3, 4), np.float32))]
    with pytest.raises(VerifyError, match="constant 'w'"):
        verify_function(function)


def test_storages_only_count_where_they_are_stated() -> None:
    function = chain()
    function.nodes[0].output.type = function.nodes[0].output.type.with_storage(HALO)
    verify_function(function)

    packed = Function("main")
    x = packed.add_input("x", TensorType(F32, (1, 2, 3, 4)))
    packed.outputs.append(Builder(packed).op("Pack", x, storage=HALO))
    verify_function(packed)
    packed.nodes[0].output.type = x.type.with_storage(PLAIN)
    with pytest.raises(VerifyError, match=r"\(Pack\): result .* expected .*@acdb"):
        verify_function(packed)


def test_a_storage_fits_the_rank_of_its_tensor() -> None:
    function = chain()
    function.nodes[0].output.type = function.nodes[0].output.type.with_storage(Storage("ab"))
    with pytest.raises(VerifyError, match="'ab' does not fit a tensor of rank 4"):
        verify_function(function)


def test_bodies_are_checked_too() -> None:
    body = chain()
    function = Function("outer")
    x = function.add_input("x", body.inputs[0].type)
    fused = function.make_node("Fused", [x], [body.outputs[0].type], name="kernel", bodies=(body,))
    function.nodes.append(fused)
    function.outputs.append(fused.output)
    verify_function(function)
    body.nodes[1].attrs["speed"] = 3
    with pytest.raises(VerifyError, match=r"function 'outer': node 'kernel'.*function 'main': node 'second'"):
        verify_function(function)


def test_inputs_are_placeholders_and_outputs_are_named_all_or_none() -> None:
    broken(lambda f: f.output_names.append("more"), "1 outputs have 2 names")
    function = Function("main", inputs=[Value("v", TensorType(I64, ()))])  # type: ignore[list-item]
    with pytest.raises(VerifyError, match="input 'v' is not a placeholder"):
        verify_function(function)


def test_an_unused_foreign_node_list_is_harmless() -> None:
    function = chain()
    function.nodes.append(Node("Neg", "unused", [function.inputs[0]]))
    node = function.nodes[-1]
    node.outputs.append(Value("spare", function.inputs[0].type, node, 0))
    verify_function(function)
