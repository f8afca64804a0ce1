"""What a row must say about its origin before it may stand in a report.

Without these nobody could repeat the measurement, or know what a number stands for.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]

# The commit may read "unknown" (installed without a checkout): then the versions identify the code, and the
# page says so. Missing altogether, the file was not made by this project's commands.
ENVIRONMENT = ("commit", "affinity", "cpu", "flags")
ENVIRONMENT_KEYS = ("dirty",)  # null: there was no checkout to be dirty
BENCH = ("model_sha256", "engine_version", "ftz")
BENCH_KEYS = ("records_sha256",)  # null: no tuning records were used
ACCURACY = ("model_sha256", "engine_version")


def missing_provenance(
    row: Json, environment: Json, fields: Sequence[str], keys: Sequence[str] = ()
) -> list[str]:
    """The names of what is missing, e.g. 'provenance.model_sha256'; empty when the row is reportable.

    `fields` must have a value, `keys` must be there and may be null.
    """
    provenance = row.get("provenance") or {}
    return [
        *(f"environment.{name}" for name in ENVIRONMENT if _is_empty(environment.get(name))),
        *(f"environment.{name}" for name in ENVIRONMENT_KEYS if name not in environment),
        *(f"provenance.{name}" for name in fields if _is_empty(provenance.get(name))),
        *(f"provenance.{name}" for name in keys if name not in provenance),
    ]


def repeatable(environment: Json) -> bool:
    """Whether the environment names the code exactly: a commit without changes on top."""
    return environment.get("commit") not in (None, "", "unknown") and environment.get("dirty") is False


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {})
