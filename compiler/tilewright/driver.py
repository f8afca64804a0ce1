"""From a model to an executable: `load`, `compile` and `evaluate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import tilewright
from tilewright.binding import UnboundExecutable, bind, check_names, is_unbound
from tilewright.cache import ArtefactCache, make_key
from tilewright.config import CompileOptions, parts_left_out, usable_cpus
from tilewright.disk_cache import DiskCache
from tilewright.dump import Dump
from tilewright.errors import ArtefactError, UsageError
from tilewright.graph.ir import Function, Module
from tilewright.lower.build import build_program
from tilewright.lower.kernels import Progress
from tilewright.lower.store import ROOM, SUFFIX, KernelStore
from tilewright.lower.target import Target
from tilewright.machine import Machine
from tilewright.ops.evaluate import evaluate_function
from tilewright.passes.verify import verify_function
from tilewright.pipeline import passes_for, program_passes_for
from tilewright.program.planner import plan
from tilewright.program.summary import summarise, with_target_info
from tilewright.program.verify import verify_program
from tilewright.runtime.executable import Executable
from tilewright.runtime.package import Package
from tilewright.runtime.registry import device_for
from tilewright.segment import Segment
from tilewright.source import Model, Source

if TYPE_CHECKING:
    from tilewright.frontend.signature import Signature

# Targets by name: where the class lives that the compiler asks. Imported on use, because each may need its
# own library.
TARGETS = {
    "cpu": ("tilewright.targets.cpu.target", "CpuTarget"),
    "opencl": ("tilewright.targets.opencl.target", "OpenClTarget"),
    "numpy": ("tilewright.targets.numpy.target", "NumpyTarget"),
}
WITH_DEVICES = ("opencl",)  # targets that take a device: `opencl:NAME`


def load(path: str | Path, dims: Mapping[str, int] | None = None) -> Module:
    """The graph of an ONNX file. dims: sizes of named dimensions. Raises UsageError, ImportModelError."""
    source = Source.of(path)
    _signature(source, dims or {})
    return source.read(dims or {})


def compile(
    model: Model,
    target: str = "cpu",
    precision: str = "fp32",
    threads: int | None = None,
    opt_level: int = 3,
    without: str | Sequence[str] = (),
    cache_dir: str | Path | None = None,
    dims: Mapping[str, int] | None = None,
    machine: str | Path | None = None,
    dump_dir: str | Path | None = None,
    verify_each: bool = False,
    progress: Progress | None = None,
) -> Executable:
    """Compile a model: an ONNX file, its bytes, a `ModelProto`, or a graph from `load`; it is left as it is.

    target: `cpu`, `opencl[:NAME]` or `numpy`; threads: None for all usable CPUs; without: optimisations to
    leave out, in a text separated by commas; cache_dir: None for the user's; machine: a profile of the
    machine to compile for, None for this one; dump_dir: gets the text of every stage; verify_each: check the
    graph after every pass.
    An executable for a `machine` that this one falls short of can be saved, and says so when it is run:
    `Executable.unrunnable`.
    Sizes that neither the model nor `dims` gives, and inputs that feed shape operands only, are bound at the
    first call (`binding.py`). Raises UsageError, ImportModelError, LoweringError, CodegenError, CacheError.
    """
    options = CompileOptions(
        target=target,
        precision=precision,
        threads=threads,
        level=opt_level,
        without=parts_left_out(without) if isinstance(without, str) else tuple(without),
        dims={name: _plain(size) for name, size in (dims or {}).items()},
        machine=None if machine is None else Path(machine),
        cache_dir=None if cache_dir is None else Path(cache_dir),
        verify_each=verify_each,
        dump_dir=None if dump_dir is None else Path(dump_dir),
    )
    return compile_with(Source.of(model), options, progress)


def _plain(size: Any) -> Any:
    """A NumPy integer as Python's; the options check everything else."""
    return int(size) if isinstance(size, np.integer) else size


def compile_with(source: Source, options: CompileOptions, progress: Progress | None = None) -> Executable:
    """As `compile`, with the options as a value."""
    target = make_target(options)
    found = _find(source, options, target)
    if found is not None:  # what is in the cache has no open sizes, and need not be read again
        return found
    signature = _signature(source, options.dims)
    if signature is None or not is_unbound(signature, options.dims):
        return _compile_bound(source, options, target, {}, progress)

    def compile_bound(dims: Mapping[str, int], values: Mapping[str, np.ndarray]) -> Executable:
        require_runnable(options)
        bound = replace(options, dims=dict(dims))
        return _find(source, bound, target, values) or _compile_bound(source, bound, target, values, progress)

    empty = package_of(source, options, (), {"level": options.level})
    return UnboundExecutable(empty, signature, options.dims, compile_bound)


def _signature(source: Source, dims: Mapping[str, int]) -> Signature | None:
    """As `Source.signature`. Raises UsageError for a size in `dims` that the model does not have."""
    signature = source.signature()
    if signature is not None:
        check_names(signature, dims)
    elif dims:
        raise UsageError(f"a graph has its sizes already; '{next(iter(dims))}' cannot be bound in it")
    return signature


def _find(
    source: Source, options: CompileOptions, target: Target, values: Mapping[str, np.ndarray] | None = None
) -> Executable | None:
    """The executable from the cache of artefacts, None when it is not there or not to be taken from there."""
    if target.name == "numpy" or options.dump_dir is not None:
        return None  # nothing to cache; or the stages are wanted, so every one of them must run
    package = _artefacts(options).get(_key(source, options, target, values or {}))
    return None if package is None else _executable(package, options)


def _compile_bound(
    source: Source,
    options: CompileOptions,
    target: Target,
    values: Mapping[str, np.ndarray],
    progress: Progress | None,
) -> Executable:
    """The executable of a model without open sizes."""
    if target.name == "numpy":
        return _oracle(source, options, target, values)
    if options.dump_dir is not None:
        return _executable(_compile(source, options, target, values, progress), options)
    artefacts, key = _artefacts(options), _key(source, options, target, values)
    with artefacts.locked(key):
        package = artefacts.get(key)  # another process may have made it while this one waited
        if package is None:
            package = _compile(source, options, target, values, progress)
            artefacts.put(key, package)
    return _executable(package, options)


def _executable(package: Package, options: CompileOptions) -> Executable:
    """The package on this machine's devices; on none when they refuse what was made for a named machine."""
    try:
        return Executable.of(package, options.threads)
    except ArtefactError as error:
        if options.machine is None:
            raise
        return Executable(package, (), unrunnable=str(error))


def _artefacts(options: CompileOptions) -> ArtefactCache:
    return ArtefactCache(options.caches)


def _key(source: Source, options: CompileOptions, target: Target, values: Mapping[str, np.ndarray]) -> str:
    facts = _facts(options, target)
    if values:
        facts["values"] = {name: _described(array) for name, array in sorted(values.items())}
    return make_key(source.digest, facts)


def _described(array: np.ndarray) -> list[Any]:
    return [str(array.dtype), list(array.shape), array.tobytes().hex()]


def evaluate(
    model: Model,
    inputs: Mapping[str, np.ndarray],
    dtype: str = "float64",
    dims: Mapping[str, int] | None = None,
) -> dict[str, np.ndarray]:
    """The reference meaning of a model: its graph run with NumPy, floating values computed in `dtype`.

    Raises as `load`, and RunError for inputs that do not fit.
    """
    source = Source.of(model)
    signature = _signature(source, dims or {})
    if signature is None or not is_unbound(signature, dims or {}):
        return evaluate_function(source.read(dims or {}).entry, inputs, np.dtype(dtype))
    found, values = bind(signature, dims or {}, inputs)
    rest = {name: array for name, array in inputs.items() if name not in signature.by_value}
    return evaluate_function(source.read(found, values).entry, rest, np.dtype(dtype))


def make_target(options: CompileOptions) -> Target:
    """The target that the options name.

    Raises UsageError when there is none of that name, it is not installed, or it has no such device.
    """
    name, colon, _ = options.target.partition(":")
    if colon and name in TARGETS and name not in WITH_DEVICES:
        raise UsageError(f"target '{options.target}': {name} has no devices to choose from; say '{name}'")
    if name not in TARGETS:
        raise UsageError(f"unknown target '{options.target}'; known: {', '.join(TARGETS)}")
    module, attribute = TARGETS[name]
    machine = None if options.machine is None else Machine.from_file(options.machine)
    made: Target = getattr(import_module(module), attribute)(machine, options)
    return made


def require_runnable(options: CompileOptions) -> None:
    """Refuse a machine whose code this one will not run, before anything is compiled.

    Raises ArtefactError with the features that are missing, and as `make_target`.
    """
    if options.machine is None:
        return  # the host
    target = make_target(options)
    if target.name != "numpy":  # which has no code
        device_for(target.name).require(target.machine.features)


def _facts(options: CompileOptions, target: Target) -> dict[str, Any]:
    """Everything beside the model that decides how the artefact looks."""
    return {
        "target": options.target,
        "machine": target.machine.key,
        "precision": options.precision,
        "threads": options.threads or usable_cpus(),
        "level": options.level,
        "without": sorted(options.without),
        "dims": dict(sorted(options.dims.items())),
    }


def _compile(
    source: Source,
    options: CompileOptions,
    target: Target,
    values: Mapping[str, np.ndarray],
    progress: Progress | None,
) -> Package:
    dump = Dump(options.dump_dir)
    function = source.read(options.dims, values).entry
    info = {"ops": dict(Counter(node.op for node in function.nodes)), "level": options.level}
    optimise(function, options, target, dump)
    program = build_program(function, target, _kernel_store(options, target), progress)
    dump.program("built", program)
    for step in program_passes_for(options.level):
        program = step(program)
        verify_program(program)
    placed = plan(program)
    dump.planned(program, placed)
    segment = target.assemble(program, placed)
    segment = replace(segment, info=with_target_info(summarise(program, placed), segment.info))
    return package_of(source, options, (segment,), info)


def _kernel_store(options: CompileOptions, target: Target) -> KernelStore | None:
    """Where lowered kernels are kept; None when the stages are wanted, so that every one of them runs.

    Raises CacheError.
    """
    if options.dump_dir is not None:
        return None
    return KernelStore(DiskCache(options.caches, ROOM, SUFFIX), target)


def optimise(function: Function, options: CompileOptions, target: Target, dump: Dump) -> None:
    """Run the graph passes of the options on a function, in place."""
    dump.graph("read", function)
    for step in passes_for(options.level, options.without, target):
        changed = step.run(function)
        if options.verify_each:
            verify_function(function)
        if changed:
            dump.graph(step.name, function)


def package_of(
    source: Source, options: CompileOptions, segments: tuple[Segment, ...], info: dict[str, Any]
) -> Package:
    """Segments as a package; its inputs and outputs are those that no other segment gives or takes."""
    given = {port.name for segment in segments for port in segment.outputs}
    taken = {port.name for segment in segments for port in segment.inputs}
    inputs = [p.name for s in segments for p in s.inputs if p.name not in given or len(segments) == 1]
    outputs = [p.name for s in segments for p in s.outputs if p.name not in taken or len(segments) == 1]
    counts = {name for s in segments for p in s.outputs for _, name in p.counts}
    return Package(
        model=source.digest,
        target=options.target,
        segments=segments,
        inputs=tuple(dict.fromkeys(inputs)),
        outputs=tuple(name for name in dict.fromkeys(outputs) if name not in counts),
        versions={"tilewright": tilewright.__version__},
        info=info | {"precision": options.precision, "without": list(options.without)},
    )


def _oracle(
    source: Source, options: CompileOptions, target: Target, values: Mapping[str, np.ndarray]
) -> Executable:
    """The graph itself as an executable: nothing to cache, nothing to save."""
    from tilewright.targets.numpy.target import GraphRun, graph_segment

    function = source.read(options.dims, values).entry
    info = {"ops": dict(Counter(node.op for node in function.nodes)), "level": options.level}
    optimise(function, options, target, Dump(options.dump_dir))
    package = package_of(source, options, (graph_segment(function),), info)
    reason = "target 'numpy' evaluates the graph and has no code to save; compile for 'cpu' or 'opencl'"
    return Executable(package, (GraphRun(function),), unsaveable=reason)
