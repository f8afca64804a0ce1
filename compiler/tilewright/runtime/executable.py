"""A compiled network, ready to run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tilewright.config import usable_cpus
from tilewright.dtypes import DTYPES
from tilewright.errors import ArtefactError, RunError
from tilewright.runtime.artefact import read_artefact, write_artefact
from tilewright.runtime.device import Loaded
from tilewright.runtime.package import Argument, Package
from tilewright.runtime.registry import device_for
from tilewright.runtime.tracing import Span, Traced


class Executable:
    """Segments on their devices. `run` may be called from several threads at once.

    inputs, outputs: name, NumPy dtype and shape of each, in the model's order; package: what `save` writes;
    unrunnable: why this machine cannot run it, empty when it can.
    """

    def __init__(
        self, package: Package, loaded: Sequence[Loaded], unsaveable: str = "", unrunnable: str = ""
    ) -> None:
        """loaded: one a segment, none if it is unrunnable; unsaveable: why `save` must refuse, if it must."""
        self.package = package
        self.unrunnable = unrunnable
        self.inputs, self.outputs = package.arguments()
        self._loaded = tuple(loaded)
        self._unsaveable = unsaveable
        self._by_name = {argument.name: argument for argument in self.inputs}
        self._results = {argument.name: argument for argument in self.outputs}
        self._counts = {port.name: port.counts for s in package.segments for port in s.outputs if port.counts}
        self._ports = [
            (
                tuple(port.name for port in s.inputs),
                tuple((port.name, port.shape, DTYPES[port.dtype].numpy) for port in s.outputs),
            )
            for s in package.segments
        ]

    @staticmethod
    def of(package: Package, threads: int | None = None) -> Executable:
        """Loads a package onto its devices. threads: None for all CPUs that this process may use.

        Raises ArtefactError when a device or a feature of the machine is missing.
        """
        count = usable_cpus() if threads is None else threads
        if count < 1:
            raise RunError(f"threads={count}: at least one thread is needed")
        loaded = [device_for(segment.target).load(segment, count) for segment in package.segments]
        return Executable(package, loaded)

    @staticmethod
    def load(path: str | Path, threads: int | None = None) -> Executable:
        """Reads an artefact. Raises ArtefactError that names the file, see `artefact.py`, and as `of`."""
        package = read_artefact(Path(path))
        try:
            return Executable.of(package, threads)
        except ArtefactError as error:
            raise ArtefactError(f"{path}: {error}") from error

    def save(self, path: str | Path) -> None:
        """Writes an artefact.

        Raises ArtefactError when the file cannot be written or the target has no code to save.
        """
        if self._unsaveable:
            raise ArtefactError(f"{path} is not written: {self._unsaveable}")
        write_artefact(self.package, Path(path))

    def __call__(self, *inputs: np.ndarray) -> np.ndarray | tuple[np.ndarray, ...]:
        """Runs on inputs in order; returns the output, or a tuple of them when the model has several."""
        if len(inputs) != len(self.inputs):
            raise RunError(
                f"{len(inputs)} inputs given, the model has {len(self.inputs)}: {_list(self.inputs)}"
            )
        results = self.run({a.name: x for a, x in zip(self.inputs, inputs, strict=True)})
        found = tuple(results[a.name] for a in self.outputs)
        return found[0] if len(found) == 1 else found

    def run(
        self, inputs: Mapping[str, np.ndarray], out: Mapping[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        """Outputs by name, in fresh arrays, or in those of `out` for the outputs that it names.

        An output whose size depends on data is the first part of an array of the size that `outputs` shows.

        Raises RunError when a name, a shape or an element type is not the model's, or an array of `out`
        cannot be filled; ArtefactError when it is `unrunnable`.
        """
        self._require_runnable()
        require_feed(inputs)
        values = {name: _checked(self._by_name, name, array) for name, array in inputs.items()}
        if len(values) != len(self._by_name):
            missing = [a for a in self.inputs if a.name not in values]
            raise RunError(f"missing input {_list(missing)}")
        targets = {} if out is None else self._targets(out, values)
        for (takes, gives), loaded in zip(self._ports, self._loaded, strict=True):
            results = [targets[n] if n in targets else np.empty(shape, dtype) for n, shape, dtype in gives]
            loaded.run([values[name] for name in takes], results)
            values.update(zip((name for name, _, _ in gives), results, strict=True))
        return {name: _cut(values, name, self._counts.get(name, ())) for name in self._results}

    def trace(self, inputs: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[Span]]:
        """As `run`, with what ran when: a span for each segment, and one for each instruction where the
        device tells.
        """
        self._require_runnable()
        spans: list[Span] = []
        start = time.perf_counter()
        traced = [
            Traced(loaded, segment.target, spans, start)
            for loaded, segment in zip(self._loaded, self.package.segments, strict=True)
        ]
        return Executable(self.package, traced).run(inputs), spans

    def _require_runnable(self) -> None:
        if self.unrunnable:
            raise ArtefactError(self.unrunnable)

    def _targets(
        self, out: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        if not isinstance(out, Mapping):
            raise RunError(f"out= takes a dict of arrays by output name, found {type(out).__name__}")
        targets: dict[str, np.ndarray] = {}
        for name, array in out.items():
            expected = self._results.get(name)
            if expected is None:
                raise RunError(f"out= names '{name}'; the outputs are {_list(self.outputs)}")
            _check_target(expected, array)
            for other, taken in (*inputs.items(), *targets.items()):
                if np.may_share_memory(array, taken):
                    raise RunError(
                        f"out= for '{name}' shares memory with '{other}'; give it an array of its own"
                    )
            targets[name] = array
        return targets


def require_feed(inputs: object) -> None:
    """Raise RunError unless inputs are given by name."""
    if not isinstance(inputs, Mapping):
        raise RunError(
            f"run takes a dict of arrays by input name, found {type(inputs).__name__}; "
            "to give arrays in order, call the executable itself"
        )


def _list(arguments: Sequence[Argument]) -> str:
    return ", ".join(map(str, arguments)) or "none"


def _cut(values: Mapping[str, np.ndarray], name: str, counts: Sequence[tuple[int, str]]) -> np.ndarray:
    """An output; where its sizes depend on data, the part that counts."""
    array = values[name]
    for axis, count in counts:
        array = array[(*(slice(None),) * axis, slice(int(values[count])))]
    return array


def _checked(expected: Mapping[str, Argument], name: str, value: np.ndarray) -> np.ndarray:
    wanted = expected.get(name)
    if wanted is None:
        raise RunError(f"the model has no input '{name}'; its inputs are {_list(list(expected.values()))}")
    array = np.asarray(value, order="C")
    if array.dtype != wanted.dtype or array.shape != wanted.shape:
        raise RunError(
            f"input '{name}': expected {wanted.dtype}{list(wanted.shape)}, "
            f"found {array.dtype}{list(array.shape)}"
        )
    return array


def _check_target(expected: Argument, array: np.ndarray) -> None:
    name = expected.name
    if not isinstance(array, np.ndarray):
        raise RunError(f"out= for '{name}': expected a NumPy array, found {type(array).__name__}")
    if array.dtype != expected.dtype or array.shape != expected.shape:
        raise RunError(
            f"out= for '{name}': expected {expected.dtype}{list(expected.shape)}, "
            f"found {array.dtype}{list(array.shape)}"
        )
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise RunError(f"out= for '{name}' must be C-contiguous and writable")
