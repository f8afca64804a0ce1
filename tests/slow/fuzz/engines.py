"""What is compared, and how one engine's results are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

import tilewright as tw
from fuzz.bounds import MODES, OURS, Bounds, Licence, bounds
from fuzz.bounds import PEER as PEER_LICENCE
from fuzz.drawing import Case
from tilewright.errors import TilewrightError
from tilewright.runtime.executable import Executable
from tilewright.source import Source

PEER = "onnxruntime"
PEER_SLACK = 4.0  # ONNX Runtime's functions are less accurate than ours, and it sums in one go


class Refused(Exception):
    """ONNX Runtime does not compute this graph; the message is the rule of PEER_REFUSALS."""


# ONNX Runtime's known refusals: what its message contains. Everything else that it raises is a finding.
PEER_REFUSALS = {
    "NOT_IMPLEMENTED": "operator without an implementation for this type",
}


@dataclass
class Verdict:
    """fault: "" or one line that names engine and output; peer: "" or why ONNX Runtime did not take part."""

    fault: str = ""
    engine: str = ""
    output: str = ""
    peer: str = ""


def judge(case: Case, seed: int, cache: Path, opencl: bool) -> Verdict:
    """Runs a case on all engines; the first disagreement."""
    data = case.model.SerializeToString()
    function = Source.of(data).read({}).entry
    allowed = {OURS: bounds(function, case.feeds, seed)}
    verdict = Verdict()
    for engine, licence, compute in _engines(data, seed, cache, opencl):
        if licence not in allowed:
            allowed[licence] = bounds(function, case.feeds, seed, licence)
        try:
            results = compute(case)
        except Refused as refused:
            verdict.peer = str(refused)
            continue
        except TilewrightError as error:
            return Verdict(f"{engine}: {type(error).__name__}: {error}", engine)
        fault = _fault(engine, results, allowed[licence], 1.0)
        if fault is not None and engine == PEER:
            loose = bounds(function, case.feeds, seed, PEER_LICENCE)
            fault = _fault(engine, results, loose, PEER_SLACK)
            if (
                fault is not None
                and _fault(engine, _peer(case, data, optimise=False), loose, PEER_SLACK) is None
            ):
                verdict.peer, fault = "its optimiser changes the result", None
        if fault is not None:
            return fault
    return verdict


def _fault(engine: str, results: dict[str, np.ndarray], allowed: Bounds, slack: float) -> Verdict | None:
    """The first output that is too far off."""
    for name, result in results.items():
        reason = _difference(result, *allowed[name], slack)
        if reason:
            return Verdict(f"{engine}: output '{name}': {reason}", engine, name)
    return None


def _engines(
    data: bytes, seed: int, cache: Path, opencl: bool
) -> Iterator[tuple[str, Licence, Callable[[Case], dict[str, np.ndarray]]]]:
    """Name, what it may do, and how it computes. Modes beside fp32 take turns."""
    yield "numpy", OURS, lambda case: tw.compile(data, target="numpy").run(case.feeds)
    for level in (0, 3):
        yield f"cpu -O{level}", OURS, lambda case, level=level: _cpu(case, data, cache, opt_level=level)
    yield PEER, OURS, lambda case: _peer(case, data, optimise=seed % 2 == 0)
    mode = sorted(MODES)[seed % len(MODES)]
    yield f"cpu {mode}", MODES[mode], lambda case: _cpu(case, data, cache, precision=mode)
    if opencl:
        yield "opencl", OURS, lambda case: tw.compile(data, target="opencl", cache_dir=cache).run(case.feeds)


def _cpu(case: Case, data: bytes, cache: Path, **options: Any) -> dict[str, np.ndarray]:
    """One and two threads, which must give the same bits. Code does not depend on their number."""
    compiled = tw.compile(data, threads=1, cache_dir=cache, **options)
    single = compiled.run(case.feeds)
    for name, other in Executable.of(compiled.package, 2).run(case.feeds).items():
        if other.tobytes() != single[name].tobytes():
            raise TilewrightError(f"output '{name}' depends on the number of threads")
    return single


def _peer(case: Case, data: bytes, optimise: bool) -> dict[str, np.ndarray]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(None, case.feeds), strict=True))
    except Exception as error:
        for text, rule in PEER_REFUSALS.items():
            if text in str(error):
                raise Refused(rule) from error
        raise TilewrightError(f"{type(error).__name__}: {error}".replace("\n", " ")) from error


def _difference(found: np.ndarray, centre: np.ndarray, bound: np.ndarray | None, slack: float) -> str:
    """Why a result is wrong, or ""."""
    if found.shape != centre.shape:
        return f"shape {list(found.shape)} instead of {list(centre.shape)}"
    if bound is None:
        wrong = found != centre
    else:
        with np.errstate(all="ignore"):
            off = np.abs(found.astype(np.float64) - centre)
        # overflow may or may not happen where the bound is infinite or unknown
        close = (off <= slack * bound) | ~np.isfinite(bound)
        wrong = ~(close | (np.isnan(found) & np.isnan(centre)) | (found == centre))
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    allowed = "" if bound is None else f" ± {float(slack * bound[at]):.3g}"
    count = int(np.count_nonzero(wrong))
    wanted = f"{centre[at]!r}{allowed}"
    return f"{count} of {found.size} elements differ, first {list(at)}: {found[at]!r} instead of {wanted}"
