"""Operators that make tensors out of nothing: identity matrices, random numbers.

Random numbers need a seed: they follow from it and from their position, so that every run and every target
gives the same ones. Without a seed the model asks for numbers that nobody can repeat, which is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import pi, prod

import numpy as np

from tilewright.dtypes import F32, I32, I64, DType
from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.frontend.tensors import element_type, type_name
from tilewright.graph.ir import Value

# Larger matrices stay computed: a model file cannot make the reader allocate without bound.
_LARGEST = 1 << 16


def _wanted(site: Site, default: DType) -> DType:
    """The element type that attribute `dtype` names."""
    if "dtype" not in site.attributes:
        return default
    dtype = element_type(site.attr("dtype"))
    if dtype is None:
        raise site.fail(f"element type {type_name(site.attr('dtype'))} is not supported")
    return dtype


def _cast(site: Site, x: Value, dtype: DType) -> Value:
    return x if x.dtype == dtype else site.emit("Cast", x, to=dtype)


@importer("EyeLike", 9, 22)
def eye_like(site: Site) -> Sequence[Value]:
    """Only the operand's shape and element type count."""
    x = site.operand(0)
    dtype, k = _wanted(site, x.dtype), site.attr("k", 0)
    if len(x.shape) != 2:
        raise site.fail(f"it needs a matrix, found {x.type}")
    if prod(x.shape) <= _LARGEST:
        return [site.constant(np.eye(*x.shape, k=k).astype(dtype.numpy))]
    ones = site.emit("Expand", site.constant(np.ones((), dtype.numpy)), shape=x.shape)
    diagonal = site.constant(np.array(k, np.int64))
    above = site.emit("Trilu", ones, diagonal, upper=True)
    return [site.emit("Trilu", above, diagonal, upper=False)]


def refuse_unseeded(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Numbers that differ from run to run."""
    if "seed" not in attributes:
        yield "without attribute 'seed' it is not supported: nobody could repeat its numbers"


def _uniform(site: Site, shape: Sequence[int], stream: int = 0) -> Value:
    """Numbers in [0, 1); stream: distinct numbers of one node."""
    seed = int(np.array(site.attributes["seed"], np.float32).view(np.uint32))
    return site.emit("RandomUniform", shape=tuple(shape), seed=(seed + stream * 0x85EBCA6B) % 2**32)


def _positive(site: Site, x: Value) -> Value:
    """[0, 1) moved to (0, 1], of which there is a logarithm."""
    return site.emit("Sub", site.scalar(1.0, x), x)


def _shape_and_type(site: Site) -> tuple[tuple[int, ...], DType]:
    if site.op.endswith("Like"):
        x = site.operand(0)
        return x.shape, _wanted(site, x.dtype)
    return tuple(site.attr("shape")), _wanted(site, F32)


@importer("RandomUniform", 1, 22, refuse=refuse_unseeded)
@importer("RandomUniformLike", 1, 22, refuse=refuse_unseeded)
def random_uniform(site: Site) -> Sequence[Value]:
    shape, dtype = _shape_and_type(site)
    low, high = site.attr("low", 0.0), site.attr("high", 1.0)
    numbers = _uniform(site, shape)
    scaled = site.emit("Mul", numbers, site.scalar(high - low, numbers))
    return [_cast(site, site.emit("Add", scaled, site.scalar(low, numbers)), dtype)]


@importer("RandomNormal", 1, 22, refuse=refuse_unseeded)
@importer("RandomNormalLike", 1, 22, refuse=refuse_unseeded)
def random_normal(site: Site) -> Sequence[Value]:
    """Box and Muller: sqrt(-2 log u) cos(2 pi v)."""
    shape, dtype = _shape_and_type(site)
    u, v = _positive(site, _uniform(site, shape)), _uniform(site, shape, 1)
    square = site.emit("Mul", site.emit("Log", u), site.scalar(-2.0, u))
    turn = site.emit("Cos", site.emit("Mul", v, site.scalar(2 * pi, v)))
    normal = site.emit("Mul", site.emit("Sqrt", square), turn)
    scaled = site.emit("Mul", normal, site.scalar(site.attr("scale", 1.0), u))
    return [_cast(site, site.emit("Add", scaled, site.scalar(site.attr("mean", 0.0), u)), dtype)]


@importer("Bernoulli", 15, 22, refuse=refuse_unseeded)
def bernoulli(site: Site) -> Sequence[Value]:
    """1 with the probability that the operand holds."""
    p = site.operand(0)
    drawn = site.emit("Less", _uniform(site, p.shape), _cast(site, p, F32))
    return [_cast(site, drawn, _wanted(site, p.dtype))]


@importer("Multinomial", 7, 22, refuse=refuse_unseeded)
def multinomial(site: Site) -> Sequence[Value]:
    """Draws a class from each row of log probabilities: the largest of them with Gumbel noise added."""
    x, count = site.operand(0), site.attr("sample_size", 1)
    dtype = _wanted(site, I32)
    if len(x.shape) != 2 or dtype not in (I32, I64):
        raise site.fail(f"it draws indices (i32 or i64) from a matrix, found {dtype} from {x.type}")
    batch, classes = x.shape
    u = _positive(site, _uniform(site, (batch, count, classes)))
    noise = site.emit("Neg", site.emit("Log", site.emit("Neg", site.emit("Log", u))))
    scores = site.emit("Add", site.reshape(_cast(site, x, F32), (batch, 1, classes)), noise)
    return [_cast(site, site.emit("ArgMax", scores, axis=2, keepdims=False), dtype)]
