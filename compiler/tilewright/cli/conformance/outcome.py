"""What became of one case."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.cli.conformance.cases import Case
from tilewright.cli.conformance.compare import difference
from tilewright.errors import CodegenError, ImportModelError, LoweringError
from tilewright.frontend import onnx_reader  # noqa: F401  loaded here once, not in every worker
from tilewright.onnx_backend import prepare

# Errors by which the compiler says that it does not support something; anything else is a fault.
REFUSALS = (ImportModelError, LoweringError, CodegenError)


@dataclass(frozen=True)
class Outcome:
    """status: `passed`, `failed` or `refused`; reason: why not passed; seconds: compilation and run."""

    status: str
    reason: str = ""
    seconds: float = 0.0


def run_case(case: Case, options: Mapping[str, Any]) -> Outcome:
    """Compile and run a case through the ONNX backend. options: of `tilewright.compile`."""
    start = time.perf_counter()
    status, reason = _verdict(case, options)
    return Outcome(status, " ".join(reason.split()), time.perf_counter() - start)


def _verdict(case: Case, options: Mapping[str, Any]) -> tuple[str, str]:
    try:
        model, data_sets = case.read()
        prepared = prepare(model, **options)
        for given, wanted in data_sets:
            reason = difference(wanted, prepared.run(given), case.rtol, case.atol)
            if reason:
                return "failed", reason
    except REFUSALS as error:
        return "refused", str(error)
    except Exception as error:  # whatever it is, it belongs to this case: the run goes on
        return "failed", f"{type(error).__name__}: {error}"
    return "passed", ""
