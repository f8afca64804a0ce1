"""Plots as SVG files. Each carries, as its description, the numbers it draws, so that they can be checked."""

import io
import json
import re
from collections.abc import Mapping, Sequence
from html import unescape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from tilewright_reports.page import Figure
from tilewright_reports.roofline import roofline

# Colours that stay apart for colour-blind readers (Okabe and Ito).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
PER_ROW = 4
STYLE: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "tilewright", "font.size": 9}
DESCRIPTION = re.compile(r"<dc:description>(.*?)</dc:description>", re.DOTALL)


def draw(figure: Figure) -> bytes:
    """The figure as SVG.

    Kind 'bars': per model a panel, per engine a bar with its spread. Kind 'ratios': points with intervals.
    Kind 'roofline': a point for each layer below the roofs of the machine.
    """
    with mpl.rc_context(STYLE):
        canvas = _drawn(figure)
        file = io.BytesIO()
        canvas.savefig(file, format="svg", metadata={"Description": described(figure), "Date": None})
    return file.getvalue()


def _drawn(figure: Figure) -> Canvas:
    if figure.kind == "roofline":
        return roofline(figure.data, COLOURS)
    return _bars(figure.data) if figure.kind == "bars" else _ratios(figure.data)


def described(figure: Figure) -> str:
    """The numbers of a figure as one line of JSON."""
    return json.dumps(figure.data)


def description_of(svg: str) -> str | None:
    """The numbers that a drawn file says it shows; None when it does not say."""
    found = DESCRIPTION.search(svg)
    return unescape(found.group(1)) if found else None


def _bars(panels: Sequence[Mapping[str, Any]]) -> Canvas:
    columns = min(PER_ROW, len(panels))
    rows = -(-len(panels) // columns)
    canvas = Canvas(figsize=(2.6 * columns + 0.6, 2.6 * rows), layout="constrained")
    engines = list(dict.fromkeys(point["engine"] for panel in panels for point in panel["points"]))
    axes = canvas.subplots(rows, columns, squeeze=False)
    for place, panel in zip(axes.flat, panels, strict=False):
        _panel(place, panel, engines)
    for place in axes.flat[len(panels) :]:
        place.set_visible(False)
    return canvas


def _panel(axes: Axes, panel: Mapping[str, Any], engines: Sequence[str]) -> None:
    points = panel["points"]
    values = [point["value"] for point in points]
    below = [max(0.0, point["value"] - point["low"]) for point in points]
    above = [max(0.0, point["high"] - point["value"]) for point in points]
    colours = [COLOURS[engines.index(point["engine"]) % len(COLOURS)] for point in points]
    places = range(len(points))
    axes.bar(places, values, color=colours, yerr=[below, above], capsize=3, error_kw={"linewidth": 0.8})
    axes.set_xticks(places, [point["engine"].replace(",", ",\n") for point in points], fontsize=7)
    for place, value in zip(places, values, strict=True):
        axes.annotate(f"{value:.3g}", (place, value / 2), ha="center", va="center", fontsize=8, color="white")
    axes.set_title(panel["name"], fontsize=9)
    axes.set_ylabel(panel["unit"])
    axes.spines[["top", "right"]].set_visible(False)


def _ratios(pairs: Sequence[Mapping[str, Any]]) -> Canvas:
    canvas = Canvas(figsize=(7.5, 0.9 + 0.35 * len(pairs)), layout="constrained")
    axes = canvas.subplots()
    places = range(len(pairs))
    values = [pair["ratio"] for pair in pairs]
    spread = [
        [max(0.0, pair["ratio"] - pair["low"]) for pair in pairs],
        [max(0.0, pair["high"] - pair["ratio"]) for pair in pairs],
    ]
    axes.errorbar(values, places, xerr=spread, fmt="o", color=COLOURS[0], capsize=3)
    axes.axvline(1, color="#888888", linewidth=0.8)
    axes.set_yticks(places, [pair["name"] for pair in pairs])
    axes.margins(y=0.3)
    axes.invert_yaxis()
    axes.set_xlabel("time of b / time of a (above 1: a is faster)")
    axes.spines[["top", "right"]].set_visible(False)
    return canvas
