"""Loop programs of operators, interpreted, against their NumPy meaning; index faults."""

from __future__ import annotations

import numpy as np
import pytest
from case import Case
from operator_cases import all_cases

import tilewright.ops.all  # noqa: F401  fills the registry
from tilewright.dtypes import DType
from tilewright.errors import RunError, VerifyError
from tilewright.loops.interpret import interpret
from tilewright.loops.ir import Kernel, Role
from tilewright.loops.parse import parse_kernel
from tilewright.loops.text import format_kernel
from tilewright.lower.kernel import finish_kernel
from tilewright.ops.operator import REGISTRY
from tilewright.types import TensorType

CASES = [case for case in all_cases() if REGISTRY[case.op].loops is not None]


def kernel_of(case: Case) -> Kernel:
    operator = REGISTRY[case.op]
    types = [None if a is None else TensorType(DType.of(a.dtype), a.shape) for a in case.operands]
    assert operator.loops is not None
    return finish_kernel(operator.loops(types, case.attrs, operator.infer(types, case.attrs)))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_program_survives_its_text(case: Case) -> None:
    """Kernels are kept on disk as text."""
    text = format_kernel(kernel_of(case))
    assert format_kernel(parse_kernel(text)) == text


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_interpreted_program_equals_numpy_meaning(case: Case) -> None:
    operator, kernel = REGISTRY[case.op], kernel_of(case)
    present = [a for a in case.operands if a is not None]
    given = [np.array(a).reshape(b.shape) for a, b in zip(present, kernel.params, strict=False)]
    written = [np.zeros(b.shape, b.dtype.numpy) for b in kernel.params[len(present) :]]
    assert kernel.roles == (*(Role.IN for _ in given), *(Role.OUT for _ in written))
    interpret(kernel, [*given, *written])
    for found, wanted in zip(written, operator.evaluate(case.operands, case.attrs), strict=True):
        a, b = (np.asarray(v, np.float64) for v in (found.reshape(wanted.shape), wanted))
        np.testing.assert_allclose(a, b, case.rtol, case.atol, equal_nan=True)


@pytest.mark.parametrize(
    ("op", "indices", "updates"),
    [
        ("Gather", [3], None),
        ("GatherElements", [[-4]], None),
        ("GatherND", [[0, 4]], None),
        ("ScatterElements", [[3]], [[1.0]]),
        ("ScatterND", [[2, -5]], [1.0]),
    ],
)
def test_an_index_outside_its_axis_is_an_error(op: str, indices: list[int], updates: list[float]) -> None:
    operands = [np.zeros((3, 4), np.float32), np.array(indices)]
    operands += [] if updates is None else [np.array(updates, np.float32)]
    with pytest.raises(RunError, match=f"{op}: index .* is outside"):
        REGISTRY[op].evaluate(operands, {})


def test_run_time_axis_is_checked() -> None:
    with pytest.raises(RunError, match="axis 2 does not exist"):
        REGISTRY["CumSum"].evaluate([np.zeros((2, 2), np.float32), np.array(2)], {})


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "message"),
    [
        ("GatherElements", [(2, 3), (2,)], {"axis": 0}, "axis 0 with operands of shapes"),
        ("GatherElements", [(2, 3), (3, 3)], {"axis": 1}, "reach beyond"),
        ("GatherND", [(2, 3), (2, 3)], {}, "index tuples of 3 numbers"),
        ("GatherND", [(2, 3), (3, 1)], {"batch_dims": 1}, "differ in their first 1 axes"),
        ("ScatterElements", [(2, 3), (2, 3), (2, 2)], {}, "updates"),
        ("ScatterElements", [(2,), (2,), (2,)], {"reduction": "sub"}, "reduction 'sub' is unknown"),
        ("ScatterND", [(2, 3), (1, 1), (1, 2)], {}, r"expected \[1, 3\]"),
        ("TopK", [(2, 3)], {"k": 4, "axis": 1}, "k = 4 of the 3"),
        ("ArgMax", [(2, 0)], {"axis": 1}, "axis 1 is empty"),
        ("CumSum", [(2, 3)], {}, "either as attribute or as operand"),
        ("CumSum", [()], {"axis": 0}, "does not fit"),
        ("OneHot", [(2,), (3,)], {"depth": 2, "axis": 0}, "two numbers"),
        ("Trilu", [(3,)], {}, "needs matrices"),
        ("ReverseSequence", [(2, 3), (2,)], {"time_axis": 0, "batch_axis": 1}, "lengths have shape"),
        ("TensorScatter", [(2, 3), (2, 4)], {"axis": 1}, "does not fit"),
        ("TensorScatter", [(2, 3), (2, 2)], {"axis": 1, "mode": "ring"}, "mode 'ring' is unknown"),
        ("RandomUniform", [], {"shape": (-1,), "seed": 0}, "negative extent"),
    ],
)
def test_wrong_operands_are_refused(
    op: str, shapes: list[tuple[int, ...]], attrs: dict[str, object], message: str
) -> None:
    indexed = ("GatherElements", "GatherND", "ScatterElements", "ScatterND", "ReverseSequence")
    types = [
        TensorType(DType.of(np.int64 if position == 1 and op in indexed else np.float32), shape)
        for position, shape in enumerate(shapes)
    ]
    with pytest.raises(VerifyError, match=message):
        REGISTRY[op].infer(types, attrs)


def test_random_numbers_are_even() -> None:
    attrs = {"shape": (100_000,), "seed": 5}
    (numbers,) = REGISTRY["RandomUniform"].evaluate([], attrs)
    counts = np.histogram(numbers, 16, (0, 1))[0]
    assert counts.sum() == 100_000
    assert np.abs(counts / 6250 - 1).max() < 0.06  # 4.7 standard deviations
    (other,) = REGISTRY["RandomUniform"].evaluate([], {**attrs, "seed": 6})
    assert abs(np.corrcoef(numbers, other)[0, 1]) < 0.02
