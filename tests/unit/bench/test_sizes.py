"""`--dim` of commands that read several models."""

from pathlib import Path

import onnx
import onnx.parser
import pytest

from tilewright.errors import UsageError
from tilewright_bench.sizes import check_sizes, known_sizes


@pytest.fixture
def other(tmp_path: Path) -> Path:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[?, rows] x) => (float[?, columns] y) { y = Relu (x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "other.onnx")
    return tmp_path / "other.onnx"


def test_each_model_takes_the_sizes_that_it_has(tiny_model: Path, other: Path) -> None:
    dims = {"batch": 1, "rows": 2, "x:0": 3, "columns": 4}
    assert known_sizes(tiny_model, dims) == {"batch": 1}
    assert known_sizes(other, dims) == {"rows": 2, "x:0": 3, "columns": 4}
    check_sizes([tiny_model, other], dims)


def test_a_size_that_no_model_has_is_refused(tiny_model: Path, other: Path) -> None:
    with pytest.raises(UsageError, match=r"--dim q=4: .*; there are batch, x:0, rows, columns$"):
        check_sizes([tiny_model, other], {"batch": 1, "q": 4})
