"""Normalisations, recurrent layers, attention, transforms, products over labels as generated code."""

from pathlib import Path

import pytest
from attention_and_spectral_cases import attention_cases, linear_attention_cases, transform_cases
from case import Case
from compiled_case import check_compiled
from normalization_cases import normalization_cases
from product_and_loss_cases import product_and_loss_cases
from recurrent_cases import recurrent_cases

FAMILIES = (
    normalization_cases,
    recurrent_cases,
    product_and_loss_cases,
    attention_cases,
    linear_attention_cases,
    transform_cases,
)
CASES = [case for family in FAMILIES for case in family()]


@pytest.mark.parametrize("case", CASES[::7], ids=str)
def test_default_level(case: Case, tmp_path: Path) -> None:
    check_compiled(case, tmp_path)


@pytest.mark.parametrize("case", CASES[1::28], ids=str)
def test_without_optimisation(case: Case, tmp_path: Path) -> None:
    check_compiled(case, tmp_path, level=0)
