"""Steps that go element by element."""

from __future__ import annotations

import numpy as np

from fuzz.drawing import INTEGERS, Drawing, Tensor

SMOOTH = {  # by operator: attributes to draw from
    "Relu": {}, "LeakyRelu": {"alpha": (0.01, 0.5)}, "Elu": {"alpha": (1.0, 0.5)}, "Selu": {}, "Celu": {},
    "Sigmoid": {}, "Tanh": {}, "Softplus": {}, "Softsign": {}, "HardSigmoid": {"alpha": (0.2, 0.5)},
    "HardSwish": {}, "Erf": {}, "Abs": {}, "Neg": {}, "Identity": {}, "Sin": {}, "Cos": {}, "Atan": {},
    "Asinh": {},
}  # fmt: skip
BOUNDED = {"Sigmoid", "Tanh", "Softsign", "HardSigmoid", "Erf", "Sin", "Cos"}
EXACT = {"Relu", "Abs", "Neg", "Identity"}
STEPS = ("Floor", "Ceil", "Round", "Sign")  # only behind exact values: elsewhere rounding decides the side
SMALL = {"int8", "uint8"}  # arithmetic on them came with opset 14


def unary(d: Drawing) -> None:
    x = d.pick(lambda t: t.is_float)
    if x is None:
        return
    if x.exact and d.chance(0.3):
        d.one(d.among(STEPS), x, exact=True)
        return
    missing = {"HardSwish"} if d.opset < 14 else set()
    missing |= {"Celu"} if x.dtype != "float32" else set()
    old = [op for op in SMOOTH if op not in missing]
    op = d.among([*old, *(("Mish",) if d.opset >= 18 else ()), *(("Gelu",) if d.opset >= 20 else ())])
    if op == "HardSwish" and x.dtype == "float64":
        op = "Softsign"  # ONNX Runtime takes the sixth in it from float32
    x = d.tame(x) if op in ("Sin", "Cos") else x
    attributes = {name: d.among(values) for name, values in SMOOTH.get(op, {}).items() if d.chance(0.5)}
    if op == "Gelu" and d.chance(0.5):
        attributes["approximate"] = "tanh"
    d.one(op, x, exact=op in EXACT, magnitude=1.0 if op in BOUNDED else None, **attributes)


def guarded(d: Drawing) -> None:
    """Functions that need their operand in a range, which a step before them sees to."""
    x = d.pick(lambda t: t.is_float)
    if x is None:
        return
    op = d.among(("Exp", "Log", "Sqrt", "Reciprocal", "Pow", "Div"))
    if op == "Exp":
        d.one("Exp", d.tame(x, 8.0), magnitude=3000.0 if x.magnitude <= 8 else 3.0)
        return
    half = d.constant(np.asarray(0.5, x.dtype))
    positive = d.one("Add", d.one("Abs", x, exact=True), half)
    if op == "Pow":
        base = d.tame(positive, 8.0)
        base = base if base is positive else d.one("Add", base, half)
        exponent = d.constant(np.asarray(d.among((2.0, 0.5, -1.0, 3.0, 1.5)), x.dtype))
        d.one("Pow", base, exponent, magnitude=600.0)
    elif op == "Div":
        other = d.pick(lambda t: t.dtype == x.dtype and t.shape == x.shape) or x
        d.one("Div", other, positive, magnitude=2 * other.magnitude)
    else:
        d.one(op, positive, magnitude=max(2.0, positive.magnitude if op == "Sqrt" else 5.0))


def partner(d: Drawing, x: Tensor) -> Tensor:
    """A tensor that broadcasts with x: one of the graph, or a new one of a smaller or larger shape."""

    def fits(t: Tensor) -> bool:
        pairs = list(zip(t.shape[::-1], x.shape[::-1], strict=False))
        size = np.prod([max(a, b) for a, b in pairs], dtype=np.int64)
        return t.dtype == x.dtype and size < 20000 and all(a == b or 1 in (a, b) for a, b in pairs)

    other = d.pick(fits)
    if (
        other is not None
        and len(broadcast(other, x)) <= 5
        and np.prod(broadcast(other, x)) <= 20000
        and d.chance(0.6)
    ):
        return other
    shape = [size if d.chance(0.6) else 1 for size in x.shape]
    if d.chance(0.6):
        shape = shape[d.between(0, len(shape)) :]
    elif len(shape) < 4 and x.size < 2000 and d.chance(0.3):
        shape = [d.among((1, 2, 3)), *shape]
    return d.weights(x.dtype, shape)


def broadcast(a: Tensor, b: Tensor) -> tuple[int, ...]:
    return np.broadcast_shapes(a.shape, b.shape)


def binary(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype != "bool" and (d.opset >= 14 or t.dtype not in SMALL))
    if x is None:
        return
    y = partner(d, x)
    shape = broadcast(x, y)
    x, y = (y, x) if d.chance(0.5) else (x, y)
    if x.is_float:
        op = d.among(("Add", "Sub", "Mul", "Add", "Mul", "Max", "Min"))
    else:
        op = d.among(("Add", "Sub", "Mul", *(("Max", "Min") if x.dtype in INTEGERS else ())))
    if op == "Mul" and x.is_float:
        x, y = d.tame(x), d.tame(y)
    magnitude = x.magnitude * y.magnitude if op == "Mul" else x.magnitude + y.magnitude
    result = d.one(op, x, y, results=[(x.dtype, shape)], exact=op in ("Max", "Min"), magnitude=magnitude)
    if op == "Add" and d.chance(0.3) and result.is_float:
        d.one("Relu", result)


def several(d: Drawing) -> None:
    """Sum, Mean, Max and Min of up to four operands."""
    x = d.pick(lambda t: t.is_float)
    if x is None:
        return
    others = [partner(d, x) for _ in range(d.between(0, 2))]
    shape = x.shape
    kept = [x]
    for other in others:
        if all(a == b or 1 in (a, b) for a, b in zip(other.shape[::-1], shape[::-1], strict=False)):
            shape = np.broadcast_shapes(shape, other.shape)
            kept.append(other)
    if np.prod(shape) > 20000:
        return
    op = d.among(("Sum", "Mean", "Max", "Min"))
    magnitude = sum(t.magnitude for t in kept)
    d.one(op, *kept, results=[(x.dtype, shape)], exact=op in ("Max", "Min"), magnitude=magnitude)


def integer(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype in INTEGERS)
    if x is None:
        x = d.input(d.among(INTEGERS), d.dims(d.between(0, 4)))
    op = d.among(("Div", "Mod", "Abs", "Neg", "BitShift", "BitwiseAnd", "BitwiseXor", "Sign"))
    if op == "Div" and x.dtype in SMALL and d.opset < 14:
        op = "Mod"
    if op in ("BitwiseAnd", "BitwiseXor") and d.opset < 18:
        op = "Mod"
    if op == "BitShift":
        if x.dtype != "uint8":
            return
        amount = d.constant(np.asarray(d.between(0, 7), x.dtype))
        d.one("BitShift", x, amount, direction=d.among(("LEFT", "RIGHT")), magnitude=255.0)
    elif op in ("Div", "Mod"):
        divisor = d.constant(np.asarray(d.among((1, 2, 3, 5, 7)), x.dtype))
        d.one(op, x, divisor, **({"fmod": 1} if op == "Mod" and d.chance(0.5) else {}))
    elif op in ("BitwiseAnd", "BitwiseXor"):
        d.one(op, x, d.weights(x.dtype, x.shape))
    elif not (op == "Neg" and x.dtype == "uint8"):
        d.one(op, x)


def comparison(d: Drawing) -> None:
    x = d.pick(lambda t: t.exact and t.dtype != "bool")
    if x is None:
        return
    same = d.pick(lambda t: t.exact and t.dtype == x.dtype and t.shape == x.shape)
    y = same if same is not None and same is not x else d.constant(d.values(x.dtype, x.shape[-1:]))
    op = d.among(("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"))
    d.one(op, x, y, results=[("bool", broadcast(x, y))])


def logical(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype == "bool")
    if x is None:
        x = d.input("bool", d.dims(d.between(0, 3)))
    if d.chance(0.4):
        d.one("Not", x)
        return
    y = d.weights("bool", [size if d.chance(0.7) else 1 for size in x.shape])
    d.one(d.among(("And", "Or", "Xor")), x, y, results=[("bool", broadcast(x, y))])


def where(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype in ("float32", "int64", "int32", "uint8"))
    if x is None:
        return
    condition = d.pick(lambda t: t.dtype == "bool" and t.shape == x.shape)
    if condition is None:
        condition = d.weights("bool", [size if d.chance(0.6) else 1 for size in x.shape])
    y = partner(d, x)
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    if np.prod(shape) <= 20000:
        d.one("Where", condition, x, y, results=[(x.dtype, shape)], exact=True)


def cast(d: Drawing) -> None:
    """To every type that can hold the values; to integers only what is exact."""
    x = d.pick(lambda t: t.magnitude <= 120)
    if x is None:
        return
    options = ["float32", "float64"]
    options += ["float16"] if x.dtype in ("float32", "bool", "int32", "float16") else []
    if x.exact:
        options += ["int64", "int32", "int8", "bool"] if x.dtype != "int64" else ["int32", "bool"]
        options += ["uint8"] if x.dtype == "bool" else []
    to = d.among(options)
    code = {
        "float32": 1,
        "uint8": 2,
        "int8": 3,
        "int32": 6,
        "int64": 7,
        "bool": 9,
        "float16": 10,
        "float64": 11,
    }
    d.one("Cast", x, results=[(to, x.shape)], exact=True, to=code[to])


def clip(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype in ("float32", "float64", "int32", "int64"))
    if x is None:
        return
    low = d.constant(np.asarray(-1, x.dtype)) if d.chance(0.7) else None
    high = d.constant(np.asarray(2, x.dtype)) if d.chance(0.7) else None
    d.one("Clip", x, low, high, exact=True)


def prelu(d: Drawing) -> None:
    x = d.pick(lambda t: t.dtype == "float32" and t.rank >= 1)
    if x is None:
        return
    slope = [size if d.chance(0.6) else 1 for size in x.shape][d.between(0, x.rank) :]
    d.one("PRelu", x, d.weights(x.dtype, slope), magnitude=4 * x.magnitude)


DRAWS = (
    (unary, 5), (guarded, 2), (binary, 6), (several, 1), (integer, 1), (comparison, 1), (logical, 1),
    (where, 1), (cast, 1), (clip, 1), (prelu, 1),
)  # fmt: skip
