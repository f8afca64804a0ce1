"""Products on weights as the model has them, and convolutions as patches and products."""

import pytest
from case import Case, normal
from compiled_case import check_compiled


def near(op: str, operands: list, attrs: dict | None = None) -> Case:
    """Sums in another order differ in their last places."""
    return Case(op, operands, attrs or {}, rtol=1e-4, atol=1e-4)


PADDED = {"pads": (1, 1, 1, 1)}
CASES = [
    near("Conv", [normal(1, 16, 9, 7), normal(40, 16, 3, 3), normal(40)], PADDED),
    near("Conv", [normal(2, 3, 9, 9), normal(5, 3, 3, 3)], PADDED | {"strides": (2, 2)}),
    near("Conv", [normal(1, 8, 6, 6), normal(64, 4, 3, 3), normal(64)], PADDED | {"group": 2}),
    near("Conv", [normal(1, 8, 6, 6), normal(20, 4, 3, 3)], PADDED | {"group": 2}),
    near("Conv", [normal(1, 24, 9, 9), normal(24, 1, 3, 3)], PADDED | {"group": 24}),
    near("Conv", [normal(1, 8, 7, 7), normal(33, 8, 1, 1)], {"strides": (2, 2)}),
    near("Conv", [normal(1, 16, 30), normal(24, 16, 5)], {"dilations": (2,), "pads": (4, 4)}),
    near("Conv", [normal(1, 4, 5, 5, 5), normal(16, 4, 3, 3, 3)], {"pads": (1,) * 6}),
    near("MatMul", [normal(5, 70), normal(70, 37)]),
    near("MatMul", [normal(2, 5, 70), normal(70, 37)]),
    near("MatMul", [normal(70), normal(70)]),
    near("MatMul", [normal(70), normal(70, 37)]),
    near("MatMul", [normal(3, 5, 20), normal(3, 20, 37)]),
    near("Gemm", [normal(9, 70), normal(37, 70), normal(37)], {"transB": 1}),
    near("Gemm", [normal(70, 9), normal(70, 1)], {"transA": 1}),
]


@pytest.mark.parametrize("without", ["packing", "direct", "direct+packing", "storage"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_computes_the_same(case, without, tmp_path):
    check_compiled(case, tmp_path, threads=2, without=tuple(without.split("+")))


@pytest.mark.parametrize(
    ("case", "template"),
    [
        (CASES[0], "contraction"),
        (CASES[2], "contraction"),
        (CASES[4], "windowed"),
        (CASES[8], "contraction"),
        (CASES[12], "windowed"),
        (CASES[13], "contraction"),
    ],
    ids=str,
)
def test_register_tiles_where_columns_lie_side_by_side(case, template, tmp_path):
    engine = check_compiled(case, tmp_path, without=("packing",))
    (segment,) = engine.package.segments
    most = max(segment.info["kernels"], key=lambda row: row["flops"])
    assert most["template"] == template
