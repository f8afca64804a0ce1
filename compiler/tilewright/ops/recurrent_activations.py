"""The activation functions that recurrent cells may use, as NumPy functions and as graph nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import VerifyError
from tilewright.graph.ir import Value
from tilewright.ops.elementwise import sigmoid
from tilewright.ops.operator import Attr, Attrs, Builder


@dataclass(frozen=True)
class Activation:
    """name: as in KINDS; alpha, beta: its parameters, without effect where it has none."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0

    def numeric(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(KINDS[self.name].numeric(x, x.dtype.type(self.alpha), x.dtype.type(self.beta)))

    def emit(self, build: Builder, x: Value) -> Value:
        return KINDS[self.name].emit(build, x, self.alpha, self.beta)


@dataclass(frozen=True)
class Kind:
    """alpha, beta: defaults of the parameters that the function has."""

    numeric: Callable[[np.ndarray, Any, Any], Any]
    emit: Callable[[Builder, Value, float, float], Value]
    alpha: float | None = None
    beta: float | None = None


ATTRS = {
    "activations": Attr("str", ""),
    "alphas": Attr("floats", ()),
    "betas": Attr("floats", ()),
    "clip": Attr("float", 0.0),
}


def activations_of(
    name: str, attrs: Attrs, default: Sequence[str], directions: int
) -> list[list[Activation]]:
    """The activations of each direction.

    `activations` lists names separated by blanks, those of one direction after those of another; empty for
    the defaults. `alphas` and `betas` hold one number for each, or are empty for the defaults. Raises
    VerifyError.
    """
    names = attrs["activations"].split() or list(default) * directions
    count = len(default)
    if len(names) != count * directions:
        raise VerifyError(f"{name}: {len(names)} activations for {directions} directions of {count}")
    unknown = [n for n in names if n not in KINDS]
    if unknown:
        raise VerifyError(f"{name}: activation '{unknown[0]}' is unknown, expected one of {', '.join(KINDS)}")
    numbers = {}
    for key, found in (("alpha", attrs["alphas"]), ("beta", attrs["betas"])):
        numbers[key] = tuple(found) or tuple(getattr(KINDS[n], key) or 0.0 for n in names)
        if len(numbers[key]) != len(names):
            raise VerifyError(f"{name}: {len(found)} {key}s for {len(names)} activations")
    every = [Activation(*parts) for parts in zip(names, numbers["alpha"], numbers["beta"], strict=True)]
    return [every[start : start + count] for start in range(0, len(every), count)]


def clipped(x: np.ndarray, clip: float) -> np.ndarray:
    """x limited to [-clip, clip]; 0 means no limit."""
    return np.clip(x, -x.dtype.type(clip), x.dtype.type(clip)) if clip else x


def emit_clipped(build: Builder, x: Value, clip: float) -> Value:
    """The node of `clipped`."""
    return build.op("Clip", x, _number(build, x, -clip), _number(build, x, clip)) if clip else x


def _number(build: Builder, like: Value, number: float) -> Value:
    return build.constant(np.asarray(number, like.dtype.numpy), "number")


def _plain(op: str) -> Callable[[Builder, Value, float, float], Value]:
    return lambda build, x, alpha, beta: build.op(op, x)


def _affine(build: Builder, x: Value, alpha: float, beta: float) -> Value:
    return build.op("Add", build.op("Mul", x, _number(build, x, alpha)), _number(build, x, beta))


def _thresholded(build: Builder, x: Value, alpha: float, _: float) -> Value:
    above = build.op("GreaterOrEqual", x, _number(build, x, alpha))
    return build.op("Where", above, x, _number(build, x, 0))


def _scaled_tanh(build: Builder, x: Value, alpha: float, beta: float) -> Value:
    inner = build.op("Tanh", build.op("Mul", x, _number(build, x, beta)))
    return build.op("Mul", inner, _number(build, x, alpha))


def _softsign(build: Builder, x: Value, _: float, __: float) -> Value:
    return build.op("Div", x, build.op("Add", build.op("Abs", x), _number(build, x, 1)))


KINDS = {
    "relu": Kind(lambda x, a, b: np.maximum(x, 0), _plain("Relu")),
    "tanh": Kind(lambda x, a, b: np.tanh(x), _plain("Tanh")),
    "sigmoid": Kind(lambda x, a, b: sigmoid(x), _plain("Sigmoid")),
    "affine": Kind(lambda x, a, b: a * x + b, _affine, 1.0, 0.0),
    "leakyrelu": Kind(
        lambda x, a, b: np.where(x < 0, a * x, x),
        lambda build, x, alpha, beta: build.op("LeakyRelu", x, alpha=alpha),
        0.01,
    ),
    "thresholdedrelu": Kind(lambda x, a, b: np.where(x >= a, x, x.dtype.type(0)), _thresholded, 1.0),
    "scaledtanh": Kind(lambda x, a, b: a * np.tanh(b * x), _scaled_tanh, 1.0, 1.0),
    "hardsigmoid": Kind(
        lambda x, a, b: np.clip(a * x + b, x.dtype.type(0), x.dtype.type(1)),
        lambda build, x, alpha, beta: build.op("HardSigmoid", x, alpha=alpha, beta=beta),
        0.2,
        0.5,
    ),
    "elu": Kind(
        lambda x, a, b: np.where(x < 0, a * np.expm1(x), x),
        lambda build, x, alpha, beta: build.op("Elu", x, alpha=alpha),
        1.0,
    ),
    "softsign": Kind(lambda x, a, b: x / (1 + np.abs(x)), _softsign),
    "softplus": Kind(lambda x, a, b: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), _plain("Softplus")),
}
