"""Whole networks on the CPU target, within the fp32 contract; the whole zoo is in tests/slow."""

import numpy as np
import pytest
from contract import assert_contract, seeded_inputs

import tilewright as tw
from tilewright_datasets import zoo


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ["dqn", "dcgan"])
def test_every_level_keeps_the_contract(name, level, tmp_path):
    path = str(zoo.model_path(name))
    engine = tw.compile(path, opt_level=level, threads=2, cache_dir=tmp_path, verify_each=True)
    values = seeded_inputs(engine.inputs, 1)
    assert_contract(path, [values], {f"-O{level}": engine.run})


@pytest.mark.parametrize("name", ["resnet18", "squeezenet1_1", "mobilenet_v2", "lstm_lm"])
def test_the_default_level_keeps_the_contract(name, tmp_path):
    path = str(zoo.model_path(name))
    engines = {n: tw.compile(path, threads=n, cache_dir=tmp_path) for n in (1, 2)}
    values = seeded_inputs(engines[1].inputs, 1)
    assert_contract(path, [values], {f"{n} threads": engine.run for n, engine in engines.items()})
    one, two = (engine.run(values) for engine in engines.values())
    for output in one:
        np.testing.assert_array_equal(one[output], two[output])


@pytest.mark.parametrize(
    "without", ["fusion", "storage", "packing", "winograd", "direct", "direct+packing", "direct+storage"]
)
def test_ablations_compute_the_same(without, tmp_path):
    path = str(zoo.model_path("dqn"))
    parts = without.split("+")
    engines = {n: tw.compile(path, without=parts, threads=n, cache_dir=tmp_path) for n in (1, 2)}
    values = seeded_inputs(engines[1].inputs, 1)
    assert_contract(path, [values], {f"without {without}, {n} threads": e.run for n, e in engines.items()})


@pytest.mark.parametrize("without", ["packing", "direct"])
def test_ablations_of_layouts_keep_a_deeper_network_within_the_contract(without, tmp_path):
    path = str(zoo.model_path("squeezenet1_1"))
    engine = tw.compile(path, without=(without,), threads=2, cache_dir=tmp_path)
    values = seeded_inputs(engine.inputs, 1)
    assert_contract(path, [values], {f"without {without}": engine.run})
