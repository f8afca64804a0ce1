"""Cold start in a fresh process: load, first run, peak memory; and the size of what is loaded."""

from tilewright_bench.children import ColdStart, cold_start
from tilewright_bench.engines.base import Prepared
from tilewright_bench.engines.registry import parse_engine

from .preparation import ENGINES, MODELS, THREADS, CompiledModels, Files, file_of, pin, settings_of


def started(files: Files, model: str, engine: str, threads: str) -> ColdStart:
    """Load and run once in a child, pinned as its parent is."""
    pin(threads)
    prepared = Prepared(file_of(files, model, engine, threads))
    return cold_start(prepared, parse_engine(engine), settings_of(threads))


class ColdStarts(CompiledModels):
    """One child process for each figure. `load` excludes imports; the page cache is warm."""

    params = (MODELS, ENGINES, THREADS)
    param_names = ("model", "engine", "threads")
    timeout = 300

    def setup(self, files: Files, model: str, engine: str, threads: str) -> None:
        file_of(files, model, engine, threads)

    def track_load(self, files: Files, model: str, engine: str, threads: str) -> float:
        return started(files, model, engine, threads).load_s

    track_load.unit = "seconds"  # type: ignore[attr-defined]

    def track_first_run(self, files: Files, model: str, engine: str, threads: str) -> float:
        return started(files, model, engine, threads).first_ms / 1e3

    track_first_run.unit = "seconds"  # type: ignore[attr-defined]

    def track_peak_memory(self, files: Files, model: str, engine: str, threads: str) -> float:
        return started(files, model, engine, threads).peak_rss_mb * 1e6

    track_peak_memory.unit = "bytes"  # type: ignore[attr-defined]

    def track_artefact_size(self, files: Files, model: str, engine: str, threads: str) -> float:
        return float(file_of(files, model, engine, threads).stat().st_size)

    track_artefact_size.unit = "bytes"  # type: ignore[attr-defined]
