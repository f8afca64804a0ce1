"""What the benchmarks share: their parameters, models compiled once, sessions loaded once in each process.

asv runs `setup` before every timed call, so it must cost nothing: models are compiled in `setup_cache`, whose
result asv keeps in a folder and hands to every benchmark as its first argument.
"""

from contextlib import ExitStack
from functools import cache
from itertools import product
from pathlib import Path

from tilewright_bench.affinity import pinned, usable_cpus
from tilewright_bench.engines.base import Prepared, Session, Settings
from tilewright_bench.engines.registry import engine_of, parse_engine
from tilewright_bench.models import find_model

MODELS = ["dqn", "squeezenet1_1", "mobilenet_v2", "resnet18", "efficientnet_lite0"]
ENGINES = ["tilewright:cpu", "ort"]
THREADS = ["1", "2"]

# Closed when the process ends: asv runs each parameter in a process of its own.
_process = ExitStack()

Files = dict[tuple[str, str, str], Path | str]  # a text says why there is no file


def settings_of(threads: str, cache_dir: Path | None = None) -> Settings:
    """The settings of a thread count; None for the user's own cache."""
    return Settings(threads=int(threads), cache_dir=None if cache_dir is None else str(cache_dir))


def prepare_all() -> Files:
    """Compile every model for every engine and thread count that this machine can measure, below the working
    folder.

    A model that does not compile has its error instead of a file: its benchmarks fail, all others run.
    """
    counts = filter(is_measurable, THREADS)
    return {key: _prepare(*key) for key in product(MODELS, ENGINES, counts)}


def _prepare(model: str, engine: str, threads: str) -> Path | str:
    spec, folder = parse_engine(engine), Path.cwd()
    try:
        settings = settings_of(threads, folder / "cache")
        prepared = engine_of(spec).prepare(find_model(model).path, spec, settings, folder)
    except Exception as error:  # whatever an engine raises
        return f"{type(error).__name__}: {error}"
    return prepared.path.resolve()


def file_of(files: Files, model: str, engine: str, threads: str) -> Path:
    """The prepared file. Raises NotImplementedError, asv's way to skip, for more threads than CPUs, and
    RuntimeError with the engine's own words when the model did not compile.
    """
    if not is_measurable(threads):
        raise NotImplementedError(f"{threads} threads need as many CPUs; {len(usable_cpus())} are usable")
    found = files[model, engine, threads]
    if isinstance(found, str):
        raise RuntimeError(f"{model} is not prepared for {engine}: {found}")
    return found


def is_measurable(threads: str) -> bool:
    """Whether there is a CPU for every thread."""
    return int(threads) <= len(usable_cpus())


@cache
def pin(threads: str) -> None:
    """Pin this process, once, to as many CPUs as it has threads."""
    _process.enter_context(pinned(int(threads)))


@cache
def session_of(path: Path, engine: str, threads: str) -> Session:
    """The loaded model, once in each process, pinned before the engine starts its threads."""
    pin(threads)
    spec = parse_engine(engine)
    return engine_of(spec).load(Prepared(path), spec, settings_of(threads))


class CompiledModels:
    """Base of the benchmarks that load what was compiled: one cache for all of them."""

    def setup_cache(self) -> Files:
        return prepare_all()

    setup_cache.timeout = 1800  # type: ignore[attr-defined]
