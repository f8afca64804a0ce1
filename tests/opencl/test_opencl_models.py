"""Whole networks on the embedded device, within the fp32 contract."""

from __future__ import annotations

import pytest
from contract import assert_contract, seeded_inputs

import tilewright as tw
from tilewright_datasets import zoo


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_keeps_the_contract(target, level, tmp_path):
    path = str(zoo.model_path("dqn"))
    engine = tw.compile(path, target="opencl", opt_level=level, cache_dir=tmp_path, verify_each=True)
    values = seeded_inputs(engine.inputs, 1)
    assert_contract(path, [values], {f"-O{level}": engine.run})


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "squeezenet1_1", "lstm_lm", "dcgan"])
def test_the_default_level_keeps_the_contract(target, name, tmp_path):
    path = str(zoo.model_path(name))
    engine = tw.compile(path, target="opencl", cache_dir=tmp_path)
    values = seeded_inputs(engine.inputs, 1)
    assert_contract(path, [values], {"opencl": engine.run})


def test_an_artefact_is_saved_loaded_and_traced(target, tmp_path):
    engine = tw.compile(str(zoo.model_path("dqn")), target="opencl", cache_dir=tmp_path)
    values = seeded_inputs(engine.inputs, 2)
    before = engine.run(values)
    engine.save(tmp_path / "dqn.tw")
    loaded = tw.Executable.load(tmp_path / "dqn.tw")
    after, spans = loaded.trace(values)
    assert spans
    for name, expected in before.items():
        assert (after[name] == expected).all()
