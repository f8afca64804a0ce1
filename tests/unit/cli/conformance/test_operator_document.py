"""docs/operators.md follows the front end's table and the declarations."""

from pathlib import Path

import pytest

from tilewright.cli.conformance.operators import BEGIN, END, read_counts, with_table, write_table
from tilewright.errors import UsageError

DOCUMENT = Path(__file__).parents[4] / "docs" / "operators.md"
EMPTY = f"before\n{BEGIN}\n{END}\nafter"
COUNTS = {"cpu": {"Abs": {"passed": 3, "failed": 1, "refused": 2}}}


def row(text, name):
    (line,) = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_document_is_up_to_date():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_table(text) == text, "run: python -m tilewright.cli.conformance.operators docs/operators.md"


def test_rows_tell_opsets_and_meaning():
    text = with_table(EMPTY)
    assert row(text, "Relu")[1].startswith("7–")
    assert row(text, "Relu")[2:4] == ["max(x, 0)", "expression"]
    assert row(text, "GridSample")[1].startswith("16–")
    assert row(text, "StringSplit")[1] == ""
    assert "`SequenceMap`" in text


def test_counts_are_put_in_and_kept():
    text = with_table(EMPTY, COUNTS)
    assert row(text, "Abs")[4:] == ["", "3 of 6, 2 refused", ""]
    assert with_table(text) == text
    assert read_counts(text)["cpu"] == COUNTS["cpu"]
    both = with_table(text, {"numpy": {"Abs": {"passed": 6, "failed": 0, "refused": 0}}})
    assert row(both, "Abs")[4:] == ["6 of 6", "3 of 6, 2 refused", ""]


def test_a_document_without_marks_is_refused(tmp_path):
    path = tmp_path / "other.md"
    path.write_text("text")
    with pytest.raises(UsageError, match="no table to replace"):
        write_table(path)
    assert path.read_text() == "text"
