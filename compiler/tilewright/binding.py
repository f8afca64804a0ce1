"""Executables of models whose sizes are bound at the first call, one compilation for each binding."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import RunError, UsageError
from tilewright.runtime.executable import Executable, require_feed
from tilewright.runtime.package import Argument, Package
from tilewright.runtime.tracing import Span

if TYPE_CHECKING:
    from tilewright.frontend.signature import DeclaredTensor, Signature

Dims = Mapping[str, int]
Values = Mapping[str, np.ndarray]
CompileBound = Callable[[Dims, Values], Executable]

KEPT = 32  # compiled bindings in memory; the cache of artefacts has those that had to go


class UnboundExecutable(Executable):
    """An executable that takes sizes from the shapes of its inputs, and values from its shape operands.

    It compiles once for each binding; other calls wait meanwhile. `inputs` and `outputs` show open sizes by
    name; an output whose type the model does not declare has dtype void.
    """

    def __init__(
        self, package: Package, signature: Signature, dims: Dims, compile_bound: CompileBound
    ) -> None:
        """package: without segments; dims: sizes that are bound already."""
        self._signature = signature
        self._dims = dict(dims)
        self._compile = compile_bound
        self._bound: OrderedDict[tuple[object, ...], Executable] = OrderedDict()
        self._lock = Lock()
        super().__init__(package, (), unsaveable=unbound_reason(signature, dims, _as_argument))
        self.inputs = tuple(_argument(tensor, dims) for tensor in signature.inputs)
        self.outputs = tuple(_argument(tensor, dims) for tensor in signature.outputs)

    def require_bound(self, what: str) -> None:
        """Raise UsageError that says what is open, and the options of the command line that bind it.

        what: the thing that needs all sizes, for the message.
        """
        raise UsageError(f"{what}: {unbound_reason(self._signature, self._dims, _as_options)}")

    def open_arguments(self, given: Values) -> tuple[Argument, ...]:
        """The inputs that `given` lacks, with the sizes that its arrays bind.

        Raises RunError when given arrays do not fit, UsageError when a size or a value stays open.
        """
        dims = dict(self._dims)
        sources = dict.fromkeys(dims, "it was bound before")
        for tensor in self._signature.inputs:
            if tensor.name in given:
                _bind_sizes(tensor, given[tensor.name], dims, sources)
        missing = [tensor for tensor in self._signature.inputs if tensor.name not in given]
        values = [tensor.name for tensor in missing if tensor.name in self._signature.needs_values]
        if values:
            raise UsageError(
                f"input '{values[0]}' decides shapes, so no value can be made up for it; "
                f"give --input {values[0]}=FILE.npy"
            )
        names = [e for tensor in missing for e in tensor.bound(dims) or () if isinstance(e, str)]
        if names:
            once = list(dict.fromkeys(names))
            raise UsageError(f"{_list('size', once)} not bound; give {_as_options(once)}")
        return tuple(_argument(tensor, dims) for tensor in missing)

    def run(
        self, inputs: Mapping[str, np.ndarray], out: Mapping[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        """As `Executable.run`; compiles for sizes and shape operands that it has not met.

        Raises RunError also when sizes contradict one another, and as `tilewright.compile`.
        """
        executable, rest = self._bind(inputs)
        return executable.run(rest, out)

    def trace(self, inputs: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[Span]]:
        executable, rest = self._bind(inputs)
        return executable.trace(rest)

    def _bind(self, inputs: Mapping[str, np.ndarray]) -> tuple[Executable, dict[str, np.ndarray]]:
        require_feed(inputs)
        arrays = {name: np.asarray(array) for name, array in inputs.items()}
        dims, values = bind(self._signature, self._dims, arrays)
        key = (*sorted(dims.items()), *((n, v.shape, v.tobytes()) for n, v in sorted(values.items())))
        rest = {name: array for name, array in arrays.items() if name not in self._signature.by_value}
        with self._lock:
            executable = self._bound.get(key)
            if executable is None:
                executable = self._bound[key] = self._compile(dims, values)
            self._bound.move_to_end(key)
            if len(self._bound) > KEPT:
                self._bound.popitem(last=False)
        return executable, rest


def bind(signature: Signature, dims: Dims, inputs: Values) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    """Sizes by name and values of shape operands, from the inputs of a call.

    dims: sizes known before. Raises RunError for missing and unknown inputs, for element types, ranks and
    sizes that differ from the declared, and for a size with two values.
    """
    names = [tensor.name for tensor in signature.inputs]
    wrong = [*(n for n in names if n not in inputs), *(n for n in inputs if n not in names)]
    if wrong:
        raise RunError(
            f"input '{wrong[0]}' is missing or unknown; the model takes {', '.join(names) or 'none'}"
        )
    found = dict(dims)
    sources = dict.fromkeys(dims, "it was bound before")
    for tensor in signature.inputs:
        _bind_sizes(tensor, inputs[tensor.name], found, sources)
    values = {name: inputs[name] for name in names if name in signature.needs_values}
    return found, values


def _bind_sizes(
    tensor: DeclaredTensor, array: np.ndarray, found: dict[str, int], sources: dict[str, str]
) -> None:
    shape = tensor.shape or ()
    assert tensor.dtype is not None
    if array.dtype != tensor.dtype.numpy or array.ndim != len(shape):
        expected = f"{tensor.dtype.numpy}[{', '.join(map(str, shape))}]"
        raise RunError(f"input '{tensor.name}': expected {expected}, found {array.dtype}{list(array.shape)}")
    for axis, (extent, size) in enumerate(zip(shape, array.shape, strict=True)):
        where = f"input '{tensor.name}' axis {axis}"
        if isinstance(extent, int):
            if extent != size:
                raise RunError(f"{where}: expected size {extent}, found {size}")
        elif found.setdefault(extent, size) != size:
            reason = f"{sources[extent]} as {found[extent]}"
            raise RunError(f"{where}: dimension {extent} is {size} here, but {reason}")
        else:
            sources.setdefault(extent, f"{where} has it")


def check_names(signature: Signature, dims: Dims) -> None:
    """Raise UsageError for a size whose name the model does not have; it lists the names that it has."""
    unknown = [name for name in dims if name not in signature.dims]
    if unknown:
        raise UsageError(
            f"the model has no dimension '{unknown[0]}' to bind; its named dimensions are "
            f"{', '.join(signature.dims) or 'none'}"
        )


def unbound_reason(signature: Signature, dims: Dims, written: Callable[[list[str]], str]) -> str:
    """Which sizes and values are open, and how to give them; empty when none is.

    written: how sizes are given there, for the message.
    """
    names = signature.unbound_dims(dims)
    parts = []
    if names:
        parts.append(f"{_list('size', names)} not bound, give {written(names)}")
    if signature.needs_values:
        values = sorted(signature.needs_values)
        parts.append(f"{_list('shape operand', values)} known at a call only, make it an initializer")
    return "; ".join(parts)


def is_unbound(signature: Signature, dims: Dims) -> bool:
    """Whether a size or a value is open."""
    return bool(signature.needs_values or signature.unbound_dims(dims))


def _as_options(names: list[str]) -> str:
    return " ".join(f"--dim {name}=NUMBER" for name in names)


def _as_argument(names: list[str]) -> str:
    return f"dims={{{', '.join(f'{name!r}: NUMBER' for name in names)}}}"


def _list(word: str, names: list[str]) -> str:
    return f"the {word}{'s' if len(names) > 1 else ''} {', '.join(names)} {'are' if len(names) > 1 else 'is'}"


def _argument(tensor: DeclaredTensor, dims: Dims) -> Argument:
    dtype = np.dtype(np.void) if tensor.dtype is None else tensor.dtype.numpy
    return Argument(tensor.name, dtype, tensor.bound(dims) or ())
