"""Every operator's cases on the embedded device, one program an operator."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
import tilewright.ops.all
from tilewright.dtypes import DType
from tilewright.graph.ir import Function, Module
from tilewright.ops.operator import REGISTRY, Builder
from tilewright.types import TensorType

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "ops"))
from operator_cases import Case, all_cases

CASES = {op: list(cases) for op, cases in groupby(sorted(all_cases(), key=lambda c: c.op), lambda c: c.op)}


def program_of(cases: list[Case]) -> tuple[Module, dict[str, np.ndarray]]:
    """All cases side by side in one function; output `y3.0` is result 0 of case 3."""
    function, feeds = Function("main"), {}
    builder = Builder(function)
    for number, case in enumerate(cases):
        operands = []
        for position, array in enumerate(case.operands):
            if array is None:
                operands.append(None)
                continue
            name = f"x{number}.{position}"
            feeds[name] = np.ascontiguousarray(array).reshape(array.shape)
            operands.append(function.add_input(name, TensorType(DType.of(array.dtype), array.shape)))
        results = builder.ops(case.op, *operands, **case.attrs)
        if case.op == "Pack":  # a function's result is read in plain order
            results = [builder.op("Unpack", results[0])]
        function.outputs += results
        function.output_names += [f"y{number}.{i}" for i in range(len(results))]
    return Module({"main": function}), feeds


@pytest.mark.parametrize("op", sorted(CASES))
def test_operator(target, op, tmp_path):
    module, feeds = program_of(CASES[op])
    engine = tw.compile(module, target="opencl", opt_level=0, cache_dir=tmp_path)
    found = engine.run(feeds)
    for number, case in enumerate(CASES[op]):
        for index, expected in enumerate(REGISTRY[op].evaluate(case.operands, case.attrs)):
            result = found[f"y{number}.{index}"]
            if expected.dtype.kind in "iub":
                np.testing.assert_array_equal(result, expected, str(case))
            else:
                wide = expected.astype(np.float64)
                np.testing.assert_allclose(
                    result.astype(np.float64), wide, case.rtol, case.atol, err_msg=str(case)
                )
