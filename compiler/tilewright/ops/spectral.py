"""The discrete Fourier transform: products with small matrices of roots of unity (Cooley and Tukey)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tilewright.errors import VerifyError
from tilewright.graph.ir import Node, Value
from tilewright.ops.declaration import FLOATS, attributes, operator, required, wide
from tilewright.ops.operator import Attr, Attrs, Builder, Operand
from tilewright.ops.through_float32 import through_float32
from tilewright.types import TensorType

# A transform of at most this length is one product with a matrix.
DIRECT = 64
# The largest prime factor of a length: it needs a matrix with the square of it.
LARGEST_PRIME = 2048


def _infer(types: Sequence[TensorType | None], attrs: Attrs) -> tuple[TensorType, ...]:
    x, axis, length = required(types, 0), attrs["axis"], attrs["length"]
    if x.rank < 2 or x.shape[-1] not in (1, 2):
        raise VerifyError(f"DFT: shape {list(x.shape)} does not end in 1 (real) or 2 (real, imaginary)")
    if not 0 <= axis < x.rank - 1:
        raise VerifyError(f"DFT: axis {axis} does not fit the signal axes of rank {x.rank - 1}")
    if length < 1:
        raise VerifyError(f"DFT: length is {length}, expected at least 1")
    if max(_factors(length)) > LARGEST_PRIME:
        raise VerifyError(
            f"DFT: length {length} has a prime factor beyond {LARGEST_PRIME}; use another dft_length"
        )
    half = attrs["onesided"] and not attrs["inverse"]
    count = length // 2 + 1 if half else length
    parts = 1 if attrs["onesided"] and attrs["inverse"] else 2
    return (TensorType(x.dtype, (*x.shape[:axis], count, *x.shape[axis + 1 : -1], parts)),)


def _factors(length: int) -> list[int]:
    """Prime factors, smallest first; [1] of 1."""
    found, divisor = [], 2
    while divisor * divisor <= length:
        while length % divisor == 0:
            found.append(divisor)
            length //= divisor
        divisor += 1
    return [*found, length] if length > 1 or not found else found


def _evaluate(arrays: Sequence[np.ndarray | None], attrs: Attrs) -> tuple[np.ndarray, ...]:
    x, axis, length = required(arrays, 0), attrs["axis"], attrs["length"]
    work = x.astype(wide(x.dtype), copy=False)
    signal = work[..., 0] + (1j * work[..., 1] if x.shape[-1] == 2 else 0)
    if attrs["inverse"] and attrs["onesided"]:
        real = np.fft.irfft(signal, n=length, axis=axis)
        return (real[..., np.newaxis].astype(x.dtype),)
    transform = np.fft.ifft if attrs["inverse"] else np.fft.fft
    result = transform(signal, n=length, axis=axis)
    if attrs["onesided"]:
        result = np.take(result, range(length // 2 + 1), axis=axis)
    return (np.stack([result.real, result.imag], axis=-1).astype(x.dtype),)


def _lower(build: Builder, node: Node) -> tuple[Value, ...]:
    """The axis is brought to the end, cut or filled with zeros to the length, transformed, and taken back."""
    attrs = attributes(node)
    x, axis, length = node.operand(0), attrs["axis"], attrs["length"]
    rank, parts = x.type.rank, x.shape[-1]
    inverse, onesided = bool(attrs["inverse"]), bool(attrs["onesided"])
    order = (*(a for a in range(rank - 1) if a != axis), axis, rank - 1)
    moved = build.op("Transpose", x, perm=order)
    others = moved.shape[:-2]
    rows = prod(others)
    signal = build.op("Reshape", moved, shape=(rows, x.shape[axis], parts))
    if inverse and onesided:
        signal = _resized(build, signal, length // 2 + 1)
        result = _real_inverse(build, signal, length)
    else:
        signal = _resized(build, signal, length)
        result = _transform(build, signal, inverse)
        if onesided:
            result = _resized(build, result, length // 2 + 1)
    shaped = build.op("Reshape", result, shape=(*others, *result.shape[1:]))
    back = tuple(order.index(a) for a in range(rank))
    return (build.op("Transpose", shaped, perm=back),)


def _resized(build: Builder, x: Value, length: int) -> Value:
    """[M, n, c] as [M, length, c]: cut at the end, or filled with zeros."""
    missing = length - x.shape[1]
    return x if not missing else build.op("Pad", x, pads=(0, 0, 0, 0, missing, 0))


def _transform(build: Builder, x: Value, inverse: bool) -> Value:
    """[M, N, c] -> [M, N, 2]."""
    rows, length, parts = x.shape
    first = _split(length)
    if first is None:
        return _product(build, x, _matrix(length, parts, inverse), length, 2)
    second = length // first
    # x[second n1 + n2]: a transform over n1, a turn by k1 n2 / N, a transform over n2; k = k1 + first k2.
    grid = build.op("Reshape", x, shape=(rows, first, second, parts))
    columns = build.op("Transpose", grid, perm=(0, 2, 1, 3))
    flat = build.op("Reshape", columns, shape=(rows * second, first, parts))
    inner = build.op("Reshape", _transform(build, flat, inverse), shape=(rows, second, first, 2))
    turned = _turned(build, inner, first, second, inverse)
    lines = build.op("Transpose", turned, perm=(0, 2, 1, 3))
    flat = build.op("Reshape", lines, shape=(rows * first, second, 2))
    outer = build.op("Reshape", _transform(build, flat, inverse), shape=(rows, first, second, 2))
    ordered = build.op("Transpose", outer, perm=(0, 2, 1, 3))
    return build.op("Reshape", ordered, shape=(rows, length, 2))


def _split(length: int) -> int | None:
    """The factor of the length that is nearest to its square root; None when one product will do."""
    if length <= DIRECT:
        return None
    divisors = [d for d in range(2, int(length**0.5) + 1) if length % d == 0]
    return divisors[-1] if divisors else None


def _roots(numerators: np.ndarray, length: int, inverse: bool) -> np.ndarray:
    """exp(-2 pi i n / length), or its conjugate; numerators are reduced first: exact angles."""
    sign = 2j if inverse else -2j
    return np.asarray(np.exp(sign * np.pi * (numerators % length) / length))


def _matrix(length: int, parts: int, inverse: bool) -> np.ndarray:
    """[N * parts, N * 2]: real and imaginary parts of the input to those of the result."""
    roots = _roots(np.outer(np.arange(length), np.arange(length)), length, inverse)
    if inverse:
        roots = roots / length
    blocks = np.zeros((length, parts, length, 2))
    blocks[:, 0, :, 0], blocks[:, 0, :, 1] = roots.real, roots.imag
    if parts == 2:
        blocks[:, 1, :, 0], blocks[:, 1, :, 1] = -roots.imag, roots.real
    return blocks.reshape(length * parts, length * 2)


def _product(build: Builder, x: Value, matrix: np.ndarray, length: int, parts: int) -> Value:
    rows = x.shape[0]
    flat = build.op("Reshape", x, shape=(rows, matrix.shape[0]))
    roots = build.constant(matrix.astype(x.dtype.numpy), "roots")
    return build.op("Reshape", build.op("MatMul", flat, roots), shape=(rows, length, parts))


def _turned(build: Builder, x: Value, first: int, second: int, inverse: bool) -> Value:
    """[M, n2, k1, 2] times the roots of k1 n2 / N, as x c + swapped(x) s."""
    roots = _roots(np.outer(np.arange(second), np.arange(first)), first * second, inverse)
    cosine = roots.real[..., np.newaxis].astype(x.dtype.numpy)
    sine = np.stack([-roots.imag, roots.imag], axis=-1).astype(x.dtype.numpy)
    swapped = build.op(
        "Slice",
        x,
        starts=(0, 0, 0, 1),
        ends=(*x.shape[:3], -1),
        axes=(0, 1, 2, 3),
        steps=(1, 1, 1, -1),
    )
    kept = build.op("Mul", x, build.constant(cosine, "cosine"))
    return build.op("Add", kept, build.op("Mul", swapped, build.constant(sine, "sine")))


def _real_inverse(build: Builder, x: Value, length: int) -> Value:
    """[M, N // 2 + 1, c] -> the real signal [M, N, 1]: the other half is the conjugate of this one."""
    rows, bins, parts = x.shape
    if _split(length) is None:
        return _product(build, x, _real_matrix(length, bins, parts), length, 1)
    if parts == 1:
        x = build.op("Pad", x, pads=(0, 0, 0, 0, 0, 1))
    # The imaginary parts of bins 0 and N / 2 do not count.
    mask = np.ones((bins, 2), x.dtype.numpy)
    mask[0, 1] = 0
    if length % 2 == 0:
        mask[-1, 1] = 0
    x = build.op("Mul", x, build.constant(mask, "mask"))
    mirrored = build.op(
        "Slice",
        x,
        starts=(0, (length - 1) // 2, 0),
        ends=(rows, 0, 2),
        axes=(0, 1, 2),
        steps=(1, -1, 1),
    )
    conjugate = build.constant(np.array([1, -1], x.dtype.numpy), "conjugate")
    whole = build.op("Concat", x, build.op("Mul", mirrored, conjugate), axis=1)
    return build.ops("Split", _transform(build, whole, True), axis=2, sizes=(1, 1))[0]


def _real_matrix(length: int, bins: int, parts: int) -> np.ndarray:
    """[bins * parts, N]: bins between the first and the middle one count twice."""
    roots = _roots(np.outer(np.arange(bins), np.arange(length)), length, True) / length
    twice = np.full((bins, 1), 2.0)
    twice[0] = 1
    if length % 2 == 0:
        twice[-1] = 1
    blocks = np.zeros((bins, parts, length))
    blocks[:, 0] = roots.real * twice
    if parts == 2:
        blocks[:, 1] = np.where(twice == 1, 0, -roots.imag * twice)
    return blocks.reshape(bins * parts, length)


operator(
    "DFT",
    "discrete Fourier transform of `length` along a signal axis; the last axis: real and imaginary parts",
    [Operand("x", FLOATS)],
    [Operand("y", FLOATS)],
    _infer,
    _evaluate,
    {
        "axis": Attr("int", required=True),
        "length": Attr("int", required=True),
        "inverse": Attr("bool", False),
        "onesided": Attr("bool", False),
    },
    lower=through_float32(_lower),
)
