"""Operators whose meaning changed between opsets, or that are normalised to others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper

from tilewright.errors import ImportModelError
from tilewright.frontend.registry import OLDEST_OPSET, TABLE
from tilewright.frontend.support import PREVIEW

Build = Callable[..., onnx.ModelProto]
Run = Callable[..., dict[str, np.ndarray]]
One = Callable[..., np.ndarray]

INT64 = TensorProto.INT64


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("op", sorted({op for op, _ in TABLE}))
def test_every_version_of_a_supported_operator_is_known(op: Any) -> None:
    newest = defs.onnx_opset_version()
    versions = range(OLDEST_OPSET, newest + 1)
    schemas = [defs.get_schema(op, v, "") for v in versions if defs.has(op, v, "")]
    schemas += [defs.get_schema(op, v, domain) for domain, v in PREVIEW.items() if defs.has(op, v, domain)]
    known = {v for name, v in TABLE if name == op}
    assert known >= {s.since_version for s in schemas if not s.deprecated}
    assert known <= {s.since_version for s in defs.get_all_schemas_with_history() if s.name == op}


@pytest.mark.parametrize(("op", "total"), [("Softmax", 2), ("LogSoftmax", None)])
def test_softmax_before_opset_13_flattens(one: One, op: Any, total: Any) -> None:
    x = (np.arange(24) / 10).astype(np.float32).reshape(2, 3, 4)
    old, new = (one(op, {"x": x}, opset=opset, axis=1) for opset in (11, 13))
    old, new = (np.exp(old), np.exp(new)) if total is None else (old, new)
    assert old.sum() == pytest.approx(2, rel=1e-5)
    assert new.sum() == pytest.approx(8, rel=1e-5)
    assert old.flat[0] == pytest.approx(0.04533, abs=1e-5)
    assert new.flat[0] == pytest.approx(0.21198, abs=1e-5)


def test_softmax_default_axis_changed(one: One) -> None:
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    assert one("Softmax", {"x": x}, opset=12).sum() == pytest.approx(1, rel=1e-6)
    assert one("Softmax", {"x": x}, opset=13).sum() == pytest.approx(2, rel=1e-6)


@pytest.mark.parametrize(
    ("c", "row"),
    [
        (np.float32(5), [12.5, 17, 21.5, 26]),
        (f32(5), [12.5, 17, 21.5, 26]),
        (f32(5, 5, 5, 5), [12.5, 17, 21.5, 26]),
        (f32(5, 5).reshape(2, 1), [12.5, 17, 21.5, 26]),
        (f32(5, 5, 5, 5).reshape(1, 4), [12.5, 17, 21.5, 26]),
    ],
)
def test_gemm_broadcasts_its_third_operand(one: One, c: Any, row: Any) -> None:
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(12, dtype=np.float32).reshape(4, 3)
    y = one("Gemm", {"a": a}, {"b": b, "c": np.array(c)}, alpha=0.5, beta=2.0, transB=1)
    np.testing.assert_array_equal(y[0], row)


def test_gemm_column_operand_and_beta_zero(one: One) -> None:
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(12, dtype=np.float32).reshape(4, 3)
    y = one("Gemm", {"a": a}, {"b": b, "c": f32(1, 2).reshape(2, 1)}, alpha=0.5, beta=2.0, transB=1)
    np.testing.assert_array_equal(y[1], [11, 29, 47, 65])
    y = one("Gemm", {"a": a}, {"b": b, "c": f32(np.nan)}, alpha=0.5, beta=0.0, transB=1)
    np.testing.assert_array_equal(y, 0.5 * a @ b.T)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((9, 0, -1), [9, 8, 7, 6, 5, 4, 3, 2, 1]),
        ((9, 0, -3), [9, 6, 3]),
        ((7, -100, -2), [7, 5, 3, 1]),
        ((-3, 2**63 - 1, 1), [7, 8, 9]),
        ((2**63 - 1, -(2**63), -4), [9, 5, 1]),
        ((5, 2, 1), []),
    ],
)
def test_slice_is_python_slicing(one: One, bounds: Any, expected: Any) -> None:
    start, end, step = (i64(b) for b in bounds)
    x = np.arange(10, dtype=np.float32)
    y = one("Slice", {"x": x}, {"starts": start, "ends": end, "axes": i64(0), "steps": step})
    np.testing.assert_array_equal(y, np.array(expected, np.float32))


def test_older_attribute_forms(one: One) -> None:
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    np.testing.assert_array_equal(
        one("Slice", {"x": x}, opset=9, starts=[1], ends=[-1], axes=[2]), x[:, :, 1:-1]
    )
    np.testing.assert_array_equal(one("Clip", {"x": x}, opset=10, min=1.0, max=4.0), x.clip(1, 4))
    np.testing.assert_array_equal(one("Squeeze", {"x": x}, opset=12, axes=[0]), x[0])
    np.testing.assert_array_equal(one("Unsqueeze", {"x": x}, opset=12, axes=[-1]), x[..., None])
    np.testing.assert_array_equal(
        one("Pad", {"x": x}, opset=10, pads=[0, 0, 1, 0, 0, 0], value=7.0),
        np.pad(x, [(0, 0), (0, 0), (1, 0)], constant_values=7),
    )
    np.testing.assert_array_equal(one("ReduceSum", {"x": x}, opset=11, axes=[-1], keepdims=0), x.sum(-1))


def test_newer_operand_forms(one: One) -> None:
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    np.testing.assert_array_equal(
        one("Clip", {"x": x}, {"lo": None, "hi": np.float32(4).reshape(())}), np.minimum(x, 4)
    )
    np.testing.assert_array_equal(one("Squeeze", {"x": x}, {"axes": i64(0)}), x[0])
    np.testing.assert_array_equal(
        one("Pad", {"x": x}, {"pads": i64(1, 0), "value": f32(7)[0].reshape(()), "axes": i64(-1)}, opset=18),
        np.pad(x, [(0, 0), (0, 0), (1, 0)], constant_values=7),
    )


def test_clip_with_crossed_bounds(one: One) -> None:
    bounds = {"lo": np.array(2, np.float32), "hi": np.array(1, np.float32)}
    np.testing.assert_array_equal(one("Clip", {"x": f32(-2, 0, 6)}, bounds, opset=13), [1, 1, 1])


@pytest.mark.parametrize(
    ("pads", "mode", "x", "expected"),
    [
        ((-1, 2), "constant", (1, 2, 3, 4), (2, 3, 4, 0, 0)),
        ((-1, 2), "edge", (1, 2, 3, 4), (2, 3, 4, 4, 4)),
        ((-2, 2), "reflect", (1, 2, 3, 4, 5, 6), (3, 4, 5, 6, 5, 4)),
    ],
)
def test_negative_pads_crop_first(one: One, pads: Any, mode: Any, x: Any, expected: Any) -> None:
    np.testing.assert_array_equal(one("Pad", {"x": f32(*x)}, {"pads": i64(*pads)}, mode=mode), expected)


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceSum", "ReduceMax"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("given", [True, False])
def test_no_axes_with_the_flag_reduce_nothing(one: One, op: Any, keepdims: Any, given: Any) -> None:
    x = f32(1, 2, 3, 4).reshape(2, 2)
    axes = {"axes": i64()} if given else None
    y = one(op, {"x": x}, axes, opset=18, noop_with_empty_axes=1, keepdims=keepdims)
    np.testing.assert_array_equal(y, x)


def test_reshape_zero_copies_and_minus_one_fills(one: One) -> None:
    x = np.zeros((2, 2, 3, 2), np.float32)
    assert one("Reshape", {"x": x}, {"s": i64(-1, 0, 0)}).shape == (4, 2, 3)
    empty = np.zeros((0, 8, 2), np.float32)
    assert one("Reshape", {"x": empty}, {"s": i64(0, 0, 4)}, allowzero=1).shape == (0, 0, 4)
    with pytest.raises(ImportModelError, match=r"node 'n' \(Reshape\)"):
        one("Reshape", {"x": x}, {"s": i64(5, -1)})


def test_expand_takes_one_as_keep(one: One) -> None:
    x = f32(1, 2, 3).reshape(3, 1)
    np.testing.assert_array_equal(one("Expand", {"x": x}, {"s": i64(2, 1, 4)}), np.broadcast_to(x, (2, 3, 4)))


@pytest.mark.parametrize(
    ("mode", "corner"),
    [
        ("CRD", [[0, 4, 8], [12, 16, 20], [24, 28, 32]]),
        ("DCR", [[0, 8, 16], [24, 32, 40], [48, 56, 64]]),
    ],
)
def test_depth_to_space_modes(one: One, mode: Any, corner: Any) -> None:
    x = np.arange(72, dtype=np.float32).reshape(1, 18, 2, 2)
    np.testing.assert_array_equal(one("DepthToSpace", {"x": x}, blocksize=3, mode=mode)[0, 0, :3, :3], corner)


def test_space_to_depth_order(one: One) -> None:
    x = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
    y = one("SpaceToDepth", {"x": x}, blocksize=2)
    np.testing.assert_array_equal(y[0, :, 0, 0], [0, 16, 1, 17, 4, 20, 5, 21])


def test_gather_wraps_negative_indices_and_takes_scalars(one: One) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(one("Gather", {"x": x}, {"i": np.array(-1)}, axis=1), [3, 7, 11])


def test_variadic_operators_become_chains(build: Build, run: Run) -> None:
    x = {"x": f32(-0.75)}
    nodes = [helper.make_node("Sum", ["x"] * 5, ["y"]), helper.make_node("Mean", ["x", "y", "x"], ["z"])]
    got = run(build(nodes, x, ["y", "z"]), x)
    assert got["y"] == pytest.approx(-3.75)
    assert got["z"] == pytest.approx(-1.75)


def test_split_by_sizes_and_by_number(build: Build, run: Run) -> None:
    x = {"x": np.arange(7, dtype=np.float32)}
    by_size = helper.make_node("Split", ["x", "s"], ["a", "b"], axis=0)
    got = run(build([by_size], x, ["a", "b"], {"s": i64(3, 4)}), x)
    np.testing.assert_array_equal(got["b"], [3, 4, 5, 6])
    by_number = helper.make_node("Split", ["x"], ["a", "b"], axis=0, num_outputs=2)
    assert run(build([by_number], x, ["a", "b"], opset=18), x)["b"].shape == (3,)
    with pytest.raises(ImportModelError, match="equal parts"):
        run(build([helper.make_node("Split", ["x"], ["a", "b"])], x, ["a", "b"], opset=13), x)


def test_dropout_is_its_input_with_a_mask_of_ones(build: Build, run: Run) -> None:
    x = {"x": f32(1, -2)}
    node = helper.make_node("Dropout", ["x", "ratio"], ["y", "mask"])
    model = build([node], x, ["y", "mask"], {"ratio": np.array(0.75, np.float32)})
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.BOOL
    got = run(model, x)
    np.testing.assert_array_equal(got["y"], x["x"])
    assert got["mask"].all()
    assert got["mask"].dtype == np.bool_


def test_training_dropout_follows_its_seed(build: Build, run: Run) -> None:
    x = {"x": np.arange(1, 1001, dtype=np.float32)}
    constants = {"ratio": np.array(0.25, np.float32), "training": np.array(True)}
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "mask"], seed=3)
    model = build([node], x, ["y", "mask"], constants)
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.BOOL
    found = run(model, x)
    assert 700 < found["mask"].sum() < 800
    np.testing.assert_allclose(found["y"], np.where(found["mask"], x["x"] / 0.75, 0), rtol=1e-6)


def test_unseeded_training_dropout_only_with_ratio_zero(build: Build, run: Run) -> None:
    x = {"x": f32(1, -2)}
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y"])
    for ratio, works in ((0.0, True), (0.5, False)):
        constants = {"ratio": np.array(ratio, np.float32), "training": np.array(True)}
        model = build([node], x, ["y"], constants)
        if works:
            np.testing.assert_array_equal(run(model, x)["y"], x["x"])
        else:
            with pytest.raises(ImportModelError, match="training"):
                run(model, x)


def test_integer_division_truncates_and_modulus_has_two_signs(one: One) -> None:
    a, b = i64(8, -8, 7, -7), i64(-3, 3, -2, 2)
    np.testing.assert_array_equal(one("Div", {"a": a, "b": b}, output_kind=INT64), [-2, -2, -3, -3])
    a, b = i64(-4, 7, 5, 4, -7, 8), i64(2, -3, 8, -2, 3, 5)
    for fmod, expected in ((0, [0, -2, 5, 0, 2, 3]), (1, [0, 1, 5, 0, -1, 3])):
        np.testing.assert_array_equal(one("Mod", {"a": a, "b": b}, output_kind=INT64, fmod=fmod), expected)


def test_pow_takes_an_exponent_of_another_type(one: One) -> None:
    np.testing.assert_array_equal(one("Pow", {"x": f32(1, 2, 3)}, {"e": i64(2)}), [1, 4, 9])


def test_prelu_broadcasts_its_slope(one: One) -> None:
    x = f32(-1, 2, -3, 4).reshape(1, 2, 2)
    y = one("PRelu", {"x": x}, {"slope": f32(0.5, 0.25).reshape(2, 1)})
    np.testing.assert_array_equal(y, f32(-0.5, 2, -0.75, 4).reshape(1, 2, 2))


@pytest.mark.parametrize("opset", [9, 14, 15])
def test_batch_normalisation_is_inference(one: One, opset: Any) -> None:
    x = f32(1, 2, 3, 4).reshape(1, 2, 2)
    named = {"s": f32(2, 1), "b": f32(0, 1), "m": f32(1, 3), "v": f32(4, 1)}
    y = one("BatchNormalization", {"x": x}, named, opset=opset, epsilon=0.0)
    np.testing.assert_array_equal(y, f32(0, 1, 1, 2).reshape(1, 2, 2))
