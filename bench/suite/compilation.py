"""Compile time: with an empty cache, and with everything in the cache."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tilewright_bench.engines.registry import engine_of, parse_engine
from tilewright_bench.models import find_model

from .preparation import MODELS, settings_of

ENGINES = ["tilewright:cpu"]  # the others do all their work when they load
THREADS = ["1"]  # kernels are the same for every thread count


def compiled(model: str, engine: str, folder: Path) -> float:
    """Seconds of the work ahead of time."""
    spec = parse_engine(engine)
    settings = settings_of(THREADS[0], folder / "cache")
    prepared = engine_of(spec).prepare(find_model(model).path, spec, settings, folder)
    if prepared.compile_s is None:
        raise ValueError(f"{engine} has no step ahead of time to measure")
    return prepared.compile_s


class Compilation:
    """Seconds from an ONNX file to a saved artefact, without the saving."""

    params = (MODELS, ENGINES, THREADS)
    param_names = ("model", "engine", "threads")
    timeout = 300

    def setup(self, model: str, engine: str, threads: str) -> None:
        self.folder = TemporaryDirectory(prefix="tilewright-asv-")

    def teardown(self, model: str, engine: str, threads: str) -> None:
        self.folder.cleanup()

    def track_cold(self, model: str, engine: str, threads: str) -> float:
        return compiled(model, engine, Path(self.folder.name))

    track_cold.unit = "seconds"  # type: ignore[attr-defined]

    def track_warm(self, model: str, engine: str, threads: str) -> float:
        compiled(model, engine, Path(self.folder.name))
        return compiled(model, engine, Path(self.folder.name))

    track_warm.unit = "seconds"  # type: ignore[attr-defined]
