"""What an engine is: parse its options, say whether it is here, prepare a model, load it, run it.

Every engine is measured across the same boundary: host arrays in, host arrays out.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import tilewright as tw
from tilewright.errors import UsageError

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]

PRECISIONS = tuple(tw.PRECISIONS)  # what a run may ask for

# Classes whose contract results of another class keep as well.
KEPT_BY: Mapping[str, tuple[str, ...]] = {"fp32-fast": ("fp32",)}
FLOAT32 = ("fp32", *(name for name, kept in KEPT_BY.items() if "fp32" in kept))  # where float32 is enough


class TensorInfo(Protocol):
    """Name, element type and shape (all numbers) of one input or output of a loaded model."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Tensor:
    """A plain `TensorInfo`."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class EngineSpec:
    """An engine as the user wrote it: `name[:target][,key=value…]`, checked against what the engine knows."""

    text: str
    name: str
    target: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """What every engine of one comparison is given alike.

    `threads` counts the calling thread too; so many serve each of `concurrency` runs at a time. `dims` binds
    named dimensions. `opt_level`, `without` and `cache_dir` matter to Tilewright only.
    """

    threads: int
    precision: str = "fp32"
    dims: Mapping[str, int] = field(default_factory=dict)
    opt_level: int = 3
    without: tuple[str, ...] = ()
    cache_dir: str | None = None
    concurrency: int = 1

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "dims": dict(self.dims), "without": list(self.without)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Settings":
        return cls(**{**data, "without": tuple(data["without"])})


@dataclass(frozen=True)
class Availability:
    """Whether an engine can run here; `reason` says why not, and what to install."""

    ok: bool
    version: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Prepared:
    """The file that `load` reads, and what the work ahead of time took (None: there is none)."""

    path: Path
    compile_s: float | None = None
    records_sha256: str | None = None


@dataclass(frozen=True)
class Step:
    """A part of one run that an engine times itself, e.g. a kernel call.

    `nodes` are the model's nodes it came from; `flops`, `int_ops` and `bytes` count all its `times` turns
    together, `footprint` is the bytes that one turn touches; `intrinsics` are the operations of both kinds in
    loops of an intrinsic, by its name.
    """

    name: str
    seconds: float
    nodes: tuple[str, ...]
    flops: int
    bytes: int
    footprint: int
    times: int
    template: str = ""
    int_ops: int = 0
    intrinsics: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Profiled:
    """What an engine's own profiler says of one of its kernels inside the network.

    `names` are names it may go by in the model, of a node or of a node's result, likeliest first; `ms` is the
    median over the runs.
    """

    names: tuple[str, ...]
    ms: float


class Session(ABC):
    """A loaded model. `precision` is the class the engine really computes in, `notes` what a reader must
    know; a relative error above `l2_limit` shows that it computes in another one.
    """

    inputs: Sequence[TensorInfo]
    outputs: Sequence[str]
    precision: str
    notes: Mapping[str, Any]
    l2_limit: float | None = None

    @abstractmethod
    def run(self, inputs: Arrays) -> Arrays:
        """Run once; returns when the outputs are complete host arrays. Raises the engine's own error."""

    def trace(self, inputs: Arrays) -> "Sequence[Step] | None":
        """Run once and say what each step took; None from engines that do not."""
        return None

    def beside(self) -> "Session":
        """A session of the same model that may run at the same time as this one; itself where one is
        enough.
        """
        return self


class Engine(ABC):
    """One engine. Importing its module must not import the library it stands for.

    `classes` are those of precision that it may be asked for; `choices` are the values of options that have
    few.
    """

    name: str
    classes: tuple[str, ...] = PRECISIONS
    targets: tuple[str, ...]
    keys: Mapping[str, str]  # option → what it takes, for messages and `tilewright engines`
    choices: Mapping[str, Sequence[str]] = {}

    def check(self, options: Mapping[str, str]) -> None:
        """Refuse what no model could change. Raises UsageError that lists what is known."""
        for key, known in self.choices.items():
            if key in options:
                one_of(self.name, key, options[key], known)

    @abstractmethod
    def availability(self) -> Availability:
        """Whether the engine can be used here, without loading a model."""

    @abstractmethod
    def imports(self, spec: EngineSpec) -> None:
        """Import everything that `load` and `run` need, so that neither pays for it."""

    def prepare(self, model: Path, spec: EngineSpec, settings: Settings, folder: Path) -> Prepared:
        """Do what the engine does ahead of time, writing below `folder`. Most engines have no such step."""
        return Prepared(model)

    def profile(
        self, prepared: Prepared, spec: EngineSpec, settings: Settings, inputs: Arrays, runs: int
    ) -> Sequence[Profiled] | None:
        """Run the model with the engine's own profiler; None from engines without one."""
        return None

    @abstractmethod
    def load(self, prepared: Prepared, spec: EngineSpec, settings: Settings) -> Session:
        """Load what `prepare` returned. Raises UsageError where the engine cannot honour the settings."""

    def open(self, model: Path, spec: EngineSpec, settings: Settings, folder: Path) -> Session:
        """`prepare` and `load` in one, where nobody wants the time of either."""
        return self.load(self.prepare(model, spec, settings, folder), spec, settings)


def class_of(computed: str, asked: str) -> str:
    """The class of a row: that of the run where results computed in `computed` keep its contract."""
    return asked if computed in KEPT_BY.get(asked, ()) else computed


def one_of(engine: str, key: str, value: str, known: Sequence[str]) -> str:
    """The value of an engine's option, or a UsageError that lists what is known."""
    if value not in known:
        raise UsageError(f"engine '{engine}': {key}={value} is not known; choose one of {', '.join(known)}")
    return value


def bound_shape(shape: Sequence[int | str | None], dims: Mapping[str, int], what: str) -> tuple[int, ...]:
    """A shape with its named dimensions replaced by numbers. Raises UsageError that names the free ones."""
    bound = [dims.get(extent, extent) if isinstance(extent, str) else extent for extent in shape]
    free = [str(extent) for extent in bound if not isinstance(extent, int)]
    if free:
        hint = " ".join(f"--dim {name}=N" for name in free)
        raise UsageError(f"{what} has dimensions without a value: {', '.join(free)}; give {hint}")
    return tuple(extent for extent in bound if isinstance(extent, int))
