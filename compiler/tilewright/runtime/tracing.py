"""What ran when: spans, and the Chrome trace format for them (chrome://tracing, ui.perfetto.dev)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.runtime.device import Loaded, Tracing


class Span(NamedTuple):
    """Something that ran. start: seconds since the run began; row: 0 for segments, 1 for instructions in
    them.
    """

    name: str
    start: float
    seconds: float
    row: int


class Traced:
    """A loaded segment that notes when it runs; instructions follow one another, so their starts are sums."""

    def __init__(self, loaded: Loaded, target: str, spans: list[Span], origin: float) -> None:
        self._loaded = loaded
        self._target = target
        self._spans = spans
        self._origin = origin

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        start = time.perf_counter() - self._origin
        inner: list[tuple[str, float]] = []
        if isinstance(self._loaded, Tracing):
            inner = self._loaded.trace(inputs, outputs)
        else:
            self._loaded.run(inputs, outputs)
        seconds = time.perf_counter() - self._origin - start
        self._spans.append(Span(f"segment {self._target}", start, seconds, 0))
        at = start
        for name, spent in inner:
            self._spans.append(Span(name, at, spent, 1))
            at += spent


def chrome_trace(spans: Sequence[Span]) -> dict[str, Any]:
    """The spans as a JSON value in Chrome's trace format; times in microseconds."""
    events = [
        {"name": s.name, "ph": "X", "ts": s.start * 1e6, "dur": s.seconds * 1e6, "pid": 0, "tid": s.row}
        for s in spans
    ]
    return {"traceEvents": events, "displayTimeUnit": "ms"}
