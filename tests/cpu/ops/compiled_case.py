"""One node, compiled for the CPU, against its NumPy meaning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from case import Case

import tilewright as tw
import tilewright.ops.all
from tilewright.dtypes import DType
from tilewright.graph.ir import Function, Module
from tilewright.ops.operator import REGISTRY, Builder
from tilewright.types import TensorType


def check_compiled(
    case: Case, cache_dir: Path, level: int = 3, threads: int = 1, without: tuple[str, ...] = ()
) -> tw.Executable:
    """Compile the node with all its operands as inputs, run it, compare every result; what was compiled."""
    function = Function("main")
    feeds = {f"operand{i}": a for i, a in enumerate(case.operands) if a is not None}
    inputs = [
        None if a is None else function.add_input(f"operand{i}", TensorType(DType.of(a.dtype), a.shape))
        for i, a in enumerate(case.operands)
    ]
    function.outputs = Builder(function).ops(case.op, *inputs, **case.attrs)
    function.output_names = [f"result{i}" for i in range(len(function.outputs))]
    module = Module({"main": function})
    engine = tw.compile(
        module, threads=threads, opt_level=level, without=without, cache_dir=cache_dir, verify_each=True
    )
    found = engine.run(feeds)
    expected = REGISTRY[case.op].evaluate(case.operands, case.attrs)
    for name, wanted in zip(function.output_names, expected, strict=True):
        got = found[name]
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype.kind in "iub":
            np.testing.assert_array_equal(got, wanted)
        else:
            a, b = got.astype(np.float64), wanted.astype(np.float64)
            np.testing.assert_allclose(a, b, case.rtol, case.atol, equal_nan=True)
    return engine
