"""The documentation lists what is declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.errors import UsageError
from tilewright.ops.operator import REGISTRY
from tilewright.ops.table import main, operator_table, with_table

DOCUMENT = Path(__file__).parents[3] / "docs" / "ops.md"


def test_documentation_is_up_to_date() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_table(text) == text, "run: python -m tilewright.ops.table docs/ops.md"


def test_every_operator_has_a_row() -> None:
    rows = operator_table().splitlines()[2:]
    assert len(rows) == len(REGISTRY)
    assert all(row.count(" | ") == 5 for row in rows)


def test_rewriting_a_document(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- operators -->\nold\n<!-- end -->\nafter\n")
    main(page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "`Conv`" in text
    assert "\nold\n" not in text
    assert list(tmp_path.iterdir()) == [page]


def test_document_without_marks_is_refused() -> None:
    with pytest.raises(UsageError, match="no table to replace"):
        with_table("nothing here")
