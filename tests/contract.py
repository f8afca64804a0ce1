"""The precision contracts, as tests hold engines to them (docs/precision.md)."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnxruntime as ort

import tilewright as tw

LIMIT = 2e-6  # relative L2 error against float64
FACTOR = 1.5  # of ONNX Runtime's own error, where that is larger


def relative_error(result: np.ndarray, reference: np.ndarray) -> float:
    """L2 norm of the difference over L2 norm of the reference."""
    norm = float(np.linalg.norm(reference))
    return float(np.linalg.norm(result.astype(np.float64) - reference)) / (norm or 1.0)


def onnxruntime_session(path: str) -> ort.InferenceSession:
    """One thread, so that concurrent tests do not fight."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def seeded_inputs(ports: tuple, seed: int) -> dict[str, np.ndarray]:
    """Normal numbers for floats, small non-negative numbers for integers."""
    rng = np.random.default_rng(seed)
    return {
        p.name: rng.standard_normal(p.shape).astype(p.dtype)
        if np.dtype(p.dtype).kind == "f"
        else rng.integers(0, 1000, p.shape).astype(p.dtype)
        for p in ports
    }


Engine = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


def assert_contract(
    path: str,
    inputs: Sequence[Mapping[str, np.ndarray]],
    engines: Mapping[str, Engine],
    allowed: float | None = None,
) -> None:
    """Every engine's every output within the contract; of several inputs the worst counts, on both sides.

    allowed: relative error of another mode than fp32, whatever ONNX Runtime's is.
    """
    session = onnxruntime_session(path)
    names = [output.name for output in session.get_outputs()]
    worst: dict[tuple[str, str], float] = {}
    for feeds in inputs:
        reference = tw.evaluate(path, feeds)
        results = {label: engine(feeds) for label, engine in engines.items()}
        results["ONNX Runtime"] = dict(zip(names, session.run(None, dict(feeds)), strict=True))
        for label, outputs in results.items():
            for name, expected in reference.items():
                error = relative_error(outputs[name], expected)
                worst[label, name] = max(error, worst.get((label, name), 0.0))
    for label, name in worst:
        limit = max(LIMIT, FACTOR * worst["ONNX Runtime", name]) if allowed is None else allowed
        error = worst[label, name]
        assert error <= limit, f"{label}: '{name}' has relative error {error:.2e}, allowed are {limit:.2e}"
