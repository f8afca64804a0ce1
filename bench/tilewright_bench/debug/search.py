"""The first tensor that diverges: by looking at all of them at once, or one at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.errors import RunError
from tilewright_bench.debug.probe import Prober, Values
from tilewright_bench.debug.tensors import ModelTensors, TensorOfModel, frontier

MODES = ("all", "bisect")


@dataclass(frozen=True)
class Found:
    """`values` of the tensors that were looked at, in topological order; `first` is None when none diverges.

    `healed`: tensors which, when they are returned, make the outputs agree: their kernel is at fault.
    """

    first: TensorOfModel | None
    values: Mapping[TensorOfModel, Values]
    total: int
    missing: Sequence[str] = ()
    healed: Sequence[str] = field(default=())


def search_all(tensors: ModelTensors, prober: Prober, tolerance: float) -> Found:
    """All tensors are outputs of one model, so none disappears in a kernel. Raises as Prober.run."""
    order = tensors.all
    values = prober.run([tensor.name for tensor in order], f"all {len(order)} tensors")
    found = {tensor: values[tensor.name] for tensor in order if tensor.name in values}
    first = next((t for t, value in found.items() if value.difference.exceeds(tolerance)), None)
    missing = [tensor.name for tensor in order if tensor.name not in values]
    return Found(first, found, len(order), missing)


def search_by_bisection(tensors: ModelTensors, prober: Prober, tolerance: float) -> Found:
    """One tensor at a time is an output too, so that all other kernels are fused as they are without it.

    The search goes over cuts through the model: all that comes behind a cut is computed from the few tensors
    that cross it. An error that reaches an output crosses every cut behind its origin, so the first cut that
    it crosses is found by halving. Raises as Prober.run, and RunError when an engine does not return a
    tensor.
    """
    outputs = prober.run((), "the model as it is")
    total = len(tensors.all)
    by_name = {tensor.name: tensor for tensor in tensors.all}
    wrong = [name for name, value in outputs.items() if value.difference.exceeds(tolerance)]
    seen = {by_name[name]: value for name, value in outputs.items() if name in by_name}
    if not wrong:
        return Found(None, seen, total, [name for name in tensors.outputs if name not in outputs])
    order = tensors.before(wrong)
    if not order:
        raise RunError(f"output '{wrong[0]}' diverges, but no node of the model makes it")
    positions = sorted({tensor.position for tensor in order})
    healed: list[str] = []

    def diverges(name: str) -> bool:
        tensor = by_name[name]
        if tensor not in seen:
            values = prober.run((name,), f"tensor '{name}', {len(seen) + 1} of {total} looked at")
            if name not in values:
                raise RunError(f"tensor '{name}' is returned by one engine only; try --mode all")
            seen[tensor] = values[name]
            if not any(values[out].difference.exceeds(tolerance) for out in wrong if out in values):
                healed.append(name)
        return seen[tensor].difference.exceeds(tolerance)

    low, high = 0, len(positions) - 1  # the cut behind the last node is the outputs, which diverge
    while low < high:
        middle = (low + high) // 2
        if any(diverges(name) for name in frontier(order, wrong, positions[middle])):
            high = middle
        else:
            low = middle + 1
    made = [tensor for tensor in order if tensor.position == positions[low]]
    first = next((tensor for tensor in made if diverges(tensor.name)), None)
    if first is None:
        # Not of this node, so one that crosses the cut and was computed earlier.
        crossing = [by_name[name] for name in frontier(order, wrong, positions[low])]
        first = next(tensor for tensor in crossing if diverges(tensor.name))
    return Found(first, {t: seen[t] for t in tensors.all if t in seen}, total, (), healed)
