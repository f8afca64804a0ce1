"""Why nodes run as they do, for people: the reasons of a segment as lines of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

HEAD = ("node", "algorithm: cycles", "storage", "granted", "saves", "Packs", "template and knobs")


def reason_rows(segment: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """A row under HEAD for each node about which something was decided; figures in cycles.

    segment: as `inspect --json` describes it.
    """
    kernels = {row["name"]: row for row in segment["kernels"]}
    for reason in segment["reasons"]:
        kernel = kernels[reason["kernel"]]
        yield (
            " ".join(reason["nodes"]),
            _algorithm(reason.get("algorithm")),
            *_storage(reason.get("storage")),
            f"{kernel['template']} {kernel.get('knobs', '')}".rstrip(),
        )


def _algorithm(note: dict[str, Any] | None) -> str:
    """The chosen one first; last, why it is not the one of fewest cycles."""
    if note is None:
        return ""
    ordered = sorted(note["cycles"].items(), key=lambda item: item[0] != note["chosen"])
    cycles = ", ".join(f"{name} {cycles:,}" for name, cycles in ordered)
    return f"{cycles}; {note['reason']}" if "reason" in note else cycles


def _storage(note: dict[str, Any] | None) -> tuple[str, str, str, str]:
    """The wish, whether it was granted, what it saves, and what its Packs cost more than those without."""
    if note is None:
        return "", "", "", ""
    wish = f"{', '.join(note['reads'])} -> {note['writes']}"
    if note["gain"] is None:
        return wish, "always", "", ""
    more = note["packs_wished"] - note["packs_plain"]
    return wish, "yes" if note["granted"] else "no", f"{note['gain']:,}", f"{more:+,}"
