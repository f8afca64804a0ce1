"""The roofline of a network: what each layer reaches against what the machine allows at its intensity."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas

ROOFS = (0, -1)  # the fastest and the slowest level of memory
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def roofline(data: Mapping[str, Any], colours: tuple[str, ...]) -> Canvas:
    """data: fma_gflops, read (bytes, gb_per_s) and points (name, kind, intensity in flop/byte, gflops)."""
    canvas = Canvas(figsize=(7.5, 4.8), layout="constrained")
    axes = canvas.subplots()
    points = data["points"]
    kinds = list(dict.fromkeys(point["kind"] for point in points))
    for number, kind in enumerate(kinds):
        own = [point for point in points if point["kind"] == kind]
        axes.scatter(
            [point["intensity"] for point in own],
            [point["gflops"] for point in own],
            s=24,
            color=colours[number % len(colours)],
            marker=MARKERS[number % len(MARKERS)],
            label=kind,
            zorder=3,
        )
    lowest = min((point["intensity"] for point in points), default=0.1)
    highest = max((point["intensity"] for point in points), default=100.0)
    span = np.geomspace(lowest / 2, highest * 2, 100)
    for place in dict.fromkeys(index % len(data["read"]) for index in ROOFS):
        level = data["read"][place]
        roof = np.minimum(data["fma_gflops"], level["gb_per_s"] * span)
        label = f"{level['gb_per_s']:.0f} GB/s ({level['bytes'] / 1e6:.2g} MB)"
        axes.plot(
            span, roof, linewidth=1, color="#888888", linestyle="-" if place == 0 else "--", label=label
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte of operands")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(f"multiply-adds: {data['fma_gflops']:.0f} GFLOP/s", fontsize=9)
    axes.legend(fontsize=7, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return canvas
