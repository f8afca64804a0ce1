"""Quantised operators as generated code: the same whole numbers as NumPy, with and without optimisation."""

from __future__ import annotations

from pathlib import Path

import pytest
from case import Case
from compiled_case import check_compiled
from pointwise_cases import quantized_cases


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("case", list(quantized_cases()), ids=str)
def test_generated_code_equals_the_numpy_meaning(case: Case, cache: Path) -> None:
    check_compiled(case, cache)


@pytest.mark.parametrize("case", list(quantized_cases())[::6], ids=str)
def test_without_optimisation(case: Case, cache: Path) -> None:
    check_compiled(case, cache, level=0)
