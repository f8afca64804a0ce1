"""The zoo keeps its contracts: fp32 at -O0 and -O3, on one and two threads; fp32-fast; bf16."""

import numpy as np
import pytest
from contract import assert_contract, relative_error, seeded_inputs

import tilewright as tw
from tilewright_datasets import zoo
from tilewright_datasets.images import decode, open_dataset
from tilewright_datasets.preprocess import preprocess

SEEDS = (1, 2, 3)
BF16_LIMIT, BF16_FACTOR = 1e-2, 1.2  # the latter of the error of OpenVINO's own bf16


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
def test_cpu_in_bf16(name, tmp_path):
    openvino = pytest.importorskip("openvino", reason="the extra 'peers' is not installed")
    path = str(zoo.model_path(name))
    peer = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "bf16"})
    if peer.get_property("INFERENCE_PRECISION_HINT").get_type_name() != "bf16":
        pytest.skip("OpenVINO has no bf16 on this machine")
    engine = tw.compile(path, precision="bf16", threads=1, cache_dir=tmp_path)
    errors, peers = [], []
    for feeds in inputs(name, engine):
        ours, theirs = engine.run(feeds), peer(feeds)
        for position, (output, exact) in enumerate(tw.evaluate(path, feeds).items()):
            errors.append(relative_error(ours[output], exact))
            peers.append(relative_error(theirs[position], exact))
    assert max(errors) <= max(BF16_LIMIT, BF16_FACTOR * max(peers))


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
