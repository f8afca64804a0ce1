"""Linear attention: a state of one matrix for each key head, updated token by token."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from tilewright.dtypes import F64
from tilewright.errors import VerifyError
from tilewright.graph.ir import Function, Node, Value
from tilewright.ops.control import scan
from tilewright.ops.declaration import FLOATS, attributes, operator, required, wide
from tilewright.ops.operator import Attr, Attrs, Builder, Operand
from tilewright.ops.through_float32 import through_float32
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]
RULES = {  # which of decay and beta a rule reads
    "linear": (False, False),
    "gated": (True, False),
    "delta": (False, True),
    "gated_delta": (True, True),
}


def _infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    name = "LinearAttention"
    q, k, v = (required(types, index) for index in range(3))
    heads, groups = attrs["q_num_heads"], attrs["kv_num_heads"]
    if attrs["update_rule"] not in RULES:
        raise VerifyError(f"{name}: rule '{attrs['update_rule']}' is unknown, expected {', '.join(RULES)}")
    if groups < 1 or heads < 1 or heads % groups:
        raise VerifyError(f"{name}: {heads} query heads for {groups} key heads")
    if any(t.rank != 3 or t.dtype != q.dtype or t.shape[:2] != q.shape[:2] for t in (q, k, v)):
        raise VerifyError(f"{name}: {q}, {k} and {v} are not batch, steps, features of one type")
    batch, steps, _ = q.shape
    if q.shape[2] % heads or k.shape[2] % groups or v.shape[2] % groups:
        raise VerifyError(f"{name}: features {q.shape[2]}, {k.shape[2]}, {v.shape[2]} do not fall into heads")
    width, depth = k.shape[2] // groups, v.shape[2] // groups
    if q.shape[2] // heads != width:
        raise VerifyError(f"{name}: queries have {q.shape[2] // heads} features a head, keys {width}")
    state = (batch, groups, width, depth)
    wanted: dict[int, tuple[str, list[tuple[int, ...]]]] = {
        3: ("past_state", [state]),
        4: ("decay", [(batch, steps, groups * width), (batch, steps, groups)]),
        5: ("beta", [(batch, steps, groups), (batch, steps, 1)]),
    }
    for index, (operand, shapes) in wanted.items():
        type = types[index]
        if type is not None and type.shape not in shapes:
            raise VerifyError(f"{name}: {operand} has shape {list(type.shape)}, expected {list(shapes[0])}")
    for index, needed in zip((4, 5), RULES[attrs["update_rule"]], strict=True):
        if (types[index] is not None) != needed:
            has = "needs" if needed else "does not take"
            raise VerifyError(f"{name}: rule '{attrs['update_rule']}' {has} {wanted[index][0]}")
    past = types[3]
    if past is not None and F64 in (past.dtype, q.dtype) and past.dtype != q.dtype:
        raise VerifyError(f"{name}: past_state is {past}, queries are {q}")
    result = TensorType(q.dtype, (batch, steps, heads * depth))
    return (result, TensorType(q.dtype if past is None else past.dtype, state))


def _scale(attrs: Attrs, width: int) -> float:
    return float(attrs["scale"]) or 1 / sqrt(max(1, width))


def _evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    q, k, v = (required(arrays, index) for index in range(3))
    work = wide(q.dtype)
    heads, groups = attrs["q_num_heads"], attrs["kv_num_heads"]
    batch, steps, _ = q.shape
    width, depth = k.shape[2] // groups, v.shape[2] // groups
    past, decay, beta = (None if a is None else a.astype(work) for a in arrays[3:6])
    queries = q.astype(work).reshape(batch, steps, groups, heads // groups, width)
    keys = k.astype(work).reshape(batch, steps, groups, 1, width)
    values = v.astype(work).reshape(batch, steps, groups, 1, depth)
    state = np.zeros((batch, groups, width, depth), work) if past is None else past
    y = np.zeros((batch, steps, groups, heads // groups, depth), work)
    for t in range(steps):
        value = values[:, t]
        if decay is not None:
            state = state * np.exp(decay[:, t].reshape(batch, groups, -1, 1))
        if beta is not None:
            value = beta[:, t].reshape(batch, -1, 1, 1) * (value - keys[:, t] @ state)
        state = state + keys[:, t].swapaxes(2, 3) * value
        y[:, t] = (queries[:, t] @ state) * work.type(_scale(attrs, width))
    result = y.reshape(batch, steps, heads * depth).astype(q.dtype, copy=False)
    return (result, state.astype(q.dtype if arrays[3] is None else arrays[3].dtype, copy=False))


def _lower(build: Builder, node: Node) -> tuple[Value, ...]:
    """A Scan over the steps, whose state is [B, G, D, E] for G key heads."""
    attrs = attributes(node)
    q, k, v = (node.operand(index) for index in range(3))
    past, decay, beta = [*node.inputs[3:], None, None, None][:3]
    heads, groups = attrs["q_num_heads"], attrs["kv_num_heads"]
    batch, steps, _ = q.shape
    state = node.outputs[1].shape
    width, depth = state[2:]

    def by_step(value: Value, *shape: int) -> Value:
        split = build.op("Reshape", value, shape=(batch, steps, *shape))
        return build.op("Transpose", split, perm=(1, 0, *range(2, 2 + len(shape))))

    factor = build.constant(np.asarray(_scale(attrs, width), q.dtype.numpy), "scale")
    scans = {
        "q": by_step(build.op("Mul", q, factor), groups, heads // groups, width),
        "k": by_step(k, groups, 1, width),
        "v": by_step(v, groups, 1, depth),
    }
    if decay is not None:
        scans["decay"] = by_step(build.op("Exp", decay), groups, decay.shape[2] // groups, 1)
    if beta is not None:
        scans["beta"] = by_step(beta, beta.shape[2], 1, 1)
    initial = past or build.constant(np.zeros(state, q.dtype.numpy), "state")
    body = _step(initial.type, {name: value.type for name, value in scans.items()})
    final, y = scan(build, body, [initial], list(scans.values()))
    turned = build.op("Transpose", y, perm=(1, 0, 2, 3, 4))
    return (build.op("Reshape", turned, shape=node.outputs[0].shape), final)


def _step(state: TensorType, scans: dict[str, TensorType]) -> Function:
    """(state, q, k, v, decay?, beta?) of one token -> (state, y)."""
    body = Function("linear_attention_step")
    before = body.add_input("state", state)
    given = {name: body.add_input(name, TensorType(t.dtype, t.shape[1:])) for name, t in scans.items()}
    build = Builder(body)
    value: Value = given["v"]
    kept: Value = before
    if "decay" in given:
        kept = build.op("Mul", before, given["decay"])
    if "beta" in given:
        known = build.op("MatMul", given["k"], kept)
        value = build.op("Mul", build.op("Sub", value, known), given["beta"])
    column = build.op("Transpose", given["k"], perm=(0, 1, 3, 2))
    after = build.op("Add", kept, build.op("Mul", column, value))
    body.outputs = [after, build.op("MatMul", given["q"], after)]
    body.output_names = ["state", "y"]
    return body


operator(
    "LinearAttention",
    "state = decay state + k (beta (v - k state)), y = scale q state, token by token, as update_rule says",
    [
        Operand("q", FLOATS),
        Operand("k", FLOATS),
        Operand("v", FLOATS),
        Operand("past_state", FLOATS, optional=True),
        Operand("decay", FLOATS, optional=True),
        Operand("beta", FLOATS, optional=True),
    ],
    [Operand("y", FLOATS), Operand("state", FLOATS)],
    _infer,
    _evaluate,
    {
        "q_num_heads": Attr("int", required=True),
        "kv_num_heads": Attr("int", required=True),
        "scale": Attr("float", 0.0),
        "update_rule": Attr("str", "gated_delta"),
    },
    lower=through_float32(_lower),
)
