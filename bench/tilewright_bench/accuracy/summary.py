"""From the lines of a run to the rows and pairs of the accuracy JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tilewright_bench.accuracy.driver import Contender, Outcome, Task
from tilewright_bench.accuracy.intervals import wilson
from tilewright_bench.accuracy.labels import OffsetCheck, check_offset
from tilewright_bench.accuracy.partial import Line

Json = dict[str, Any]


def rows_of(task: Task, outcome: Outcome, ks: Sequence[int]) -> list[Json]:
    """One row per engine: top-k shares with the 95 % Wilson interval of top-1, or the engine's error."""
    return [_row(index, one, task, outcome, ks) for index, one in enumerate(outcome.contenders)]


def pairs_of(task: Task, outcome: Outcome) -> list[Json]:
    """One pair for each engine against the first that ran: agreement on top-1, and every flip with its
    margins.
    """
    running = [index for index, one in enumerate(outcome.contenders) if one.error is None]
    if not outcome.lines:
        return []
    return [_pair(running[0], index, task, outcome) for index in running[1:]]


def offset_of(outcome: Outcome) -> OffsetCheck | None:
    """Whether a neighbouring label offset would fit clearly better, judged by the first engine that ran."""
    running = [str(index) for index, one in enumerate(outcome.contenders) if one.error is None]
    if not running or not outcome.lines:
        return None
    tops = [line["tops"][running[0]] for line in outcome.lines]
    return check_offset(tops, [line["label"] for line in outcome.lines], outcome.label_offset)


def _row(index: int, contender: Contender, task: Task, outcome: Outcome, ks: Sequence[int]) -> Json:
    session = contender.session
    row: Json = {
        "model": task.model.name,
        "engine": contender.spec.text,
        "precision": session.precision if session else task.settings.precision,
        "threads": task.settings.threads,
        "dataset": task.images.name,
    }
    if contender.error is not None or not outcome.lines:
        return row | {"error": contender.error or "interrupted before the first image"}
    hits = {k: _hits(index, k, outcome) for k in sorted({1, 5, *ks})}
    count = len(outcome.lines)
    return row | {
        "n": count,
        "top1": hits[1] / count,
        "top5": hits[5] / count,
        "top1_ci": list(wilson(hits[1], count)),
        "topk": {str(k): hit / count for k, hit in hits.items()},
        "undecodable": outcome.undecodable,
        "label_offset": outcome.label_offset,
        "interrupted": outcome.interrupted,
        "provenance": {
            "model_sha256": task.model.sha256,
            "engine_version": contender.version,
            "preprocess": asdict(task.preprocess),
        },
    }


def _hits(index: int, k: int, outcome: Outcome) -> int:
    return sum(line["label"] + outcome.label_offset in line["tops"][str(index)][:k] for line in outcome.lines)


def _pair(base: int, index: int, task: Task, outcome: Outcome) -> Json:
    flips = [
        _flip(line, line["disagreements"][str(index)], outcome.label_offset)
        for line in outcome.lines
        if str(index) in line["disagreements"] and line["base"] == base
    ]
    count = len(outcome.lines)
    return {
        "model": task.model.name,
        "a": outcome.contenders[base].spec.text,
        "b": outcome.contenders[index].spec.text,
        "agree_top1": (count - len(flips)) / count,
        "flips": flips,
        "max_margin_of_flip": max((max(flip["a_margin"], flip["b_margin"]) for flip in flips), default=0.0),
        "dataset": task.images.name,
        "n": count,
        "precision": task.settings.precision,
        "threads": task.settings.threads,
    }


def _flip(line: Line, found: Json, offset: int) -> Json:
    return {
        "image": line["image"],
        "label": line["label"],
        "a_class": found["a_index"] - offset,
        "b_class": found["b_index"] - offset,
        "a_margin": found["a_margin"],
        "b_margin": found["b_margin"],
    }
