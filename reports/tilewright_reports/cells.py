"""Numbers as they stand in the cells of a table."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from tilewright_reports.page import Table


def number(value: Any, digits: int) -> str:
    """A number with so many decimals; empty when there is none."""
    return "" if pd.isna(value) else f"{value:.{digits}f}"


def milliseconds(value: Any) -> str:
    """Milliseconds with at least three significant digits."""
    if pd.isna(value):
        return ""
    return f"{value:.1f}" if value >= 100 else f"{value:.2f}" if value >= 10 else f"{value:.3f}"


def scientific(value: Any) -> str:
    """A small quantity such as an error: two significant digits."""
    return "" if pd.isna(value) else f"{value:.1e}"


def text(value: Any) -> str:
    """A word or a whole number; empty when there is none."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None or pd.isna(value) else str(value)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[str]) -> Table:
    """A table without the columns that are empty in every row."""
    kept = [index for index in range(len(head)) if any(row[index] for row in rows)]
    return Table([head[i] for i in kept], [[row[i] for i in kept] for row in rows], frozenset(words))
