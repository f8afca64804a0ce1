"""The zoo keeps its contracts: fp32 at -O0 and -O3, one and two threads; fp32-fast; seeds, a real image."""

import numpy as np
import pytest
from contract import assert_contract, seeded_inputs

import tilewright as tw
from tilewright_datasets import zoo
from tilewright_datasets.images import decode, open_dataset
from tilewright_datasets.preprocess import preprocess

SEEDS = (1, 2, 3)


def real_inputs(name: str) -> dict[str, np.ndarray] | None:
    """The first packaged image, preprocessed for the model; None for models that take no image."""
    spec = zoo.preprocess_spec(name)
    if spec is None:
        return None
    image = decode(next(iter(open_dataset("foolbox"))))
    return {"data": preprocess(image, spec)}


def inputs(name: str, engine: tw.Executable) -> list[dict[str, np.ndarray]]:
    """Three seeds, and a real image where the model takes one."""
    real = real_inputs(name)
    return [*(seeded_inputs(engine.inputs, seed) for seed in SEEDS), *([real] if real else [])]


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("name", zoo.model_names())
def test_cpu(name, level, tmp_path):
    path = str(zoo.model_path(name))
    engines = {n: tw.compile(path, opt_level=level, threads=n, cache_dir=tmp_path) for n in (1, 2)}
    assert_contract(path, inputs(name, engines[1]), {f"{n} threads": e.run for n, e in engines.items()})


@pytest.mark.parametrize("name", zoo.model_names())
def test_cpu_in_fp32_fast(name, tmp_path):
    path = str(zoo.model_path(name))
    engine = tw.compile(path, precision="fp32-fast", threads=1, cache_dir=tmp_path)
    assert_contract(path, inputs(name, engine), {"fp32-fast": engine.run}, tw.PRECISIONS["fp32-fast"])


@pytest.mark.parametrize("name", zoo.model_names())
def test_numpy(name):
    path = str(zoo.model_path(name))
    engine = tw.compile(path, target="numpy")
    assert_contract(path, inputs(name, engine), {"numpy": engine.run})


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "squeezenet1_1"])
def test_opencl(name):
    pytest.importorskip("pyopencl", reason="the extra 'opencl' is not installed")
    path = str(zoo.model_path(name))
    engine = tw.compile(path, target="opencl")
    assert_contract(path, inputs(name, engine), {"opencl": engine.run})
