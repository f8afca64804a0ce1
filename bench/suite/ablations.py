"""What parts of the compiler bring: the same network without one of them."""

from pathlib import Path

from tilewright_bench.engines.base import Arrays
from tilewright_bench.engines.registry import engine_of, parse_engine
from tilewright_bench.inputs import seeded_inputs
from tilewright_bench.models import find_model

from .preparation import session_of, settings_of

MODELS = ["squeezenet1_1", "mobilenet_v1", "resnet18"]
ENGINES = ["tilewright:cpu", "tilewright:cpu,without=fusion", "tilewright:cpu,without=storage"]
THREADS = ["1"]

Files = dict[tuple[str, str], Path]


class Ablations:
    """Milliseconds of a call. With verdicts: `tilewright bench` with these engines, and the report of it."""

    params = (MODELS, ENGINES, THREADS)
    param_names = ("model", "engine", "threads")
    timeout = 300
    rounds = 2
    repeat = (5, 30, 2.0)
    number = 1
    warmup_time = 0.2

    def setup_cache(self) -> Files:
        folder = Path.cwd()
        settings = settings_of(THREADS[0], folder / "cache")
        return {
            (model, engine): engine_of(spec)
            .prepare(find_model(model).path, spec, settings, folder)
            .path.resolve()
            for model in MODELS
            for engine, spec in ((text, parse_engine(text)) for text in ENGINES)
        }

    setup_cache.timeout = 900  # type: ignore[attr-defined]

    def setup(self, files: Files, model: str, engine: str, threads: str) -> None:
        self.session = session_of(files[model, engine], engine, threads)
        self.inputs: Arrays = seeded_inputs(self.session.inputs)

    def time_run(self, files: Files, model: str, engine: str, threads: str) -> None:
        self.session.run(self.inputs)
