"""Which runs (result files) the lines of a section come from."""

import pandas as pd


def runs_note(rows: pd.DataFrame) -> str:
    """Which files a section is made of, once, instead of in each of its lines."""
    return f"From {' and '.join(dict.fromkeys(rows['run']))}."


def run_cell(row_run: str, rows: pd.DataFrame) -> str:
    """The run of one line, where a section has several."""
    return row_run if rows["run"].nunique() > 1 else ""


def panel_name(model: str, run: str, rows: pd.DataFrame) -> str:
    """The title of a model's panel in a plot, with the run where a section has several."""
    return f"{model}\n{run}" if rows["run"].nunique() > 1 else model
