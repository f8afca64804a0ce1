"""The numerical error of an engine's outputs against a float64 evaluation of the same model and inputs."""

from dataclasses import dataclass

import numpy as np

from tilewright_bench.engines.base import Array, Arrays


@dataclass(frozen=True)
class NumericalError:
    """The worst over all outputs; infinite when an engine gives a NaN or an infinity that the reference has
    not.
    """

    l2_rel_err: float
    max_abs_err: float


def error_against(outputs: Arrays, reference: Arrays) -> NumericalError:
    """Compare outputs by name. Raises ValueError when an output is missing or has another shape."""
    if set(outputs) != set(reference):
        raise ValueError(f"outputs {sorted(outputs)} against a reference of {sorted(reference)}")
    errors = [_error(name, outputs[name], reference[name]) for name in reference]
    return NumericalError(max(e.l2_rel_err for e in errors), max(e.max_abs_err for e in errors))


def _error(name: str, output: Array, reference: Array) -> NumericalError:
    if output.shape != reference.shape:
        raise ValueError(f"output '{name}' has shape {output.shape}, the reference {reference.shape}")
    got, wanted = output.astype(np.float64), reference.astype(np.float64)
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))  # equal infinities differ by NaN
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, got - wanted)
    if not np.all(np.isfinite(difference)):
        return NumericalError(float("inf"), float("inf"))
    norm = float(np.linalg.norm(wanted[np.isfinite(wanted)]))
    distance = float(np.linalg.norm(difference))
    if distance == 0:
        return NumericalError(0.0, 0.0)
    return NumericalError(distance / norm if norm else float("inf"), float(np.abs(difference).max()))
