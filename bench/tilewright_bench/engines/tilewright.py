"""Tilewright itself, through its façade: compiled ahead of time, loaded from the saved artefact.

What the other engines do at load time (optimise, pack weights) Tilewright does when it compiles, so its load
is the load of the artefact, and the compilation is reported in a column of its own.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import tilewright as tw
from tilewright_bench.engines.base import (
    Arrays,
    Availability,
    Engine,
    EngineSpec,
    Prepared,
    Session,
    Settings,
    Step,
    class_of,
    one_of,
)
from tilewright_bench.environment import source_state
from tilewright_bench.sizes import known_sizes


class TilewrightSession(Session):
    """A loaded `tw.Executable` behind the common boundary."""

    def __init__(self, executable: Any, mode: str, asked: str) -> None:
        self._executable = executable
        self.inputs = executable.inputs
        self.outputs = [tensor.name for tensor in executable.outputs]
        self.precision = class_of(mode, asked)
        self.l2_limit = tw.PRECISIONS[mode]
        self.notes = {"computes_in": mode}

    def run(self, inputs: Arrays) -> Arrays:
        outputs: Arrays = self._executable.run(inputs)
        return outputs

    def trace(self, inputs: Arrays) -> Sequence[Step] | None:
        """None where the device tells nothing of what is inside a segment."""
        _, spans = self._executable.trace(inputs)
        inner = [span for span in spans if span.row == 1]
        facts = [step for segment in self._executable.package.segments for step in _facts(segment)]
        if not inner or [span.name for span in inner] != [step["name"] for step in facts]:
            return None
        return [
            Step(seconds=span.seconds, **{**step, "nodes": tuple(step["nodes"])})
            for span, step in zip(inner, facts, strict=True)
        ]


class TilewrightEngine(Engine):
    name = "tilewright"
    targets = ("cpu", "opencl", "numpy")
    keys: Mapping[str, str] = {
        "without": "parts of the compiler to leave out, joined by +, e.g. without=matrix+fusion",
        "opt": "0, 1, 2 or 3: the optimisation level (default: -O of the run)",
        "precision": f"one of {', '.join(tw.PRECISIONS)} (default: that of the run)",
    }
    choices: Mapping[str, Sequence[str]] = {"opt": ("0", "1", "2", "3"), "precision": tuple(tw.PRECISIONS)}

    def check(self, options: Mapping[str, str]) -> None:
        super().check(options)
        if "without" in options:
            for part in options["without"].split("+"):
                one_of(self.name, "without", part, tw.ABLATIONS)

    def availability(self) -> Availability:
        return Availability(True, version=_version())

    def imports(self, spec: EngineSpec) -> None:
        if spec.target == "numpy":
            _ = tw.compile
            return
        _ = tw.Executable
        # The runtime finds its devices through this entry-point group when it loads an artefact.
        for point in entry_points(group="tilewright.devices", name=spec.target.partition(":")[0]):
            point.load()

    def prepare(self, model: Path, spec: EngineSpec, settings: Settings, folder: Path) -> Prepared:
        if spec.target == "numpy":
            return Prepared(model)  # the oracle evaluates the graph: there is no code to save
        start = time.perf_counter()
        executable = _compile(model, spec, settings)
        seconds = time.perf_counter() - start
        name = hashlib.sha256(f"{model}|{spec.text}|{settings}".encode()).hexdigest()[:16]
        path = folder / f"{name}.tw"
        executable.save(path)
        return Prepared(path, compile_s=seconds)

    def load(self, prepared: Prepared, spec: EngineSpec, settings: Settings) -> Session:
        if spec.target == "numpy":
            executable = _compile(prepared.path, spec, settings)
        else:
            executable = tw.Executable.load(prepared.path, threads=settings.threads)
        return TilewrightSession(executable, _precision(spec, settings), settings.precision)

    def open(self, model: Path, spec: EngineSpec, settings: Settings, folder: Path) -> Session:
        """Without a file in between: an executable that binds shape operands at a call cannot be saved."""
        executable = _compile(model, spec, settings)
        return TilewrightSession(executable, _precision(spec, settings), settings.precision)


def _facts(segment: Any) -> list[dict[str, Any]]:
    """What the artefact says of each step of a trace, with the template that scheduled its kernel."""
    templates = {row["name"]: row.get("template", "") for row in segment.info.get("kernels", [])}
    return [step | {"template": templates.get(step["name"], "")} for step in segment.info.get("steps", [])]


def _compile(model: Path, spec: EngineSpec, settings: Settings) -> tw.Executable:
    return tw.compile(
        model,
        target=spec.target,
        precision=_precision(spec, settings),
        threads=settings.threads,
        opt_level=int(spec.options.get("opt", settings.opt_level)),
        without=_without(spec, settings),
        cache_dir=settings.cache_dir,
        dims=known_sizes(model, settings.dims),
    )


def _precision(spec: EngineSpec, settings: Settings) -> str:
    return spec.options.get("precision", settings.precision)


def _without(spec: EngineSpec, settings: Settings) -> tuple[str, ...]:
    own = spec.options.get("without", "")
    return tuple(dict.fromkeys((*settings.without, *filter(None, own.split("+")))))


def _version() -> str:
    """The version, with the commit it runs from, so that a result names the code that made it."""
    release = version("tilewright")
    commit, dirty = source_state()
    if commit == "unknown":
        return release
    return f"{release}+g{commit[:12]}{'.dirty' if dirty else ''}"


ENGINE = TilewrightEngine()
