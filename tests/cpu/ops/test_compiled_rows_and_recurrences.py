"""Normalisations, recurrent layers, products over labels and losses as generated code."""

from pathlib import Path

import pytest
from case import Case
from compiled_case import check_compiled
from normalization_cases import normalization_cases
from product_and_loss_cases import product_and_loss_cases
from recurrent_cases import recurrent_cases

CASES = [*normalization_cases(), *recurrent_cases(), *product_and_loss_cases()]


@pytest.mark.parametrize("case", CASES[::5], ids=str)
def test_default_level(case: Case, tmp_path: Path) -> None:
    check_compiled(case, tmp_path)


@pytest.mark.parametrize("case", CASES[1::20], ids=str)
def test_without_optimisation(case: Case, tmp_path: Path) -> None:
    check_compiled(case, tmp_path, level=0)
