"""The single layers of TVM's Table 2: one line a layer, one column an engine."""

from collections.abc import Iterator

import pandas as pd

from tilewright_reports.cells import milliseconds, number, table
from tilewright_reports.page import Section
from tilewright_reports.runs import run_cell

PREFIX = "tvm_"
NOTE = (
    "Median milliseconds of the layers of Table 2 of arXiv 1802.04799 as models of one convolution with "
    "bias, NCHW in and out; in brackets the ratio to the first engine, above 1 where that one is faster."
)


def table2_section(rows: pd.DataFrame, pairs: pd.DataFrame) -> Iterator[Section]:
    """Nothing when none of the layers was measured."""
    chosen = rows[rows["model"].str.startswith(PREFIX)]
    if not len(chosen):
        return
    engines = list(dict.fromkeys(chosen["engine"]))
    ratios = {(pair.run, pair.model, pair.b): pair.ratio for pair in pairs.itertuples()}
    cells = []
    for (run, model), same in chosen.groupby(["run", "model"], sort=False):
        times = dict(zip(same["engine"], same["median_ms"], strict=True))
        times_of = [_cell(times.get(engine), ratios.get((run, model, engine))) for engine in engines]
        cells.append((model.removeprefix(PREFIX).upper(), *times_of, run_cell(run, chosen)))
    head = ("layer", *engines, "run")
    yield Section("TVM Table 2", [NOTE], table(head, cells, ("layer", "run")), level=3)


def _cell(median_ms: float | None, ratio: float | None) -> str:
    if median_ms is None:
        return ""
    return milliseconds(median_ms) + ("" if ratio is None else f" ({number(ratio, 2)}×)")
