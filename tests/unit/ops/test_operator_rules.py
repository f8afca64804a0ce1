"""Every operator's rules agree: its types, its NumPy meaning and its meaning for targets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from operator_cases import Case, all_cases

import tilewright.ops.all  # noqa: F401
from tilewright.dtypes import DTYPES, DType
from tilewright.errors import VerifyError
from tilewright.graph.ir import Function
from tilewright.ops.control import CONTROL_FLOW, infer_node
from tilewright.ops.evaluate import evaluate_function
from tilewright.ops.operator import REGISTRY, Builder
from tilewright.tensor.evaluate import evaluate_tensors
from tilewright.tensor.ir import placeholder
from tilewright.types import TensorType

CASES = all_cases()
# Operators whose meaning is in their bodies.
BODY_OPERATORS = CONTROL_FLOW | {"Fused"}
# Operators whose results have a declared element type, whatever their operands have.
TYPED = ("Cast", "BitCast", "RandomUniform", "Decode", "Encode")


def types_of(case: Case) -> list[TensorType | None]:
    return [None if a is None else TensorType(DType.of(a.dtype), a.shape) for a in case.operands]


def same(case: Case, found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        if a.dtype.kind in "iub":
            np.testing.assert_array_equal(a, b)
        else:
            a, b = a.astype(np.float64), b.astype(np.float64)
            np.testing.assert_allclose(a, b, case.rtol, case.atol, equal_nan=True)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_declaration_is_complete(name: str) -> None:
    operator = REGISTRY[name]
    meanings = [m for m in (operator.lower, operator.compute, operator.loops) if m is not None]
    assert len(meanings) == (0 if name in BODY_OPERATORS else 1)
    assert operator.doc
    assert operator.outputs
    assert callable(operator.infer)
    assert callable(operator.evaluate)
    assert any(case.op == name for case in CASES) or name in BODY_OPERATORS


@pytest.mark.parametrize("name", sorted(name for name in REGISTRY if REGISTRY[name].lower))
def test_cases_of_a_lowering_try_all_it_depends_on(name: str) -> None:
    """Two values of every attribute; every optional operand given and left out."""
    operator = REGISTRY[name]
    cases = [case for case in CASES if case.op == name]
    for attribute, declared in operator.attrs.items():
        tried = {repr(case.attrs.get(attribute, declared.default)) for case in cases}
        assert len(tried) > 1, f"{name}: '{attribute}' is always {tried}"
    for index, operand in enumerate(operator.inputs):
        if operand.optional:
            given = {len(case.operands) > index and case.operands[index] is not None for case in cases}
            assert given == {True, False}, f"{name}: operand '{operand.name}' is always given or never"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_types_describe_the_values(case: Case) -> None:
    operator = REGISTRY[case.op]
    types = operator.infer(types_of(case), case.attrs)
    arrays = operator.evaluate(case.operands, case.attrs)
    assert [t.dtype.numpy for t in types] == [a.dtype for a in arrays]
    assert all(t.holds(a.shape) for t, a in zip(types, arrays, strict=True))


@pytest.mark.parametrize("case", [c for c in CASES if REGISTRY[c.op].compute], ids=str)
def test_expression_equals_numpy_meaning(case: Case) -> None:
    operator = REGISTRY[case.op]
    types = operator.infer(types_of(case), case.attrs)
    tensors, feeds = [], {}
    for index, array in enumerate(case.operands):
        name = f"operand{index}"
        tensors.append(None if array is None else placeholder(array.shape, DType.of(array.dtype), name))
        if array is not None:
            feeds[name] = array
    assert operator.compute is not None
    results = operator.compute(tensors, case.attrs, types)
    assert [(t.dtype, t.shape) for t in results] == [(t.dtype, t.at_bound().shape) for t in types]
    same(case, evaluate_tensors(results, feeds), operator.evaluate(case.operands, case.attrs))


@pytest.mark.parametrize("case", [c for c in CASES if REGISTRY[c.op].lower], ids=str)
def test_lowered_graph_equals_numpy_meaning(case: Case) -> None:
    operator = REGISTRY[case.op]
    function = Function("main")
    inputs = [
        None if t is None else function.add_input(f"operand{i}", t) for i, t in enumerate(types_of(case))
    ]
    build = Builder(function)
    build.ops(case.op, *inputs, **case.attrs)
    node = function.nodes.pop()
    assert operator.lower is not None
    function.outputs = list(operator.lower(build, node))
    assert [v.type for v in function.outputs] == [v.type for v in node.outputs]
    for lowered in function.nodes:
        assert infer_node(lowered) == tuple(v.type for v in lowered.outputs)
    feeds = {f"operand{i}": a for i, a in enumerate(case.operands) if a is not None}
    found = list(evaluate_function(function, feeds).values())
    same(case, found, operator.evaluate(case.operands, case.attrs))


@pytest.mark.parametrize("case", [c for c in CASES[::7] if c.op not in TYPED], ids=str)
def test_float64_operands_give_float64_results(case: Case) -> None:
    wide = [a if a is None or a.dtype.kind in "iub" else a.astype(np.float64) for a in case.operands]
    for array in REGISTRY[case.op].evaluate(wide, case.attrs):
        assert array.dtype.kind in "iub" or array.dtype == np.float64


def test_halo_replaces_guards_of_a_convolution() -> None:
    conv = REGISTRY["Conv"]
    x, w = (
        placeholder((1, 1, 3, 3), DType.of(np.float32), "x"),
        placeholder((1, 1, 3, 3), DType.of("f4"), "w"),
    )
    attrs = {"pads": (1, 1, 1, 1)}
    types = [TensorType(t.dtype, t.shape) for t in (x, w)]
    plain = conv.compute([x, w], attrs, conv.infer(types, attrs))[0]  # type: ignore[misc]
    halo = conv.compute([x, w], {**attrs, "padded_by_halo": True}, conv.infer(types, attrs))[0]  # type: ignore[misc]
    assert "Select" in repr(plain.stage.bodies)
    assert "Select" not in repr(halo.stage.bodies)


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "message"),
    [
        ("Conv", [(1, 4, 5, 5), (2, 3, 3, 3)], {}, "Conv: weights have 3 input channels, input has 4"),
        (
            "Conv",
            [(1, 3, 5, 5), (2, 3, 3, 3)],
            {"pads": (-1, 0, 0, 0)},
            "Conv: attribute 'pads' must not be neg",
        ),
        ("Conv", [(1, 3, 2, 2), (2, 3, 3, 3)], {}, "does not fit axis 2"),
        ("Conv", [(1, 3, 5, 5), (2, 3, 3, 3), (3,)], {}, "bias has shape"),
        ("Conv", [(1, 3, 5, 5)], {}, "operand 'w' is missing"),
        ("Conv", [(1, 3, 5, 5), (2, 3, 3, 3)], {"strides": (1,)}, "'strides' has 1 numbers, expected 2"),
        ("MaxPool", [(1, 1, 4)], {}, "attribute 'kernel_shape' is required"),
        ("MaxPool", [(1, 1, 4)], {"kernel_shape": (2,), "pads": (2, 0)}, "padding as wide as the kernel"),
        ("Add", [(2, 3), (4,)], {}, r"Add: shapes \[2,3\] and \[4\] do not broadcast"),
        ("MatMul", [(2, 3), (4, 2)], {}, "3 columns, the second 4 rows"),
        ("MatMul", [(), (4, 2)], {}, "scalar"),
        ("Conv", [(1, 3, 5, 5), (2, 3, 3, 3)], {"pad_value": 1}, "padding with 1 is for integers, found f32"),
        ("Gemm", [(2, 3), (3, 4), (3,)], {}, "do not broadcast"),
        ("Reshape", [(2, 3)], {"shape": (4,)}, "has 6 elements"),
        ("Transpose", [(2, 3)], {"perm": (0, 0)}, "no order of the axes"),
        ("Concat", [(2, 3), (3, 3)], {"axis": 1}, "differ beside axis 1"),
        ("Split", [(5,)], {"axis": 0, "sizes": (2, 2)}, "do not add up"),
        ("Slice", [(5,)], {"starts": (0,), "ends": (9,), "axes": (0,), "steps": (1,)}, "takes index 8"),
        ("Pad", [(3,)], {"pads": (-2, -2)}, "crop more"),
        ("ReduceSum", [(2, 2)], {"axes": (2,)}, "do not fit"),
        ("Softmax", [(2, 2)], {"axis": -1}, "does not fit"),
        ("ConvTranspose", [(1, 2, 3, 3), (3, 1, 2, 2)], {}, "weights have 3 input channels, input has 2"),
        ("BatchNormalization", [(1, 3), (3,), (3,), (2,), (3,)], {}, "mean has shape"),
        ("LSTM", [(4, 2, 5), (1, 12, 4), (1, 12, 3)], {"hidden_size": 3}, "w has shape"),
        ("And", [(2,), (2,)], {}, "element type f32, expected one of bool"),
        ("Relu", [(2,), (2,)], {}, "takes 1 operands, 2 are given"),
        ("Fused", [(2,)], {}, "in its body"),
    ],
)
def test_wrong_operands_are_refused(
    op: str, shapes: list[tuple[int, ...]], attrs: dict[str, object], message: str
) -> None:
    types = [TensorType(DType.of(np.float32), shape) for shape in shapes]
    with pytest.raises(VerifyError, match=message):
        REGISTRY[op].infer(types, attrs)


@pytest.mark.parametrize(
    ("names", "attrs", "message"),
    [
        (["u8", "i8"], {}, "MatMul: the attribute 'wide' is required for operands of u8 and i8"),
        (["u8", "i32"], {"wide": True}, "MatMul: operands have element types u8 and i32"),
        (["i8", "f32"], {"wide": True}, "MatMul: operands have element types i8 and f32"),
    ],
)
def test_products_of_bytes_are_wide(names: list[str], attrs: dict[str, object], message: str) -> None:
    types = [TensorType(DTYPES[name], (2, 2)) for name in names]
    with pytest.raises(VerifyError, match=message):
        REGISTRY["MatMul"].infer(types, attrs)


def test_a_convolution_of_bytes_adds_i32() -> None:
    types = [TensorType(DTYPES[name], (1, 1, 2, 2)) for name in ("u8", "i8")]
    (result,) = REGISTRY["Conv"].infer([*types, TensorType(DTYPES["i32"], (1,))], {"wide": True})
    assert result == TensorType(DTYPES["i32"], (1, 1, 1, 1))
    with pytest.raises(VerifyError, match="Conv: operands have element types u8 and f32"):
        REGISTRY["Conv"].infer([*types, TensorType(DTYPES["f32"], (1,))], {"wide": True})
    with pytest.raises(VerifyError, match="Conv: u8 does not hold the padding 256"):
        REGISTRY["Conv"].infer(types, {"wide": True, "pads": (1, 1, 1, 1), "pad_value": 256})
