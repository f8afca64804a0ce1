"""Reading the options that all commands share."""

from collections.abc import Sequence
from pathlib import Path

import tilewright as tw
from tilewright.errors import UsageError
from tilewright_bench.affinity import checked_threads
from tilewright_bench.engines.base import PRECISIONS, EngineSpec, Settings
from tilewright_bench.engines.registry import parse_engine

DEFAULT_ENGINES = ("tilewright:cpu", "ort")


def settings_of(
    threads: int | None,
    precision: str,
    dims: Sequence[str],
    opt_level: int,
    without: str,
    cache_dir: Path | None,
    concurrency: int = 1,
) -> Settings:
    """The settings that every engine gets. Raises UsageError for what is unknown or cannot be read."""
    if precision not in PRECISIONS:
        raise UsageError(f"--precision {precision} is not known; choose one of {', '.join(PRECISIONS)}")
    parts = tuple(filter(None, without.split(",")))
    for part in parts:
        if part not in tw.ABLATIONS:
            raise UsageError(f"--without {part} is not known; choose from {', '.join(tw.ABLATIONS)}")
    return Settings(
        threads=checked_threads(_share(threads, concurrency)),
        precision=precision,
        dims=dict(_dimension(text) for text in dims),
        opt_level=opt_level,
        without=parts,
        cache_dir=None if cache_dir is None else str(cache_dir),
        concurrency=concurrency,
    )


def _share(threads: int | None, concurrency: int) -> int | None:
    """Threads of each run: what the user said, else an equal share of the usable CPUs."""
    if threads is not None or concurrency == 1:
        return threads
    return max(1, checked_threads(None) // concurrency)


def engines_of(texts: Sequence[str]) -> list[EngineSpec]:
    """The engines that the user named, or the default ones."""
    return [parse_engine(text) for text in texts or DEFAULT_ENGINES]


def integers(option: str, text: str) -> tuple[int, ...]:
    """A list of positive numbers: '1,5' is (1, 5). Raises UsageError otherwise."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"{option} {text}: give positive numbers, separated by commas")
    return tuple(int(part) for part in parts)


def _dimension(text: str) -> tuple[str, int]:
    name, equals, extent = text.rpartition("=")
    if not equals or not name or not extent.isdecimal():
        raise UsageError(f"--dim {text}: give NAME=N with a number N, e.g. --dim batch=1")
    return name, int(extent)
