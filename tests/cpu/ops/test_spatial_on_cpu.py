"""Operators on planes as generated code."""

from pathlib import Path

import pytest
from case import Case
from compiled_case import check_compiled
from spatial_cases import spatial_cases

CASES = list(spatial_cases())


@pytest.mark.parametrize("case", CASES[::5], ids=str)
def test_default_level(case: Case, tmp_path: Path) -> None:
    check_compiled(case, tmp_path)


@pytest.mark.parametrize("case", CASES[1::20], ids=str)
def test_without_optimisation(case: Case, tmp_path: Path) -> None:
    check_compiled(case, tmp_path, level=0)
