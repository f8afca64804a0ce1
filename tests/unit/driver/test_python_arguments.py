"""What a Python user may give, and the one sentence for what does not fit."""

import types

import numpy as np
import onnx
import onnx.parser
import pytest

import tilewright as tw
from tilewright import ArtefactError, ImportModelError, RunError, UsageError


def test_what_to_leave_out_is_one_name_or_several(model, x, expected):
    for without in ("fusion", "fusion,storage", ("fusion", "storage")):
        exe = tw.compile(model, target="numpy", without=without)
        np.testing.assert_allclose(exe(x), expected, rtol=1e-6, atol=1e-6)
    for without in ("fusoin", "fusion+storage", ["fusoin"]):
        with pytest.raises(UsageError, match=r"is called 'fus.*'; known are fusion, .*separated by commas"):
            tw.compile(model, target="numpy", without=without)


def test_a_message_is_a_model(model, x):
    exe = tw.compile(onnx.load(model), target="numpy")
    np.testing.assert_array_equal(exe(x), tw.compile(model, target="numpy")(x))


def test_a_message_that_protobuf_cannot_write():
    def refuse():
        raise ValueError("exceeds maximum protobuf size of 2GB")

    with pytest.raises(ImportModelError, match="2GB; save it with external data"):
        tw.compile(types.SimpleNamespace(SerializeToString=refuse), target="numpy")


def test_what_is_no_model_is_named():
    with pytest.raises(UsageError, match=r"a model is a path, bytes, a ModelProto or a graph .*, not int"):
        tw.compile(7, target="numpy")


def test_arrays_are_given_by_name(model, x):
    exe = tw.compile(model, target="numpy")
    with pytest.raises(RunError, match="run takes a dict of arrays by input name, found ndarray"):
        exe.run(x)
    with pytest.raises(RunError, match="out= takes a dict of arrays by output name, found ndarray"):
        exe.run({"x": x}, out=np.zeros((2, 4), np.float32))


def test_arrays_are_given_by_name_where_sizes_are_open():
    open_sizes = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) { y = Relu (x) }"""
    )
    with pytest.raises(RunError, match="run takes a dict"):
        tw.compile(open_sizes, target="numpy").run(np.zeros(3, np.float32))


def test_a_session_takes_the_provider_of_the_cpu(model, x, expected):
    given = types.SimpleNamespace(intra_op_num_threads=1)
    cpu = "CPUExecutionProvider"
    for providers, settings in ((None, None), ([cpu], None), ([(cpu, {})], None), ([cpu], [{}])):
        session = tw.InferenceSession(model.read_bytes(), given, providers, settings, target="numpy")
        np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-6, atol=1e-6)


def test_threads_of_session_options_count(model):
    with pytest.raises(UsageError, match="threads -1: at least one"):
        tw.InferenceSession(model, types.SimpleNamespace(intra_op_num_threads=-1), target="numpy")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"providers": ["CUDAExecutionProvider", "CPUExecutionProvider"]}, "provider 'CUDAExecution"),
        ({"providers": ["CPUExecutionProvider"], "provider_options": [{"arena": 1}]}, "has no options here"),
        ({"providers": [("CPUExecutionProvider", {"arena": 1})]}, "has no options here"),
    ],
)
def test_other_providers_are_refused(model, arguments, message):
    with pytest.raises(UsageError, match=message):
        tw.InferenceSession(model, target="numpy", **arguments)


def test_a_session_on_an_artefact_is_compiled_already(tmp_path):
    (tmp_path / "a.tw").write_bytes(b"TILEWRT\0")
    with pytest.raises(UsageError, match=r"a\.tw is compiled already: precision= is for models"):
        tw.InferenceSession(tmp_path / "a.tw", precision="bf16")
    with pytest.raises(ArtefactError, match="too short"):
        tw.InferenceSession(tmp_path / "a.tw", threads=1)


def test_every_error_that_the_interface_raises_is_exported():
    for name in tw.__all__:
        assert hasattr(tw, name)
    assert issubclass(tw.RunError, tw.TilewrightError)
