"""A device of its own for the tests of the runtime, installed like any other: through an entry point."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tilewright.runtime.package import Package
from tilewright.segment import Port, Segment

DEVICE = '''
import numpy as np
from tilewright.errors import ArtefactError

class Scaler:
    """Every output is the sum of all inputs, scaled by the segment's first constant."""

    name = "scaler"

    def load(self, segment, threads):
        if "wings" in segment.features:
            raise ArtefactError("this machine lacks the feature wings")
        assert segment.code == b"scale"
        return Loaded(segment)

class Loaded:
    def __init__(self, segment):
        self.scale = segment.constants.view(np.float32)[0]

    def run(self, inputs, outputs):
        assert all(array.flags.c_contiguous for array in (*inputs, *outputs))
        for output in outputs:
            output[...] = sum(inputs) * self.scale
'''


@pytest.fixture(scope="session")
def device_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / "scaler_device.py").write_text(DEVICE)
    meta = folder / "scaler-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: scaler\nVersion: 1.0\n")
    (meta / "entry_points.txt").write_text("[tilewright.devices]\nscaler = scaler_device:Scaler\n")
    return folder


@pytest.fixture(autouse=True)
def _installed(device_folder, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(device_folder), *sys.path])


def segment(inputs=("x",), outputs=("y",), scale=3.0, features=()) -> Segment:
    takes, gives = (tuple(Port(n, "f32", (2, 3), 0) for n in names) for names in (inputs, outputs))
    constants = np.full(5000, scale, np.float32).view(np.uint8)
    return Segment("scaler", b"scale", constants, takes, gives, 64, 128, features, {"kernels": []})


@pytest.fixture
def package() -> Package:
    return Package("m" * 64, "scaler", (segment(),), ("x",), ("y",), {"tilewright": "0"}, {"level": 3})


@pytest.fixture
def chain() -> Package:
    """Two segments: h = 3 * (a + b), then y = 2 * (h + a)."""
    first, second = segment(("a", "b"), ("h",)), segment(("h", "a"), ("y",), 2.0)
    return Package("", "scaler", (first, second), ("a", "b"), ("y",))


@pytest.fixture
def needy() -> Package:
    return Package("", "scaler", (segment(features=("wings",)),), ("x",), ("y",))
