"""Fourier transforms, windows and mel weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import log

import numpy as np

from tilewright.dtypes import F64
from tilewright.frontend.registry import Attributes, Reader, importer
from tilewright.frontend.site import Site
from tilewright.frontend.tensors import element_type, type_name
from tilewright.graph.ir import Value

# A model file cannot make the reader allocate without bound.
_LARGEST = 1 << 22


def _single(site: Site, index: int) -> int:
    """A shape operand of one integer."""
    numbers = site.ints(index)
    if len(numbers) != 1:
        raise site.fail(f"operand {index} must be one integer, it is {list(numbers)}")
    return numbers[0]


@importer("DFT", 17, 20)
def dft(site: Site) -> Sequence[Value]:
    """The axis became an operand in opset 20, and its default the last signal axis."""
    x = site.operand(0)
    rank = len(x.shape)
    if site.since < 20:
        axis = site.axis(rank, 1)
    else:
        axis = site.normal_axis(_single(site, 2) if site.has(2) else -2, rank)
    if axis == rank - 1:
        raise site.fail("the last axis holds real and imaginary parts and cannot be transformed")
    inverse, onesided = site.flag("inverse"), site.flag("onesided")
    length = x.shape[axis]
    if inverse and onesided:
        length = 2 * (length - 1)
    if site.has(1):
        length = _single(site, 1)
    return [site.emit("DFT", x, axis=axis, length=length, inverse=inverse, onesided=onesided)]


@importer("STFT", 17)
def stft(site: Site) -> Sequence[Value]:
    """Frames are gathered, weighted by the window, and transformed."""
    x, window = site.operand(0), site.optional(2)
    step = _single(site, 1)
    length = x.shape[1] if window is None else window.shape[0]
    length = _single(site, 3) if site.has(3) else length
    if len(x.shape) != 3 or step < 1 or not 1 <= length <= x.shape[1]:
        raise site.fail(f"frames of {length} with step {step} do not fit a signal of type {x.type}")
    if window is not None and window.shape != (length,):
        raise site.fail(f"the window has shape {list(window.shape)}, expected [{length}]")
    frames = (x.shape[1] - length) // step + 1
    if frames * length > _LARGEST:
        raise site.fail(f"{frames} frames of {length} are too many")
    places = np.arange(frames).reshape(-1, 1) * step + np.arange(length)
    cut = site.emit("Gather", x, site.constant(places), axis=1)
    if window is not None:
        cut = site.emit("Mul", cut, site.reshape(window, (length, 1)))
    onesided = site.flag("onesided", 1)
    return [site.emit("DFT", cut, axis=2, length=length, inverse=False, onesided=onesided)]


def refuse_output(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Element types that have no counterpart."""
    code = attributes.get("output_datatype", 1)
    if element_type(code) is None:
        yield f"element type {type_name(code)} of the result is not supported"


def _window(shape: Callable[[np.ndarray], np.ndarray]) -> Reader:
    def read(site: Site) -> Sequence[Value]:
        """A constant. shape: the window at angles from 0 to 2 pi; a symmetric one ends there."""
        size = _single(site, 0)
        if not 0 <= size <= _LARGEST:
            raise site.fail(f"a window of {size} elements is not possible")
        turns = size if site.flag("periodic", 1) else size - 1
        # A symmetric window of one element is its own middle.
        values = shape(2 * np.pi * np.arange(size) / turns) if turns > 0 else np.ones(size)
        dtype = element_type(site.attr("output_datatype", 1))
        assert dtype is not None
        return [site.constant(values.astype(dtype.numpy))]

    return read


_HAMMING = 25 / 46

_WINDOWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "HannWindow": lambda a: 0.5 - 0.5 * np.cos(a),
    "HammingWindow": lambda a: _HAMMING - (1 - _HAMMING) * np.cos(a),
    "BlackmanWindow": lambda a: 0.42 - 0.5 * np.cos(a) + 0.08 * np.cos(2 * a),
}
for _op, _shape in _WINDOWS.items():
    importer(_op, 17, refuse=refuse_output)(_window(_shape))


@importer("MelWeightMatrix", 17, refuse=refuse_output)
def mel_weight_matrix(site: Site) -> Sequence[Value]:
    """Triangles on the mel scale. Only the sizes must be known; rates and edges may be computed.

    A triangle rises from its lower bin to its centre and falls to its upper bin, which is excluded.
    """
    bands, length = _single(site, 0), _single(site, 1)
    if bands < 0 or length < 0 or (bands + 2) * (length // 2 + 1) > _LARGEST:
        raise site.fail(f"{bands} bands of {length // 2 + 1} bins are not possible")
    edges = _band_edges(site, bands, length)
    lower, centre, upper = (_part(site, edges, start, bands) for start in range(3))
    bins = site.constant(np.arange(length // 2 + 1, dtype=np.float64).reshape(-1, 1))
    one, zero = site.constant(np.array(1.0)), site.constant(np.array(0.0))

    def ratio(distance: Value, width: Value) -> Value:
        """0 / 0 does not occur where the ratio is used; a width of 0 is replaced."""
        empty = site.emit("Equal", width, zero)
        return site.emit(
            "Where", empty, one, site.emit("Div", distance, site.emit("Where", empty, one, width))
        )

    def within(low: str, left: Value, high: str, right: Value) -> Value:
        return site.emit("And", site.emit(low, bins, left), site.emit(high, bins, right))

    rising = ratio(site.emit("Sub", bins, lower), site.emit("Sub", centre, lower))
    falling = ratio(site.emit("Sub", upper, bins), site.emit("Sub", upper, centre))
    left = site.emit("Where", within("GreaterOrEqual", lower, "LessOrEqual", centre), rising, zero)
    weights = site.emit("Where", within("GreaterOrEqual", centre, "Less", upper), falling, left)
    dtype = element_type(site.attr("output_datatype", 1))
    return [weights if dtype == F64 else site.emit("Cast", weights, to=dtype)]


def _band_edges(site: Site, bands: int, length: int) -> Value:
    """f64[bands + 2]: the bins at equal distances on the mel scale, mel(f) = 2595 log10(1 + f / 700)."""

    def number(value: float) -> Value:
        return site.constant(np.array(value, np.float64))

    def operand(index: int) -> Value:
        value = site.reshape(site.operand(index), ())
        return value if value.dtype == F64 else site.emit("Cast", value, to=F64)

    factor = 2595 / log(10)

    def mel(hertz: Value) -> Value:
        inner = site.emit("Add", site.emit("Div", hertz, number(700)), number(1))
        return site.emit("Mul", site.emit("Log", inner), number(factor))

    low, high = mel(operand(3)), mel(operand(4))
    step = site.emit("Div", site.emit("Sub", high, low), number(bands + 2))
    every = site.constant(np.arange(bands + 2, dtype=np.float64))
    mels = site.emit("Add", site.emit("Mul", every, step), low)
    powers = site.emit("Exp", site.emit("Div", mels, number(factor)))
    hertz = site.emit("Mul", site.emit("Sub", powers, number(1)), number(700))
    scaled = site.emit("Div", site.emit("Mul", hertz, number(length + 1)), operand(2))
    return site.emit("Floor", scaled)


def _part(site: Site, edges: Value, start: int, count: int) -> Value:
    return site.emit("Slice", edges, starts=(start,), ends=(start + count,), axes=(0,), steps=(1,))
