"""Model files: damaged ones, and data kept outside the model."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.errors import ImportModelError
from tilewright.frontend.onnx_reader import read_bytes, read_model
from tilewright.ops.evaluate import evaluate_function

Build = Callable[..., onnx.ModelProto]


def small(build: Build) -> onnx.ModelProto:
    """A convolution, a reshape and a matrix product, with shape arithmetic."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Reshape", ["r", "s"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "m"], ["y"], name="fc", transB=1),
    ]
    constants = {
        "w": np.ones((2, 1, 3, 3), np.float32),
        "b": np.ones(2, np.float32),
        "s": np.array([0, -1], np.int64),
        "m": np.ones((3, 8), np.float32),
    }
    return build(nodes, {"x": np.zeros((1, 1, 4, 4), np.float32)}, ["y"], constants)


def external(
    folder: Any, location: Any = "data/s.bin", offset: Any = "8", length: Any = "16"
) -> onnx.ModelProto:
    """Reshape [4] to [-1, 2], the shape being stored in a file beside the model."""
    shape = TensorProto(name="s", data_type=TensorProto.INT64, dims=[2])
    shape.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        shape.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [shape],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "s.bin").write_bytes(b"\0" * 8 + np.array([-1, 2], "<i8").tobytes())
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return model


def test_shape_in_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    external(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    function = read_model(tmp_path / "model" / "m.onnx").entry
    y = evaluate_function(function, {"x": np.arange(4, dtype=np.float32)})["y"]
    np.testing.assert_array_equal(y, [[0, 1], [2, 3]])


def test_external_data_of_a_model_in_bytes(tmp_path: Path) -> None:
    data = external(tmp_path / "model").SerializeToString()
    with pytest.raises(ImportModelError, match="pass base_dir"):
        read_bytes(data)
    assert read_bytes(data, base_dir=tmp_path / "model").entry.outputs[0].shape == (2, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"location": "../secret.bin"}, "outside the model's folder"),
        ({"location": "/etc/passwd"}, "outside the model's folder"),
        ({"location": "data/link.bin"}, "outside the model's folder"),
        ({"location": ""}, "names no usable file"),
        ({"location": "data/none.bin"}, "cannot be read"),
        ({"location": "data"}, "cannot be read|truncated"),
        ({"offset": "16"}, "truncated"),
        ({"offset": "-8"}, "not a non-negative number"),
        ({"offset": "1e9"}, "not a non-negative number"),
        ({"length": "8"}, r"initializer 's' of shape \[2\] needs 16 bytes"),
    ],
)
def test_external_data_is_contained_and_sized(tmp_path: Path, change: Any, message: Any) -> None:
    folder = tmp_path / "model"
    external(folder, **change)
    (tmp_path / "secret.bin").write_bytes(b"\0" * 64)
    (folder / "data" / "link.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(ImportModelError, match=message):
        read_model(folder / "m.onnx")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "empty"), (b"not a model at all", "truncated or not an ONNX"), (b"\x08\x08", "no graph")],
)
def test_files_that_are_no_models(tmp_path: Path, content: Any, message: Any) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(ImportModelError, match=rf"{path}.*{message}"):
        read_model(path)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match=r"none\.onnx': it cannot be read: No such file"):
        read_model(tmp_path / "none.onnx")
    with pytest.raises(ImportModelError, match="cannot be read"):
        read_model(tmp_path)


def test_every_truncation_is_refused(build: Build) -> None:
    data = small(build).SerializeToString()
    assert read_bytes(data).entry.outputs[0].shape == (1, 3)
    for length in range(len(data)):
        with pytest.raises(ImportModelError):
            read_bytes(data[:length])


def test_damaged_bytes_never_raise_anything_else(build: Build) -> None:
    data = small(build).SerializeToString()
    rng = random.Random(7)
    refused = 0
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            read_bytes(bytes(damaged))
        except ImportModelError:
            refused += 1
    assert refused > 50


def test_initializers_whose_size_does_not_fit_their_shape(build: Build) -> None:
    model = small(build)
    model.graph.initializer[0].dims[0] = 1 << 40
    with pytest.raises(ImportModelError, match=r"initializer 'w' of shape .* needs"):
        read_bytes(model.SerializeToString())
    model.graph.initializer[0].dims[0] = -2
    with pytest.raises(ImportModelError, match="negative extent"):
        read_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "uint16", "int64", "uint64", "bool"]
)
def test_values_may_stand_in_typed_fields(build: Build, dtype: Any) -> None:
    values = np.array([0, 1, 1, 0]).astype(dtype)
    model = build([helper.make_node("Identity", ["w"], ["y"])], {}, ["y"], {"w": values})
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    model.graph.output[0].type.tensor_type.elem_type = kind
    stored = values.view(np.uint16) if dtype == "float16" else values
    model.graph.initializer[0].CopyFrom(TensorProto(name="w", data_type=kind, dims=[4]))
    field = {
        "float32": "float_data",
        "float64": "double_data",
        "int64": "int64_data",
        "uint64": "uint64_data",
    }.get(dtype, "int32_data")
    getattr(model.graph.initializer[0], field).extend(
        int(v) if dtype == "bool" else v for v in stored.tolist()
    )
    np.testing.assert_array_equal(numpy_helper.to_array(model.graph.initializer[0]), values)
    got = evaluate_function(read_bytes(model.SerializeToString()).entry, {})["y"]
    assert got.dtype == values.dtype
    np.testing.assert_array_equal(got, values)
