"""The whole public suite, as `tilewright conformance` runs it, with the numbers that must be reached."""

import json

import pytest

from tilewright.cli.main import load_commands
from tilewright.cli.main import run as command

WANTED = {"numpy": 1640, "cpu": 1640, "opencl": 1450}
MODELS = ("simple", "pytorch-converted", "pytorch-operator")


def run(tmp_path, target, kinds):
    load_commands()
    file = tmp_path / "results.json"
    options = [option for kind in kinds for option in ("--kind", kind)]
    command(["conformance", "--target", target, *options, "--json", str(file), "-q"])
    return json.loads(file.read_text())


@pytest.mark.parametrize("target", WANTED)
def test_tensor_cases(tmp_path, target):
    if target == "opencl":
        pytest.importorskip("pyopencl", reason="OpenCL is not installed")
    found = run(tmp_path, target, ["node"])
    faults = [
        (case["name"], case["reason"]) for case in found["cases"] if "the process died" in case["reason"]
    ]
    assert not faults
    assert not [case["name"] for case in found["cases"] if case["reason"].startswith("no result after")]
    assert found["totals"]["tensor"]["passed"] >= WANTED[target]


def test_whole_models(tmp_path):
    found = run(tmp_path, "cpu", MODELS)
    counts = found["totals"]["tensor"]
    assert counts["passed"] >= 0.95 * sum(found["totals"]["all"].values())
