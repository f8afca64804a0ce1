"""Models on a machine with AMX: on operands that bf16 holds exactly, products are as good as float32."""

import re

import numpy as np
import pytest
from exact_products import convolution, held, model
from onnx import TensorProto, helper

import tilewright as tw
from tilewright.errors import ArtefactError
from tilewright.targets.cpu import device, target
from tilewright.targets.cpu.codegen import kernel_text
from tilewright.targets.cpu.objects import assembly

CONVOLUTIONS = {
    "1x1": ([1, 16, 14, 14], [24, 16, 1, 1], {}),
    "3x3": ([1, 64, 14, 14], [64, 64, 3, 3], {"pads": [1, 1, 1, 1]}),
    "7 pixels": ([1, 64, 7, 7], [128, 64, 3, 3], {"pads": [1, 1, 1, 1]}),
    "7 pixels, stride 2": ([1, 32, 14, 14], [64, 32, 3, 3], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "7 pixels, 1x1": ([2, 32, 7, 7], [96, 32, 1, 1], {}),
    "narrow": ([2, 32, 9, 5], [40, 32, 3, 3], {"pads": [1, 1, 1, 1]}),
    "narrow, uneven padding": ([1, 16, 6, 5], [48, 16, 2, 4], {"pads": [0, 3, 1, 0], "strides": [2, 1]}),
    "prime width": ([1, 32, 1, 17], [16, 32, 1, 1], {}),
    "stride 2": ([1, 24, 28, 28], [40, 24, 3, 3], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "stride 2, 1x1": ([1, 144, 14, 14], [33, 144, 1, 1], {"strides": [2, 2]}),
    "batch": ([3, 24, 8, 8], [48, 24, 1, 1], {}),
    "rows along the batch": ([16, 32, 5, 3], [16, 32, 3, 3], {"pads": [1, 0, 1, 2]}),
    "odd width": ([1, 32, 4, 17], [20, 32, 3, 3], {"pads": [1, 1, 1, 1]}),
    "width 13": ([2, 18, 3, 13], [17, 18, 1, 3], {"pads": [0, 1, 0, 1]}),
    "width 33": ([1, 16, 5, 33], [70, 16, 3, 3], {"pads": [1, 1, 1, 1]}),
    "dilated": ([1, 16, 16, 16], [32, 16, 3, 3], {"dilations": [2, 2], "pads": [2, 2, 2, 2]}),
    "groups": ([1, 64, 12, 12], [96, 32, 3, 3], {"group": 2, "pads": [1, 1, 1, 1]}),
    "1-D": ([2, 20, 32], [48, 20, 5], {"pads": [2, 2]}),
    "3-D": ([1, 16, 4, 5, 16], [16, 16, 3, 3, 3], {"pads": [1] * 6}),
    "terms from several taps": ([1, 4, 16, 16], [16, 4, 3, 3], {}),
    "odd channels": ([2, 3, 17, 16], [48, 3, 7, 7], {"strides": [2, 2], "pads": [3, 3, 3, 3]}),
    "gap after channels": ([1, 1024, 4, 8], [16, 1024, 1, 1], {}),
}
IN_VECTORS = {
    "few terms": ([1, 2, 16, 16], [16, 2, 1, 1], {}),
    "group of 24 columns": ([1, 64, 16, 16], [48, 32, 1, 1], {"group": 2}),
}
LAYERS = CONVOLUTIONS | IN_VECTORS
PRODUCTS = {
    "MatMul": ([32, 64], [64, 50]),
    "stack": ([3, 16, 96], [96, 40]),
    "seven rows": ([7, 32], [32, 16]),
    "prime rows": ([37, 32], [32, 70]),
    "stack of prime rows": ([3, 7, 32], [32, 64]),
    "Gemm": ([12, 64], [100, 64]),
}


def templates(executable):
    """Templates of the kernels."""
    return [kernel.get("template") for s in executable.package.segments for kernel in s.info["kernels"]]


def relative(found, wanted):
    return np.linalg.norm(found.astype(np.float64) - wanted) / np.linalg.norm(wanted)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(compiled, name, threads):
    data, feeds = convolution(*LAYERS[name])
    executable = compiled(data, threads=threads, without=["winograd"])
    assert "amx" in templates(executable)
    assert relative(executable.run(feeds)["y"], tw.evaluate(data, feeds)["y"]) < 1e-6


@pytest.mark.parametrize("name", ["3x3", "7 pixels"])
def test_machine_code_of_a_layer_keeps_tiles_where_they_are(compiled, amx, monkeypatch, name):
    texts = []
    write = target.kernel_text
    monkeypatch.setattr(
        target, "kernel_text", lambda *given: texts.append(kernel_text(*given)) or write(*given)
    )
    compiled(convolution(*LAYERS[name])[0])
    (layer,) = (text for text in texts if "tdpbf16ps" in text)
    code = assembly(layer, amx)
    assert code.count("tdpbf16ps") == 4
    assert code.count("tileloadd") == 4
    assert code.count("tilestored") == len(re.findall("call void @llvm.x86.tilestored64", layer)) == 4
    assert "ldtilecfg\t(%rsp" not in code
    assert "div" not in code  # of a number of a row by the pitch of rows


@pytest.mark.parametrize("name", IN_VECTORS)
def test_what_has_no_good_tiles_runs_in_vectors(compiled, name):
    data, feeds = convolution(*LAYERS[name])
    executable = compiled(data)
    assert "amx" not in templates(executable)
    assert relative(executable.run(feeds)["y"], tw.evaluate(data, feeds)["y"]) < 1e-6


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(compiled, name):
    shape, weights = PRODUCTS[name]
    attrs = {"transB": 1, "alpha": 0.5} if name == "Gemm" else {}
    node = helper.make_node("Gemm" if attrs else "MatMul", ["x", "w"], ["y"], **attrs)
    data, feeds = model([node], shape, {"w": held(weights, 0)}), {"x": held(shape, 1)}
    executable = compiled(data, threads=2)
    assert "amx" in templates(executable)
    assert relative(executable.run(feeds)["y"], tw.evaluate(data, feeds)["y"]) < 1e-6


BYTES = {
    "3x3": ([2, 64, 14, 14], [48, 64, 3, 3], {"pads": [1, 1, 1, 1]}),
    "7 pixels": ([1, 128, 7, 7], [64, 128, 3, 3], {"pads": [1, 1, 1, 1]}),
    "stride 2": ([1, 32, 15, 15], [40, 32, 3, 3], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "MatMul": ([35, 192], [192, 70], None),
}


@pytest.mark.parametrize("name", BYTES)
def test_products_of_bytes(compiled, name):
    shape, weights, attrs = BYTES[name]
    rng = np.random.default_rng(0)
    constants = {"w": rng.integers(-128, 128, weights, np.int8), "z": np.array(3, np.uint8)}
    op = "MatMulInteger" if attrs is None else "ConvInteger"
    node = helper.make_node(op, ["x", "w", "z"], ["y"], **(attrs or {}))
    data = model([node], shape, constants, TensorProto.UINT8)
    feeds = {"x": rng.integers(0, 256, shape, np.uint8)}
    executable = compiled(data, precision="fp32", threads=2)
    assert "amx" in templates(executable)
    np.testing.assert_array_equal(executable.run(feeds)["y"], tw.evaluate(data, feeds)["y"])


def test_padding_of_another_value_keeps_its_guard(compiled):
    """Of two readers whose padding differs, one has no halo to read it from, and no tiles."""
    rng = np.random.default_rng(0)
    shape, weights = [1, 64, 14, 14], [32, 64, 3, 3]
    constants = {f"w{i}": rng.integers(-128, 128, weights, np.int8) for i in range(2)}
    constants |= {f"z{i}": np.array(zero, np.uint8) for i, zero in enumerate((3, 7))}
    nodes = [
        helper.make_node("ConvInteger", ["x", f"w{i}", f"z{i}"], [f"c{i}"], pads=[1, 1, 1, 1])
        for i in range(2)
    ]
    nodes.append(helper.make_node("Add", ["c0", "c1"], ["y"]))
    data = model(nodes, shape, constants, TensorProto.UINT8)
    feeds = {"x": rng.integers(0, 256, shape, np.uint8)}
    executable = compiled(data, precision="fp32")
    assert [templates(executable).count(name) for name in ("amx", "contraction")] == [1, 1]
    np.testing.assert_array_equal(executable.run(feeds)["y"], tw.evaluate(data, feeds)["y"])


def network():
    """Residual blocks between a pool and a classifier; an activation that is read twice."""
    rng = np.random.default_rng(5)
    shapes = {
        "w1": [32, 16, 1, 1],
        "w2": [32, 32, 3, 3],
        "w3": [48, 32, 3, 3],
        "w4": [48, 10],
    }
    constants = {name: (rng.standard_normal(shape) / 8).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p", "w1"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["g"]),
        helper.make_node("Mul", ["a", "g"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("Conv", ["r", "w3"], ["d"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["d"], ["m"]),
        helper.make_node("Flatten", ["m"], ["f"]),
        helper.make_node("MatMul", ["f", "w4"], ["y"]),
    ]
    feeds = {"x": rng.standard_normal([2, 16, 28, 28]).astype(np.float32)}
    return model(nodes, [2, 16, 28, 28], constants), feeds


def test_a_network_keeps_the_contract_of_its_mode(compiled):
    data, feeds = network()
    executable = compiled(data, verify_each=True)
    assert templates(executable).count("amx") == 3
    error = relative(executable.run(feeds)["y"], tw.evaluate(data, feeds)["y"])
    assert 1e-5 < error < 1e-2


@pytest.mark.parametrize("op", ["Conv", "Gemm"])
def test_float32_in_planes_of_bf16(compiled, op):
    rng = np.random.default_rng(6)
    if op == "Conv":
        shape, weights, attrs = [1, 64, 28, 28], [128, 64, 3, 3], {"strides": [2, 2]}
    else:
        shape, weights, attrs = [32, 256], [512, 256], {"transB": 1}
    constants = {"w": rng.standard_normal(weights).astype(np.float32)}
    constants["b"] = rng.standard_normal(weights[0]).astype(np.float32)
    data = model([helper.make_node(op, ["x", "w", "b"], ["y"], **attrs)], shape, constants)
    feeds = {"x": rng.standard_normal(shape).astype(np.float32)}
    executable = compiled(data, precision="fp32-fast", threads=2)
    assert "amx" in templates(executable)
    assert relative(executable.run(feeds)["y"], tw.evaluate(data, feeds)["y"]) < 5e-7


@pytest.mark.parametrize("precision", ["fp32-fast", "fp32"])
def test_a_network_keeps_the_contracts_of_float32(compiled, precision):
    data, feeds = network()
    error = relative(compiled(data, precision=precision).run(feeds)["y"], tw.evaluate(data, feeds)["y"])
    assert error < {"fp32-fast": 1e-4, "fp32": 2e-6}[precision]


@pytest.mark.parametrize(
    "options",
    [{"without": ["matrix"]}, {"without": ["matrix"], "precision": "fp32-fast"}, {"opt_level": 2}],
)
def test_ablations_and_levels_use_no_tiles(compiled, options):
    data, feeds = network()
    executable = compiled(data, **options)
    assert "amx" not in templates(executable)
    if "without" in options:
        assert not [f for s in executable.package.segments for f in s.features if f.startswith("amx")]
    assert relative(executable.run(feeds)["y"], tw.evaluate(data, feeds)["y"]) < 1e-2


@pytest.mark.parametrize("without", ["winograd", "direct", "fusion"])
def test_ablations_beside_tiles(compiled, without):
    data, feeds = network()
    executable = compiled(data, without=[without])
    assert "amx" in templates(executable)
    assert relative(executable.run(feeds)["y"], tw.evaluate(data, feeds)["y"]) < 1e-2


def test_an_artefact_needs_the_permission_to_use_tiles(compiled, monkeypatch, tmp_path):
    data, _ = convolution(*LAYERS["1x1"])
    compiled(data).save(tmp_path / "model.tw")
    monkeypatch.setattr(device, "tile_permission", lambda: False)
    with pytest.raises(ArtefactError, match="this system does not grant"):
        tw.Executable.load(tmp_path / "model.tw")
