"""Operators whose results have as many elements as the data say, compiled."""

from __future__ import annotations

from pathlib import Path

import pytest
from case import Case
from compiled_case import check_compiled
from selection_cases import selection_cases


@pytest.mark.parametrize("case", list(selection_cases()), ids=str)
def test_compiled_node_equals_numpy_meaning(case: Case, tmp_path: Path) -> None:
    check_compiled(case, tmp_path)
