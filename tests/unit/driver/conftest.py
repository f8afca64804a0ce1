"""The small model, an input and its result."""

import numpy as np
import pytest
from small_model import make_model


@pytest.fixture
def model(tmp_path):
    return make_model(tmp_path / "small.onnx")


@pytest.fixture
def x():
    return np.array([[1, -2, 3], [0.5, 0, -1]], np.float32)


@pytest.fixture
def expected(x):
    w = np.arange(12, dtype=np.float64).reshape(3, 4) - 5
    return np.maximum(x.astype(np.float64) @ w + np.linspace(-1, 1, 4, dtype=np.float32), 0)
