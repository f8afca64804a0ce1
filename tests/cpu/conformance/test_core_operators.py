"""A part of the public suite that is run always: what most models are made of, compiled and with NumPy."""

import pytest

from tilewright.cli.conformance.cases import load_cases
from tilewright.cli.conformance.outcome import run_case

CORE = (
    r"^test_(add|sub|mul|div|relu|sigmoid|tanh|exp|sqrt|clip|max|min|where|pow|erf|gelu_default_1|cast_FLOAT_to_"
    r"DOUBLE|basic_conv|conv_with|basic_deform|convtranspose|averagepool_2d|maxpool_2d|globalaverage|batchnorm|"
    r"gemm|matmul|softmax_axis|softmax_def|layer_normalization_2d|reduce_sum|reduce_mean|argmax|concat_2d|slice|"
    r"gather_[01]|reshape|transpose|flatten|squeeze|unsqueeze|expand|pad|constant_pad|split_equal|tile|resize_up|"
    r"resize_down|lstm|gru|cumsum|top_k|range)"
)


def core():
    return [case for case in load_cases(["node"], CORE) if case.tensor and "expanded" not in case.name][::2]


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_core_operators_pass(target, cache_dir):
    options = {"target": target, "threads": 1, "cache_dir": cache_dir}
    cases = core()
    assert len(cases) > 120
    wrong = {case.name: outcome.reason for case in cases if (outcome := run_case(case, options)).reason}
    assert not wrong
