"""Running two engines on one model, with tensors inside it returned too."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.errors import RunError, TilewrightError
from tilewright_bench.debug.difference import Difference, difference
from tilewright_bench.debug.tensors import ModelTensors
from tilewright_bench.engines.base import Array, Arrays, EngineSpec, Settings
from tilewright_bench.engines.converted import signature_of
from tilewright_bench.engines.registry import engine_of
from tilewright_bench.inputs import seeded_inputs
from tilewright_bench.progress import Reporter


@dataclass(frozen=True)
class Values:
    """What both engines give for one tensor."""

    a: Array
    b: Array
    difference: Difference


class Prober:
    """Two engines, one model, one set of inputs; `run` asks both for any tensors."""

    def __init__(
        self,
        tensors: ModelTensors,
        engines: tuple[EngineSpec, EngineSpec],
        settings: Settings,
        given: Arrays,
        tolerance: float,
        folder: Path,
        reporter: Reporter,
    ) -> None:
        """folder: for models and artefacts; inputs that `given` lacks are seeded. Raises UsageError for
        engines that are not here and for sizes that stay open.
        """
        self._tensors, self._specs, self._tolerance = tensors, engines, tolerance
        self._folder, self._reporter = folder, reporter
        # Many variants of one model are compiled: they would drive everything else out of the user's cache.
        own = settings.cache_dir or str(folder / "cache")
        self._settings = replace(settings, cache_dir=own)
        self._engines = [engine_of(spec) for spec in engines]
        plain = folder / "plain.onnx"
        tensors.save(plain, ())
        wanted = [tensor for tensor in signature_of(plain, settings).inputs if tensor.name not in given]
        self.inputs: Mapping[str, Array] = {**seeded_inputs(wanted), **given}

    def run(self, exposed: Sequence[str], what: str) -> dict[str, Values]:
        """Values of the model's outputs and of `exposed` tensors; without those that an engine leaves out.

        Raises RunError when an engine fails, TilewrightError as the engines do.
        """
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            path = Path(name) / "model.onnx"
            self._tensors.save(path, exposed)
            a, b = (self._results(side, path, what) for side in (0, 1))
        if self._settings.cache_dir == str(self._folder / "cache"):
            shutil.rmtree(self._folder / "cache" / "artefacts", ignore_errors=True)  # kernels stay
        names = [name for name in (*self._tensors.outputs, *exposed) if name in a and name in b]
        return {
            name: Values(a[name], b[name], difference(a[name], b[name], self._tolerance)) for name in names
        }

    def _results(self, side: int, path: Path, what: str) -> Arrays:
        spec, engine = self._specs[side], self._engines[side]
        self._reporter.stage(f"{spec.text}: {what}")
        try:
            engine.imports(spec)
            return engine.open(path, spec, self._settings, path.parent).run(self.inputs)
        except TilewrightError as error:
            raise type(error)(f"engine '{spec.text}', {what}: {error}") from error
        except Exception as error:  # engines raise their libraries' own classes
            raise RunError(f"engine '{spec.text}', {what}: {type(error).__name__}: {error}") from error
