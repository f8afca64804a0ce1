"""From result files to the page: the order of its sections."""

from dataclasses import dataclass

import pandas as pd

from tilewright_reports.accuracy_sections import accuracy_sections
from tilewright_reports.asv_results import asv_table
from tilewright_reports.asv_sections import asv_sections
from tilewright_reports.latency_sections import latency_sections
from tilewright_reports.layer_sections import layer_sections
from tilewright_reports.origin_sections import (
    again_section,
    left_out_section,
    provenance_sections,
    unrepeatable,
)
from tilewright_reports.page import Page
from tilewright_reports.results import LeftOut, Results, collect
from tilewright_reports.sources import Sources

TITLE = "Tilewright beside other engines"
INTRODUCTION = (
    "Measured by tilewright bench, layers and accuracy; the raw files lie in the folder raw beside this "
    "page. Numbers of different machines, thread counts or precision classes stand in separate sections "
    "and are not compared."
)


@dataclass(frozen=True)
class Report:
    """The tables and the page made of them."""

    results: Results
    history: pd.DataFrame
    layers: int  # networks whose layers are on the page
    page: Page

    @property
    def is_empty(self) -> bool:
        """Whether no row at all was reportable."""
        tables = (self.results.latency, self.results.accuracy, self.history)
        return not self.layers and not any(len(table) for table in tables)


def build(sources: Sources) -> Report:
    """Everything follows from the sources alone: no clock, no machine facts. Raises DataError for files of a
    foreign format.
    """
    results = collect(sources.bench, sources.accuracy)
    left_out: list[LeftOut] = [*results.left_out]
    history = asv_table(sources.asv, left_out)
    layers = [*layer_sections(sources.layers, left_out)]
    sections = [
        *latency_sections(results),
        *layers,
        *accuracy_sections(results),
        *asv_sections(history),
        *left_out_section(left_out),
        again_section(sources),
        *provenance_sections(sources, results),
    ]
    notes = [INTRODUCTION, *unrepeatable([*sources.bench, *sources.accuracy, *sources.layers])]
    return Report(results, history, len(layers), Page(TITLE, notes, sections))
