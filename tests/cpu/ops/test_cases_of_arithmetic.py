"""Public bug reports about arithmetic, reductions, products and quantised operators, as small models.

Names are those of the case log. Every model runs with NumPy, and as generated code at -O0 and -O3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw

Arrays = Mapping[str, Any]
Run = Callable[..., list[np.ndarray]]
nan, inf = np.nan, np.inf


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.fixture(params=["numpy", "cpu -O0", "cpu -O3"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """run(nodes, inputs, outputs, constants, opset): results of a model in one engine."""
    target, _, level = request.param.partition(" -O")

    def evaluate(
        nodes: Sequence[Any],
        inputs: Arrays,
        outputs: Sequence[str],
        constants: Arrays | None = None,
        opset: int = 17,
    ) -> list[np.ndarray]:
        infos = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ]
        results = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs]
        tensors = [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
        graph = helper.make_graph(list(nodes), "case", infos, results, tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        options: dict[str, Any] = {"cache_dir": tmp_path, "threads": 1, "opt_level": int(level or 3)}
        engine = tw.compile(model.SerializeToString(), target=target, **options)
        found = engine.run(dict(inputs))
        return [found[name] for name in outputs]

    return evaluate


@pytest.fixture
def one(run: Run) -> Callable[..., np.ndarray]:
    """one(op, *operands, opset, **attributes): the result of one node; None omits an operand."""

    def evaluate(op: str, *operands: np.ndarray | None, opset: int = 17, **attributes: Any) -> np.ndarray:
        names = ["" if a is None else f"x{i}" for i, a in enumerate(operands)]
        inputs = {n: a for n, a in zip(names, operands, strict=True) if a is not None}
        return run([helper.make_node(op, names, ["y"], **attributes)], inputs, ["y"], opset=opset)[0]

    return evaluate


One = Callable[..., np.ndarray]


def same(found: np.ndarray, expected: Any, rtol: float = 0) -> None:
    wide = found if found.dtype.kind in "iub" else found.astype(np.float64)
    np.testing.assert_allclose(wide, expected, rtol=rtol, equal_nan=True)


def test_ew1_crossed_bounds_of_clip(one: One) -> None:
    same(one("Clip", f32(-2, 0, 6), np.float32(2).reshape(()), np.float32(1).reshape(())), [1, 1, 1])


def test_ew3_integer_division_truncates(one: One) -> None:
    a, b = np.array([8, -8, 7, -7]), np.array([-3, 3, -2, 2])
    same(one("Div", a, b), [-2, -2, -3, -3])


def test_ew3_division_by_zero_does_not_trap(one: One) -> None:
    for dtype in ("int8", "int32", "int64", "uint8", "uint64"):
        a = np.array([1, 0, np.iinfo(dtype).min], dtype)
        assert one("Div", a, np.zeros(3, dtype)).dtype == dtype
        assert one("Mod", a, np.zeros(3, dtype)).dtype == dtype
    lowest = np.array([np.iinfo(np.int64).min])
    same(one("Div", lowest, np.array([-1])), lowest)


def test_ew4_signs_of_remainders(one: One) -> None:
    a, b = np.array([-4, 7, 5, 4, -7, 8], np.int32), np.array([2, -3, 8, -2, 3, 5], np.int32)
    same(one("Mod", a, b), [0, -2, 5, 0, 2, 3])
    same(one("Mod", a, b, fmod=1), [0, 1, 5, 0, -1, 3])


def test_ew6_chained_casts_normalise(run: Run) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["b"], to=TensorProto.BOOL),
        helper.make_node("Cast", ["b"], ["i"], to=TensorProto.INT32),
        helper.make_node("Cast", ["b"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["f"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["sb"], to=TensorProto.BOOL),
        helper.make_node("Cast", ["sb"], ["y"], to=TensorProto.FLOAT),
    ]
    i, y = run(nodes, {"x": np.array([-1, 0, 2])}, ["i", "y"])
    same(i, [1, 0, 1])
    same(y, 1.0)


def test_ew7_casts_out_of_range(run: Run) -> None:
    """As an input and as a constant the same, whatever it is; narrower integers wrap."""
    x = f32(nan, inf, -inf, 3e9)
    nodes = [helper.make_node("Cast", [name], [f"{name}y"], to=TensorProto.INT32) for name in ("x", "c")]
    nodes.append(helper.make_node("Cast", ["n"], ["ny"], to=TensorProto.UINT8))
    whole = np.array([300, -1, 256], np.int32)
    from_input, from_constant, narrow = run(nodes, {"x": x, "n": whole}, ["xy", "cy", "ny"], {"c": x})
    same(from_input, from_constant)
    same(narrow, [44, 255, 0])


def test_ew8_halves_round_to_even(run: Run) -> None:
    x = f32(0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997)
    nodes = [
        helper.make_node("Round", ["x"], ["y"]),
        helper.make_node("Sigmoid", ["z"], ["s"]),
        helper.make_node("Round", ["s"], ["r"]),
    ]
    y, r = run(nodes, {"x": x, "z": f32(0)}, ["y", "r"])
    same(y, [0, 2, 2, -0.0, -2, -2, 0])
    assert np.signbit(y[3])
    same(r, [0])


def test_ew9_nan_of_either_operand(one: One) -> None:
    a, b = f32(nan, 1, nan), f32(1, nan, nan)
    column, single = f32([nan], [2], [20]), f32(10)
    for op, expected in (("Max", [[nan], [10], [20]]), ("Min", [[nan], [2], [10]])):
        same(one(op, a, b), [nan] * 3)
        same(one(op, column, single), expected)
        same(one(op, single, column), expected)


def test_ew11_hyperbolic_functions_near_overflow(one: One) -> None:
    same(one("Sinh", f32(88.85, 89, -88.95)), [1.93212e38, 2.24481e38, -2.13532e38], 1e-5)
    same(one("Cosh", f32(88.85, 89, -88.95)), [1.93212e38, 2.24481e38, 2.13532e38], 1e-5)


def test_ew12_softplus_and_sigmoid_of_large_values(one: One) -> None:
    same(one("Softplus", f32(5, 12, 88, 1000, -1000)), [5.0067153, 12.000006, 88, 1000, 0], 1e-6)
    half = np.array([5, 12, 88, 1000], np.float16)
    same(one("Softplus", half), np.array([5.0067, 12, 88, 1000], np.float16))
    same(one("Sigmoid", f32(-1000, 1000, inf)), [0, 1, 1])


def test_ew13_the_same_operand_several_times(one: One, run: Run) -> None:
    same(run([helper.make_node("Sum", ["x"] * 5, ["y"])], {"x": f32(-0.75)}, ["y"])[0], [-3.75])
    half = np.array([60000], np.float16)
    same(one("Mean", half, half), half)


def test_ew15_round_trips_through_halves(run: Run) -> None:
    x = f32(0.333333343, 1.00390625, 1.01171875, 3.4e38, nan)
    z = f32(65504, 65519, 65520, 1e-8, 2049)
    nodes = [
        helper.make_node("Cast", ["x"], ["b"], to=TensorProto.BFLOAT16),
        helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["z"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["h"], ["w"], to=TensorProto.FLOAT),
    ]
    with np.errstate(over="ignore"):
        y, w = run(nodes, {"x": x, "z": z}, ["y", "w"])
    same(y, [0.333984375, 1, 1.015625, inf, nan])
    same(w, [65504, 65504, inf, 0, 2048])


def test_ew16_broadcasting_aligns_at_the_end(one: One) -> None:
    same(one("Add", np.zeros((5, 2), np.float32), f32(0, 1)), [[0, 1]] * 5)


def test_mm1_bias_shapes_and_beta_of_gemm(one: One) -> None:
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(12, dtype=np.float32).reshape(4, 3)
    attrs = {"alpha": 0.5, "beta": 2.0, "transB": 1}
    plain = 0.5 * a @ b.T
    for c in (np.float32(5).reshape(()), f32(5), f32(5, 5, 5, 5), f32([5, 5, 5, 5])):
        y = one("Gemm", a, b, c, **attrs)
        same(y, plain + 10)
        same(y[0], [12.5, 17, 21.5, 26])
    same(one("Gemm", a, b, f32([1], [2]), **attrs)[1], [11, 29, 47, 65])
    same(one("Gemm", a, b, np.full(4, nan, np.float32), **{**attrs, "beta": 0.0}), plain)


def test_mm2_ranks_and_empty_operands(one: One) -> None:
    shapes = [
        ((3,), (3,), ()),
        ((3,), (3, 2), (2,)),
        ((2, 3), (3,), (2,)),
        ((2, 1, 2, 3), (4, 3, 2), (2, 4, 2, 2)),
        ((3,), (4, 3, 2), (4, 2)),
        ((0, 2), (2,), (0,)),
        ((2, 0), (0, 3), (2, 3)),
    ]
    for left, right, expected in shapes:
        y = one("MatMul", np.ones(left, np.float32), np.ones(right, np.float32))
        assert y.shape == expected
        same(y, np.full(expected, left[-1]))


def test_mm4_a_dense_layer_that_is_not_transposed(one: One) -> None:
    random = np.random.default_rng(0)
    a, b, c = (random.standard_normal(shape).astype(np.float32) for shape in ((1, 8), (8, 5), (5,)))
    same(one("Gemm", a, b, c), a.astype(np.float64) @ b + c, 1e-5)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("op", ["ReduceMean", "ReduceSum", "ReduceMax"])
def test_rd1_and_rd3_empty_axes_reduce_nothing(run: Run, op: str, keepdims: int) -> None:
    x = f32([1, 2], [3, 4])
    attrs = {"noop_with_empty_axes": 1, "keepdims": keepdims}
    nodes = [
        helper.make_node(op, ["x"], ["absent"], **attrs),
        helper.make_node(op, ["x", "a"], ["empty"], **attrs),
    ]
    for y in run(nodes, {"x": x}, ["absent", "empty"], {"a": np.zeros(0, np.int64)}, opset=18):
        same(y, x)


def test_rd5_log_of_sums_of_large_exponentials(run: Run) -> None:
    for x, expected, rtol in (
        (f32(89, 89), 89.693146, 1e-6),
        (np.array([12, 12], np.float16), np.float16(12.695), 0),
        (f32(-inf, -inf), -inf, 0),
        (f32(inf, 0), inf, 0),
        (f32(nan, 0), nan, 0),
    ):
        node = helper.make_node("ReduceLogSumExp", ["x"], ["y"], keepdims=0)
        same(run([node], {"x": x}, ["y"])[0], expected, rtol)


def _scalar(value: float, dtype: Any = np.float32) -> np.ndarray:
    return np.array(value, dtype)


def test_qz1_results_saturate(one: One) -> None:
    for dtype, a, b, y_scale, expected in ((np.uint8, 100, 100, 0.2, 255), (np.int8, -100, 100, 0.5, -128)):
        zero, unit = _scalar(0, dtype), _scalar(1)
        left, right = np.array([[a]], dtype), np.array([[b]], dtype)
        operands = (left, unit, zero, right, unit, zero, _scalar(y_scale), zero)
        same(one("QLinearMatMul", *operands), [[expected]])


def test_qz3_sums_are_exact(one: One) -> None:
    x, w = np.full((1, 64, 1, 1), 255, np.uint8), np.full((1, 64, 1, 1), 127, np.int8)
    y_scale = _scalar(255 * 127 * 64 / 200)
    zero, unit = _scalar(0, np.uint8), _scalar(1)
    y = one("QLinearConv", x, unit, zero, w, unit, _scalar(0, np.int8), y_scale, zero)
    same(y, np.full((1, 1, 1, 1), 200))


def test_qz4_padding_is_the_zero_point(one: One) -> None:
    x, w = np.full((1, 1, 3, 3), 130, np.uint8), np.ones((1, 1, 3, 3), np.int8)
    unit = _scalar(1)
    operands = (x, unit, _scalar(128, np.uint8), w, unit, _scalar(0, np.int8), unit, _scalar(10, np.uint8))
    y = one("QLinearConv", *operands, pads=[1, 1, 1, 1])
    same(y[0, 0], [[18, 22, 18], [22, 28, 22], [18, 22, 18]])


def test_qz6_scales_along_an_axis(one: One) -> None:
    x = np.array([[1, 1, 1], [4, 4, 4]], np.int8)
    scale, zero = f32(0.5, 2, 10), np.array([0, 1, -1], np.int8)
    y = one("DequantizeLinear", x, scale, zero, axis=1)
    same(y, [[0.5, 0, 20], [2, 6, 50]])
    same(one("QuantizeLinear", y, scale, zero, axis=-1), x)


def test_qz7_without_a_zero_point_the_result_is_unsigned(one: One) -> None:
    y = one("QuantizeLinear", f32(2.5, -3, 300), _scalar(1))
    assert y.dtype == np.uint8
    same(y, [2, 0, 255])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("INT4", [7, -8, 2, 4]),
        ("UINT4", [15, 0, 2, 4]),
        ("INT2", [1, -2, 1, 1]),
        ("UINT2", [3, 0, 2, 3]),
        ("FLOAT8E4M3FN", [448, -448, 2.5, 3.5]),
        ("FLOAT4E2M1", [6, -6, 2, 4]),
    ],
)
def test_narrow_types_saturate(run: Run, kind: str, expected: list[float]) -> None:
    dtype = getattr(TensorProto, kind)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=dtype),
        helper.make_node("DequantizeLinear", ["q", "s"], ["y"]),
    ]
    x = f32(1000, -1000, 2.5, 3.5)
    same(run(nodes, {"x": x, "s": _scalar(1)}, ["y"], opset=25)[0], expected)


def test_infinities_saturate_when_quantised(one: One) -> None:
    y = one("QuantizeLinear", f32(inf, -inf), _scalar(1), _scalar(0, np.int8))
    same(y, [127, -128])


def test_qz9_zero_points_of_integer_products(one: One) -> None:
    a = np.array([[238, 115, 94], [245, 111, 102], [158, 225, 48]], np.uint8)
    b = np.array([[25, 36, 125], [42, -123, 76], [-81, -86, 35]], np.int8)
    y = one("MatMulInteger", a, b, _scalar(42, np.uint8), _scalar(-26, np.int8))
    same(y, [[12100, 1951, 40214], [11745, 2293, 41351], [18030, -10919, 36548]])


def test_qz10_zero_points_of_rows(one: One) -> None:
    a, b = np.array([[11, 12], [23, 24]], np.uint8), np.array([[1, 2], [3, 4]], np.int8)
    same(one("MatMulInteger", a, b, np.array([10, 20], np.uint8)), [[7, 10], [15, 22]])


def test_powers_of_mixed_types(one: One) -> None:
    """The result has the base's type, and the exponent's digits count."""
    same(one("Pow", np.array([2, -3, 5], np.int32), f32(3, 3, 0.5)), [8, -27, 2])
    same(one("Pow", np.array([2, 3], np.int64), np.array([40, 33], np.uint8)), [2**40, 3**33])
    same(one("Pow", f32(2, 9), np.array([-1, 2])), [0.5, 81])
    base = np.array([1.001953125], np.float16)
    same(one("Pow", base, f32(1000.5)), (base.astype(np.float32) ** np.float32(1000.5)).astype(np.float16))
    half = np.array([1.5, 2], ml_dtypes.bfloat16)
    same(one("Pow", half, np.array([2, 3])), [2.25, 8])


def test_strings_are_refused() -> None:
    node = helper.make_node("Equal", ["x", "x"], ["y"])
    info = helper.make_tensor_value_info("x", TensorProto.STRING, [2])
    result = helper.make_tensor_value_info("y", TensorProto.BOOL, [2])
    model = helper.make_model(helper.make_graph([node], "g", [info], [result]))
    with pytest.raises(tw.TilewrightError, match="STRING"):
        tw.compile(model.SerializeToString())
