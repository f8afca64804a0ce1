"""Small nodes of attention and of the Fourier transform."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from case import HALVES, Case, flags, loose, normal

from tilewright import dtypes

NEAR: dict[str, float] = {"rtol": 1e-4, "atol": 1e-5}


def attention_cases() -> Iterator[Case]:
    scale = {"scale": 0.4}
    for heads, groups in ((4, 4), (4, 2), (4, 1)):
        q, k, v = normal(2, heads, 3, 5), normal(2, groups, 6, 5, seed=1), normal(2, groups, 6, 2, seed=2)
        yield Case("Attention", [q, k, v], scale, **NEAR)
        yield Case("Attention", [q, k, v], {"scale": 1.5}, **NEAR)
        bias, allowed = normal(2, heads, 3, 6, seed=3), flags(3, 6)
        allowed[1] = False
        for rest in ([bias], [bias, allowed], [None, allowed], [None, flags(2, 1, 3, 6)], [normal(6)]):
            for capture in ("none", "raw", "capped", "biased", "probabilities"):
                attrs = scale | {"softcap": 2.0, "capture": capture}
                yield Case("Attention", [q, k, v, *rest], attrs, **NEAR)
    masked = np.full((3, 6), -np.inf, np.float32)
    masked[0] = 0
    yield Case("Attention", [q, k, v, masked], scale, **NEAR)
    yield Case("Attention", [q, k, v], scale | {"precision": dtypes.F64}, **NEAR)
    for dtype in HALVES:
        operands = [normal(1, 2, 3, 4, seed=s, dtype=dtype) for s in range(3)]
        yield Case("Attention", list(operands), scale, **loose(dtype))


def linear_attention_cases() -> Iterator[Case]:
    for heads, groups in ((4, 2), (2, 2)):
        attrs = {"q_num_heads": heads, "kv_num_heads": groups}
        q, k, v = normal(2, 3, heads * 4), normal(2, 3, groups * 4, seed=1), normal(2, 3, groups * 5, seed=2)
        past = normal(2, groups, 4, 5, seed=3)
        decays = [-np.abs(normal(2, 3, n, seed=4)) for n in (groups, groups * 4)]
        betas = [normal(2, 3, n, seed=5) for n in (groups, 1)]
        cases: list[tuple[str, list[Any]]] = [("linear", []), ("linear", [past])]
        for decay in decays:
            cases += [("gated", [None, decay]), ("gated_delta", [past, decay, betas[0]])]
        cases += [("delta", [None, None, beta]) for beta in betas]
        for rule, rest in cases:
            yield Case("LinearAttention", [q, k, v, *rest], attrs | {"update_rule": rule}, **NEAR)
    half = [normal(1, 2, 4, seed=s, dtype=np.float16) for s in range(3)]
    one = {"q_num_heads": 1, "kv_num_heads": 1, "update_rule": "linear", "scale": 0.7}
    yield Case("LinearAttention", [*half], one, **loose(np.float16))
    yield Case("LinearAttention", [*half, normal(1, 1, 4, 4, seed=3)], one, **loose(np.float16))


def transform_cases() -> Iterator[Case]:
    flags_of = [(i, o) for i in (False, True) for o in (False, True)]
    for inverse, onesided in flags_of:
        attrs = {"inverse": inverse, "onesided": onesided}
        parts = 2 if inverse else 1
        for n in (1, 2, 5, 8, 64, 96, 130):
            length = 2 * (n - 1) if inverse and onesided else n
            if length:
                more = attrs | {"axis": 1, "length": length}
                yield Case("DFT", [normal(2, n, parts)], more, rtol=1e-4, atol=3e-5)
        for length in (3, 7, 12):
            for axis in (0, 1, 2):
                more = attrs | {"axis": axis, "length": length}
                yield Case("DFT", [normal(4, 5, 3, parts)], more, rtol=1e-4, atol=1e-5)
        yield Case("DFT", [normal(0, 5, parts)], attrs | {"axis": 1, "length": 5})
    for inverse in (False, True):
        more = {"axis": 0, "length": 100, "inverse": inverse}
        yield Case("DFT", [normal(100, 2)], more, rtol=1e-4, atol=3e-5)
        yield Case("DFT", [normal(51, 1)], more | {"onesided": True}, rtol=1e-4, atol=3e-5)
    for dtype in HALVES:
        yield Case("DFT", [normal(1, 8, 1, dtype=dtype)], {"axis": 1, "length": 8}, rtol=0.01, atol=0.01)
