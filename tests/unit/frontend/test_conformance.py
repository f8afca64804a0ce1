"""ONNX's own node tests for every operator that the front end reads."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tilewright.errors import ImportModelError
from tilewright.frontend.registry import TABLE

Run = Callable[..., dict[str, np.ndarray]]

SUPPORTED = {op for op, _ in TABLE}

# Refusals that are ours to give; anything else a test model is refused for is a fault.
EXPECTED = (
    "is not supported",
    "only tensors are supported",
    "is old: convert it",
    "'Indices' is used",
    "export the model for inference",
    "floating-point operands need fmod",
    "must be known when the model is read",
    "has element type bool",
    "there is nothing to reduce",
)

# Two last places: the expected values were rounded after every operation, ours once.
TOLERANCE = {"bfloat16": 2**-6, "float16": 2**-9}

# Random numbers are another generator's: ONNX leaves them open.
RANDOM = ("test_bernoulli_seed", "test_bernoulli_seed_expanded")


@functools.cache
def cases() -> list[tuple[str, onnx.ModelProto, list[Any]]]:
    from onnx.backend.test.case.node import collect_testcases

    found = []
    for case in collect_testcases(None):
        assert case.model is not None
        if case.name in RANDOM:
            continue
        if all(node.op_type in SUPPORTED for node in case.model.graph.node):
            found.append((case.name, case.model, list(case.data_sets or ())))
    return found


def _array(data: object) -> np.ndarray:
    return numpy_helper.to_array(data) if isinstance(data, onnx.TensorProto) else np.asarray(data)


def _bind_integers(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> onnx.ModelProto:
    """Shape operands that the tests pass as inputs become initializers."""
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    for name, array in inputs.items():
        if array.dtype.kind in "iub":
            bound.graph.initializer.append(numpy_helper.from_array(array, name))
    return bound


def _wide(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind in "iub" else array.astype(np.float64)


@pytest.mark.filterwarnings("ignore")
def test_node_cases(run: Run) -> None:
    passed, faults = 0, []
    for name, original, data_sets in cases():
        for given, wanted in data_sets:
            inputs = {v.name: _array(a) for v, a in zip(original.graph.input, given, strict=False)}
            model = original
            try:
                try:
                    got = run(model, inputs)
                except ImportModelError as error:
                    if "must be known" not in str(error):
                        raise
                    got = run(_bind_integers(model, inputs), inputs)
                for info, data in zip(model.graph.output, wanted, strict=True):
                    expected = _array(data)
                    assert got[info.name].dtype == expected.dtype
                    rtol = TOLERANCE.get(expected.dtype.name, 1e-3)
                    np.testing.assert_allclose(_wide(got[info.name]), _wide(expected), rtol, atol=1e-5)
                passed += 1
            except ImportModelError as error:
                if not any(text in str(error) for text in EXPECTED):
                    faults.append(f"{name}: {error}")
            except Exception as error:
                faults.append(f"{name}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)
    assert passed > 600
