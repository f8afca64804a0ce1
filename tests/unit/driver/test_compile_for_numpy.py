"""`load`, `compile` and `evaluate` on the oracle target, which needs no code generator."""

import re

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ArtefactError, ImportModelError, RunError, UsageError
from tilewright.graph.text import print_module
from tilewright.source import copy_module


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_all_levels_agree(model, x, expected, level):
    exe = tw.compile(model, target="numpy", opt_level=level, verify_each=True)
    np.testing.assert_allclose(exe(x), expected, rtol=1e-6, atol=1e-6)


def test_files_bytes_and_graphs_compile_alike(model, x):
    results = [
        tw.compile(source, target="numpy")(x)
        for source in (model, str(model), model.read_bytes(), tw.load(model))
    ]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_a_loaded_graph_is_left_as_it_is(model):
    module = tw.load(model)
    before = print_module(module)
    tw.compile(module, target="numpy")
    assert print_module(module) == before
    assert print_module(copy_module(module)) == before


def test_evaluate_computes_in_double_precision(model, x, expected):
    result = tw.evaluate(model, {"x": x})["y"]
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, expected, rtol=1e-14, atol=1e-14)
    assert tw.evaluate(model, {"x": x}, dtype="float32")["y"].dtype == np.float32


def test_the_oracle_is_not_saved(model, tmp_path):
    with pytest.raises(ArtefactError, match="has no code to save"):
        tw.compile(model, target="numpy").save(tmp_path / "m.tw")
    assert not (tmp_path / "m.tw").exists()


def test_the_session_is_like_that_of_onnx_runtime(model, x, expected):
    session = tw.InferenceSession(model, target="numpy")
    (given,), (result,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.type, given.shape) == ("x", "tensor(float)", [2, 3])
    assert (result.name, result.type, result.shape) == ("y", "tensor(float)", [2, 4])
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(session.run(["y"], {"x": x})[0], session.run(None, {"x": x})[0])
    with pytest.raises(RunError, match="no output 'z'; its outputs are y"):
        session.run(["z"], {"x": x})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "abacus"}, "unknown target 'abacus'; known: cpu, opencl, numpy"),
        ({"precision": "fp3"}, "unknown precision 'fp3'"),
        ({"opt_level": 4}, "level 4"),
        ({"without": ["thinking"]}, "thinking"),
        ({"threads": 0}, "at least one thread"),
        ({"machine": "/none.json"}, "/none.json"),
    ],
)
def test_unknown_options_are_refused(model, options, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        tw.compile(model, **options)


def test_a_name_that_is_no_file_is_explained(tmp_path):
    with pytest.raises(UsageError, match=r"'resnet99' is not a file; zoo names .* command line"):
        tw.compile("resnet99")
    with pytest.raises(UsageError, match="is not a file"):
        tw.load(tmp_path)


def test_bytes_that_are_no_model_are_refused(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"\xff\x00 no model")
    with pytest.raises(ImportModelError, match=r"bad\.onnx"):
        tw.compile(tmp_path / "bad.onnx", target="numpy")


def test_unknown_names_are_no_attributes_of_the_package():
    assert "compile" in dir(tw)
    with pytest.raises(AttributeError, match="no attribute 'compiel'"):
        _ = tw.compiel


def test_dump_dir_holds_every_stage(model, tmp_path):
    tw.compile(model, target="numpy", dump_dir=tmp_path / "stages")
    names = sorted(p.name for p in (tmp_path / "stages").iterdir() if p.is_file())
    assert names[0] == "00-read.tw.txt"
    assert any("fuse" in name for name in names)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        tw.compile(model, target="numpy", dump_dir=tmp_path / "file" / "stages")
