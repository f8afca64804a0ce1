"""Which machine a result comes from. Numbers of different machines never stand in one comparison."""

import hashlib
from collections.abc import Mapping
from typing import Any

DIGITS = 6


def bench_machine(environment: Mapping[str, Any]) -> str:
    """The machine of a bench or accuracy file: processor, number of CPUs, and a digest of its feature flags.

    The digest tells apart two hosts that mask features differently behind one processor name.
    """
    flags = " ".join(sorted(environment.get("flags") or []))
    digest = hashlib.sha256(flags.encode()).hexdigest()[:DIGITS]
    cpus = environment.get("host_cpus")
    count = f"{cpus} CPUs, " if cpus else ""
    return f"{environment.get('cpu') or 'unknown processor'} ({count}features {digest})"


def asv_machine(params: Mapping[str, Any]) -> str:
    """The machine of an asv result file: asv's own name for it, its processor and number of CPUs."""
    return f"{params['machine']}: {params['cpu']} ({params.get('num_cpu') or '?'} CPUs)"
