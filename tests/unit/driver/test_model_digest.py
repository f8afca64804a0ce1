"""The digest of a model covers everything that its meaning depends on."""

import numpy as np
import onnx
from onnx.external_data_helper import convert_model_to_external_data
from small_model import make_model

import tilewright as tw
from tilewright.cache import make_key
from tilewright.source import Source


def test_a_changed_weight_changes_the_digest(tmp_path):
    one = Source.of(make_model(tmp_path / "a.onnx"))
    same = Source.of(make_model(tmp_path / "b.onnx"))
    other = Source.of(make_model(tmp_path / "c.onnx", scale=2.0))
    assert one.digest == same.digest != other.digest
    assert Source.of(tw.load(tmp_path / "a.onnx")).digest != Source.of(tw.load(tmp_path / "c.onnx")).digest


def test_external_data_belongs_to_the_digest(tmp_path):
    file = make_model(tmp_path / "a.onnx")
    model = onnx.load(file)
    convert_model_to_external_data(model, location="weights.bin", size_threshold=0)
    onnx.save(model, file)
    weights = tmp_path / "weights.bin"
    before = Source.of(file).digest
    assert before == Source.of(file).digest
    data = np.fromfile(weights, np.uint8)
    data[7] ^= 1
    data.tofile(weights)
    assert Source.of(file).digest != before


def test_keys_depend_on_every_fact():
    keys = {make_key("m", {"level": 1}), make_key("m", {"level": 2}), make_key("n", {"level": 1})}
    assert len(keys) == 3
    assert make_key("m", {"a": 1, "b": 2}) == make_key("m", {"b": 2, "a": 1})
