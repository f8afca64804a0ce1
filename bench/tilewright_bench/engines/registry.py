"""Which engines exist, and how `name[:target][,key=value…]` is read."""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tilewright.errors import UsageError
from tilewright_bench.engines.base import Engine, EngineSpec


@cache
def known_engines() -> Mapping[str, Engine]:
    """Every engine by name: the `ENGINE` of each module of this folder that has one."""
    package = __name__.rpartition(".")[0]
    found: dict[str, Engine] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        engine = getattr(importlib.import_module(f"{package}.{module.name}"), "ENGINE", None)
        if isinstance(engine, Engine):
            found[engine.name] = engine
    return found


def parse_engine(text: str) -> EngineSpec:
    """Read an engine's text. Raises UsageError that lists what is known when a part is not."""
    head, *pairs = text.split(",")
    name, _, target = head.partition(":")
    engines = known_engines()
    if name not in engines:
        raise UsageError(f"unknown engine '{name}' in '{text}'; known engines: {', '.join(sorted(engines))}")
    engine = engines[name]
    target = target or engine.targets[0]
    if target.partition(":")[0] not in engine.targets:
        raise UsageError(
            f"engine '{name}' has no target '{target}'; its targets: {', '.join(engine.targets)}"
        )
    return EngineSpec(text, name, target, _options(engine, pairs, text))


def engine_of(spec: EngineSpec) -> Engine:
    """The engine that a spec names. Raises UsageError with the engine's reason when it cannot run here."""
    engine = known_engines()[spec.name]
    availability = engine.availability()
    if not availability.ok:
        raise UsageError(f"engine '{spec.name}' is not available: {availability.reason}")
    return engine


def _options(engine: Engine, pairs: list[str], text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not value:
            raise UsageError(f"engine '{text}': '{pair}' is not key=value")
        if key not in engine.keys:
            known = ", ".join(sorted(engine.keys)) or "none"
            raise UsageError(f"engine '{engine.name}' has no option '{key}'; its options: {known}")
        options[key] = value
    engine.check(options)
    return options
