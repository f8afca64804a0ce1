"""Small nodes of GRU, RNN and the variants of LSTM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from case import HALVES, Case, loose, normal

HIDDEN, STEPS, BATCH, FEATURES = 3, 4, 2, 5
NEAR: dict[str, float] = {"rtol": 1e-4, "atol": 1e-5}


def _operands(gates: int, count: int, dtype: Any = np.float32) -> list[np.ndarray]:
    return [
        normal(STEPS, BATCH, FEATURES, dtype=dtype),
        normal(count, gates * HIDDEN, FEATURES, seed=1, dtype=dtype),
        normal(count, gates * HIDDEN, HIDDEN, seed=2, dtype=dtype),
        normal(count, 2 * gates * HIDDEN, seed=3, dtype=dtype),
    ]


def recurrent_cases() -> Iterator[Case]:
    lens = np.array([2, 4], np.int32)
    variants = [("RNN", 1, {}), ("GRU", 3, {}), ("GRU", 3, {"linear_before_reset": True})]
    for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        attrs: dict[str, Any] = {"hidden_size": HIDDEN, "direction": direction}
        state = normal(count, BATCH, HIDDEN, seed=4)
        for op, gates, extra in variants:
            x, w, r, b = _operands(gates, count)
            for rest in ([], [b], [b, lens], [None, lens, state], [b, None, state]):
                yield Case(op, [x, w, r, *rest], attrs | extra, **NEAR)
            yield Case(op, [x, w, r, b], attrs | extra | {"clip": 0.3}, **NEAR)
    attrs = {"hidden_size": HIDDEN}
    for op, gates, extra in variants:
        for dtype in HALVES:
            yield Case(op, list(_operands(gates, 1, dtype)), attrs | extra, **loose(dtype))
    for dtype in HALVES:
        yield Case("LSTM", list(_operands(4, 1, dtype)), attrs, **loose(dtype))
    for name in ("relu", "affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"):
        custom = {"activations": name, "alphas": (0.3,), "betas": (0.6,), "clip": 1.5}
        yield Case("RNN", list(_operands(1, 1)), attrs | custom, **NEAR)
    for name in ("softsign", "softplus", "sigmoid", "elu"):
        yield Case("RNN", list(_operands(1, 1)), attrs | {"activations": name, "clip": 1.5}, **NEAR)
    for name, more in (("relu tanh", {}), ("affine scaledtanh", {"alphas": (0.3, 0.8), "betas": (0.6, 1.2)})):
        wide = {"hidden_size": 2, "activations": name, "clip": 2.0}
        x, w, r, b = normal(3, 2, 4), normal(1, 6, 4, seed=1), normal(1, 6, 2, seed=2), normal(1, 12, seed=3)
        yield Case("GRU", [x, w, r, b], wide | more, **NEAR)
    x, w, r = normal(3, 2, 4), normal(1, 8, 4, seed=1), normal(1, 8, 2, seed=2)
    graded = {"activations": "hardsigmoid elu leakyrelu", "alphas": (0.1, 0.9, 0.2), "betas": (0.4, 0.0, 0.0)}
    yield Case("LSTM", [x, w, r], {"hidden_size": 2} | graded, **NEAR)
    yield Case("RNN", [x, w[:, :2], r[:, :2]], {"hidden_size": 2}, **NEAR)
    peepholes = [None, None, None, normal(1, 3 * HIDDEN, seed=6)]
    yield Case("LSTM", [*_operands(4, 1), *peepholes], attrs | {"clip": 0.4}, **NEAR)
    yield Case("LSTM", [*_operands(4, 1), *peepholes], attrs | {"input_forget": True}, **NEAR)
    names = "hardsigmoid relu tanh sigmoid softsign elu"
    both = {"activations": names, "direction": "bidirectional", "clip": 2.0}
    yield Case("LSTM", list(_operands(4, 2)), attrs | both, **NEAR)
