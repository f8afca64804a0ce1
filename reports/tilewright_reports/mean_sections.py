"""Ratios summed up: geometric means over groups of models, engine by engine, and what single parts bring."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from tilewright_reports.cells import number, table
from tilewright_reports.page import Section

MEAN_NOTE = (
    "Geometric means of the ratios above, over the models that each line names. 'best of the others' takes, "
    "model by model, the engine that was fastest beside a: the smallest of its ratios. A mean has no "
    "interval of its own; least is the smallest ratio in it."
)
ABLATION_NOTE = (
    "What a part of the compiler brings: time without it / time with it, interleaved, with its 99 % "
    "interval. Above 1 the part makes the model faster."
)
BEST = "best of the others"

# Groups of models that are summed up apart: single layers say little about networks, and depthwise layers
# little about the others.
GROUPS = (("tvm_c", "TVM Table 2, convolutions"), ("tvm_d", "TVM Table 2, depthwise"))
NETWORKS = "networks"


def mean_section(pairs: pd.DataFrame) -> Iterator[Section]:
    """Means of one section's pairs, where a group has at least two models."""
    lines = [
        line
        for (run, a), same in _plain(pairs).groupby(["run", "a"], sort=False)
        for group, models in same.groupby(same["model"].map(group_of), sort=False)
        for line in _mean_lines(run, a, group, models)
    ]
    if lines:
        head = ("models", "a", "b", "count", "geometric mean b/a", "least", "of", "run")
        words = ("models", "a", "b", "of", "run")
        yield Section("Geometric means", [MEAN_NOTE], table(head, lines, words), level=3)


def ablation_section(pairs: pd.DataFrame) -> Iterator[Section]:
    """The pairs of an engine with itself, less one or more parts."""
    chosen = [pair for pair in pairs.itertuples() if left_out(pair.a, pair.b)]
    if not chosen:
        return
    cells = [
        (
            pair.model,
            pair.a,
            left_out(pair.a, pair.b) or "",
            number(pair.ratio, 3),
            f"{pair.ci_low:.3f} to {pair.ci_high:.3f}",
        )
        for pair in chosen
    ]
    head = ("model", "engine", "without", "time without / with", "99 % interval")
    yield Section("Ablations", [ABLATION_NOTE], table(head, cells, ("model", "engine", "without")), level=3)


def group_of(model: str) -> str:
    """The group that a model is summed up in."""
    return next((title for prefix, title in GROUPS if model.startswith(prefix)), NETWORKS)


def geometric_mean(ratios: Sequence[float]) -> float:
    """Of at least one positive number."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def left_out(a: str, b: str) -> str | None:
    """What b leaves out that a does not, when they are else the same engine; None when they are not."""
    (kept, without_a), (other, without_b) = _parted(a), _parted(b)
    if kept != other or not without_a < without_b:
        return None
    return ", ".join(sorted(without_b - without_a))


def _parted(engine: str) -> tuple[tuple[str, ...], frozenset[str]]:
    head, *options = engine.split(",")
    without = [option.removeprefix("without=") for option in options if option.startswith("without=")]
    rest = tuple(sorted(option for option in options if not option.startswith("without=")))
    return (head, *rest), frozenset("+".join(without).split("+")) - {""}


def _plain(pairs: pd.DataFrame) -> pd.DataFrame:
    """Without ablations, and without models at other batch sizes or under load."""
    kept = [left_out(pair.a, pair.b) is None and not pair.model.endswith("]") for pair in pairs.itertuples()]
    return pairs[kept]


def _mean_lines(run: str, a: str, group: str, pairs: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    engines = [(b, same) for b, same in pairs.groupby("b", sort=False) if len(same) > 1]
    for b, same in engines:
        yield _line(run, a, b, group, dict(zip(same["model"], same["ratio"], strict=True)))
    if len(engines) > 1:
        best: dict[str, Any] = pairs.groupby("model", sort=False)["ratio"].min().to_dict()
        yield _line(run, a, BEST, group, best)


def _line(run: str, a: str, b: str, group: str, ratios: dict[str, float]) -> tuple[str, ...]:
    least = min(ratios, key=lambda model: ratios[model])
    mean = geometric_mean([*ratios.values()])
    return (
        group,
        a,
        b,
        str(len(ratios)),
        number(mean, 3),
        f"{ratios[least]:.3f} ({least})",
        ", ".join(ratios),
        run,
    )
