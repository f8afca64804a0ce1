"""Steps that move elements: every result is a selection of the operand's."""

from __future__ import annotations

import numpy as np

from fuzz.drawing import Drawing, Tensor


def any_tensor(d: Drawing, least_rank: int = 0) -> Tensor | None:
    return d.pick(lambda t: t.rank >= least_rank and t.dtype != "bool")


def transpose(d: Drawing) -> None:
    x = any_tensor(d, 1)
    if x is None:
        return
    perm = d.random.sample(range(x.rank), x.rank)
    d.one("Transpose", x, results=[(x.dtype, [x.shape[a] for a in perm])], exact=True, perm=perm)


def reshape(d: Drawing) -> None:
    x = any_tensor(d)
    if x is None or x.size == 0:
        return
    rest, shape = x.size, []
    for _ in range(d.between(0 if x.size == 1 else 1, 4) - 1):
        factor = d.among([k for k in range(1, 40) if rest % k == 0])
        shape.append(factor)
        rest //= factor
    if shape or rest > 1 or d.chance(0.5):
        shape.append(rest)
    d.random.shuffle(shape)
    target = list(shape)
    if target and d.chance(0.4):
        target[d.between(0, len(target) - 1)] = -1
    d.one("Reshape", x, d.integers(target), results=[(x.dtype, shape)], exact=True, magnitude=x.magnitude)


def flatten(d: Drawing) -> None:
    x = any_tensor(d)
    if x is None:
        return
    axis = d.between(0, x.rank)
    shape = [np.prod(x.shape[:axis], dtype=int), np.prod(x.shape[axis:], dtype=int)]
    d.one("Flatten", x, results=[(x.dtype, shape)], exact=True, axis=axis)


def unsqueeze(d: Drawing) -> None:
    x = d.pick(lambda t: t.rank < 5)
    if x is None:
        return
    axis = d.between(0, x.rank)
    shape = [*x.shape[:axis], 1, *x.shape[axis:]]
    name = axis if d.chance(0.7) else axis - x.rank - 1
    d.one("Unsqueeze", x, d.integers([name]), results=[(x.dtype, shape)], exact=True, magnitude=x.magnitude)


def squeeze(d: Drawing) -> None:
    x = d.pick(lambda t: 1 in t.shape)
    if x is None:
        return
    axis = d.among([a for a, size in enumerate(x.shape) if size == 1])
    shape = [*x.shape[:axis], *x.shape[axis + 1 :]]
    d.one("Squeeze", x, d.integers([axis]), results=[(x.dtype, shape)], exact=True, magnitude=x.magnitude)


def cut(d: Drawing) -> None:
    """Slice, forwards and backwards, with any step; bounds may be negative or beyond the end."""
    x = any_tensor(d, 1)
    if x is None:
        return
    axes = sorted(d.random.sample(range(x.rank), d.between(1, x.rank)))
    shape, starts, ends, steps = list(x.shape), [], [], []
    for axis in axes:
        size = x.shape[axis]
        step = d.among((1, 1, 1, 2, 3, -1, -2))
        first = d.between(0, max(0, size - 1))
        last = d.between(first, size)
        taken = (
            range(size)[first:last:step]
            if step > 0
            else range(size)[last : (first - 1 if first else None) : step]
        )
        shape[axis] = len(taken)
        if step > 0:
            starts.append(first if d.chance(0.5) or first == 0 else first - size)
            ends.append(last if last < size or d.chance(0.5) else 2**31)
        else:
            starts.append(last)
            ends.append(first - 1 if first else -size - 1)
        steps.append(step)
    named = [a if d.chance(0.7) else a - x.rank for a in axes]
    operands = [d.integers(v) for v in (starts, ends, named, steps)]
    d.one("Slice", x, *operands, results=[(x.dtype, shape)], exact=True, magnitude=x.magnitude)


def pad(d: Drawing) -> None:
    x = d.pick(
        lambda t: t.dtype in ("float32", "float64", "int32", "int64") and t.rank >= 1 and t.size <= 4000
    )
    if x is None:
        return
    mode = d.among(("constant", "constant", "reflect", "edge"))
    if mode != "constant" and min(x.shape) < 3:
        mode = "constant"
    low = -1 if mode == "constant" and min(x.shape) >= 3 and d.chance(0.3) else 0
    begins, ends = ([d.among((0, 0, 1, 2, low)) for _ in x.shape] for _ in range(2))
    shape = [b + size + e for b, size, e in zip(begins, x.shape, ends, strict=True)]
    value = d.constant(np.asarray(1, x.dtype)) if mode == "constant" and d.chance(0.4) else None
    pads = d.integers([*begins, *ends])
    d.one("Pad", x, pads, value, results=[(x.dtype, shape)], exact=True, magnitude=x.magnitude, mode=mode)


def concat(d: Drawing) -> None:
    x = any_tensor(d, 1)
    if x is None:
        return
    axis = d.between(0, x.rank - 1)
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    parts = [x]
    for _ in range(d.between(0, 2)):
        other = d.pick(
            lambda t: (
                t.dtype == x.dtype and t.rank == x.rank and (*t.shape[:axis], *t.shape[axis + 1 :]) == rest
            )
        )
        if other is None or d.chance(0.3):
            other = d.weights(
                x.dtype, [*x.shape[:axis], d.between(0 if d.chance(0.1) else 1, 4), *x.shape[axis + 1 :]]
            )
        parts.append(other)
    d.random.shuffle(parts)
    shape = [*x.shape[:axis], sum(p.shape[axis] for p in parts), *x.shape[axis + 1 :]]
    if np.prod(shape) <= 20000:
        d.one(
            "Concat",
            *parts,
            results=[(x.dtype, shape)],
            exact=True,
            axis=axis if d.chance(0.7) else axis - x.rank,
        )


def split(d: Drawing) -> None:
    x = any_tensor(d, 1)
    if x is None:
        return
    axis = d.between(0, x.rank - 1)
    size = x.shape[axis]
    if size < 2:
        return
    first = d.between(1, size - 1)
    sizes = [first, size - first]
    results = [(x.dtype, [*x.shape[:axis], s, *x.shape[axis + 1 :]]) for s in sizes]
    d.node("Split", [x, d.integers(sizes)], results, exact=True, magnitude=x.magnitude, axis=axis)


def tile(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype != "bool" and 1 <= t.rank <= 4 and t.size <= 500)
    if x is None:
        return
    repeats = [d.among((1, 1, 2, 3)) for _ in x.shape]
    shape = [size * n for size, n in zip(x.shape, repeats, strict=True)]
    d.one("Tile", x, d.integers(repeats), results=[(x.dtype, shape)], exact=True, magnitude=x.magnitude)


def expand(d: Drawing) -> None:
    x = d.pick(lambda t: t.rank <= 4 and t.size <= 500)
    if x is None:
        return
    shape = [d.among((1, 2, 3)) if size == 1 else d.among((size, 1)) for size in x.shape]
    shape = [d.among((2, 3)), *shape] if x.rank < 4 and d.chance(0.3) else shape
    full = np.broadcast_shapes(x.shape, shape)
    d.one("Expand", x, d.integers(shape), results=[(x.dtype, full)], exact=True, magnitude=x.magnitude)


def indices(d: Drawing, size: int, shape: tuple[int, ...]) -> Tensor:
    """Valid indices of an axis, negative ones among them: a constant or an input."""
    array = d.numbers.integers(-size, size, shape).astype(d.among(("int64", "int32")))
    if d.chance(0.6):
        return d.constant(array)
    tensor = d.input(array.dtype.name, shape)
    d.tensors.remove(tensor)  # nothing else may be computed from it that is drawn as an ordinary value
    d.feeds[tensor.name] = array
    return tensor


def gather(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype != "bool" and 1 <= t.rank <= 4 and t.size > 0)
    if x is None:
        return
    axis = d.between(0, x.rank - 1)
    if d.chance(0.3):
        shape = tuple(
            d.between(1, min(4, s)) if a != axis else d.between(1, 5) for a, s in enumerate(x.shape)
        )
        index = indices(d, x.shape[axis], shape)
        d.one(
            "GatherElements",
            x,
            index,
            results=[(x.dtype, shape)],
            exact=True,
            magnitude=x.magnitude,
            axis=axis,
        )
        return
    wanted = tuple(d.between(1, 4) for _ in range(d.between(0, 2)))
    shape = (*x.shape[:axis], *wanted, *x.shape[axis + 1 :])
    if np.prod(shape) > 20000 or len(shape) > 5:
        return
    index = indices(d, x.shape[axis], wanted)
    d.one("Gather", x, index, results=[(x.dtype, shape)], exact=True, magnitude=x.magnitude, axis=axis)


def blocks(d: Drawing) -> None:
    """DepthToSpace and SpaceToDepth."""
    x = d.pick(lambda t: t.dtype == "float32" and t.rank == 4 and t.size > 0)
    if x is None:
        return
    n, c, h, w = x.shape
    if c % 4 == 0:
        mode = d.among(("DCR", "CRD"))
        d.one(
            "DepthToSpace",
            x,
            results=[(x.dtype, (n, c // 4, h * 2, w * 2))],
            exact=True,
            blocksize=2,
            mode=mode,
        )
    elif h % 2 == 0 and w % 2 == 0:
        d.one("SpaceToDepth", x, results=[(x.dtype, (n, c * 4, h // 2, w // 2))], exact=True, blocksize=2)


def triangle(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype in ("float32", "float64", "int64") and t.rank >= 2)
    if x is not None and d.opset >= 14:
        k = d.integers(d.between(-2, 2)) if d.chance(0.5) else None
        d.one("Trilu", x, k, exact=True, magnitude=x.magnitude, upper=d.between(0, 1))


DRAWS = (
    (transpose, 3), (reshape, 3), (flatten, 1), (unsqueeze, 1), (squeeze, 1), (cut, 2), (pad, 2), (concat, 2),
    (split, 1), (tile, 1), (expand, 1), (gather, 2), (blocks, 1), (triangle, 0.5),
)  # fmt: skip
