"""What `tilewright engines` does: list every engine and whether it can run here."""

from typing import Any

from tilewright_bench import tables
from tilewright_bench.engines.registry import known_engines
from tilewright_bench.results import write_result

HEAD = ("engine", "targets", "version", "options")


def run_engines(json_to: str | None) -> None:
    """Show the engines as a table, or write them as JSON."""
    listed = list_engines()
    if json_to:
        write_result({"engines": listed}, json_to)
    if json_to != "-":
        tables.show("engines: name[:target][,key=value…]", HEAD, [_cells(engine) for engine in listed])


def list_engines() -> list[dict[str, Any]]:
    """Every engine: targets, options, availability, version, and why it is not available."""
    listed = []
    for name, engine in sorted(known_engines().items()):
        here = engine.availability()
        listed.append(
            {
                "name": name,
                "targets": list(engine.targets),
                "options": dict(engine.keys),
                "available": here.ok,
                "version": here.version,
                "reason": here.reason,
            }
        )
    return listed


def _cells(engine: dict[str, Any]) -> tuple[str, ...]:
    options = "\n".join(f"{key}: {meaning}" for key, meaning in engine["options"].items())
    version = engine["version"] if engine["available"] else f"not available: {engine['reason']}"
    return (engine["name"], ", ".join(engine["targets"]), version, options)
