"""Steady state: one call, host array in, host array out."""

from functools import cache
from pathlib import Path

from tilewright_bench.engines.base import Arrays
from tilewright_bench.inputs import seeded_inputs

from .preparation import ENGINES, MODELS, THREADS, CompiledModels, Files, file_of, session_of


@cache
def inputs_of(path: Path, engine: str, threads: str) -> Arrays:
    return seeded_inputs(session_of(path, engine, threads).inputs)


class Latency(CompiledModels):
    """Milliseconds of a call; the samples of one engine only. Pairs with verdicts: `tilewright bench`."""

    params = (MODELS, ENGINES, THREADS)
    param_names = ("model", "engine", "threads")
    timeout = 300
    rounds = 2
    repeat = (5, 50, 2.0)
    number = 1
    warmup_time = 0.2

    def setup(self, files: Files, model: str, engine: str, threads: str) -> None:
        path = file_of(files, model, engine, threads)
        self.session, self.inputs = session_of(path, engine, threads), inputs_of(path, engine, threads)

    def time_run(self, files: Files, model: str, engine: str, threads: str) -> None:
        self.session.run(self.inputs)
