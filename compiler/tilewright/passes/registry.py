"""Passes by name, and the text that selects them: `fold{max_bytes=1000},fuse`."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from tilewright.errors import UsageError
from tilewright.passes.base import Pass
from tilewright.passes.cse import Cse
from tilewright.passes.dce import Dce
from tilewright.passes.empty import Empty
from tilewright.passes.fold import Fold
from tilewright.passes.fold_activation import FoldActivation
from tilewright.passes.fold_batch_norm import FoldBatchNorm
from tilewright.passes.fold_pad import FoldPad
from tilewright.passes.fuse import Fuse
from tilewright.passes.identity import Identity
from tilewright.passes.im2col import Im2col
from tilewright.passes.lower import Lower
from tilewright.passes.narrow_products import NarrowProducts
from tilewright.passes.round_operands import RoundOperands
from tilewright.passes.simplify_reshape import SimplifyReshape
from tilewright.passes.simplify_transpose import SimplifyTranspose
from tilewright.passes.slice_splits import SliceSplits
from tilewright.passes.split_precision import SplitPrecision
from tilewright.passes.storage import ChooseStorage
from tilewright.passes.winograd import Winograd

PASSES: dict[str, type[Pass]] = {
    kind.name: kind
    for kind in (
        Fold,
        Identity,
        Dce,
        Cse,
        Empty,
        FoldBatchNorm,
        FoldActivation,
        FoldPad,
        SimplifyTranspose,
        SimplifyReshape,
        Lower,
        Im2col,
        SliceSplits,
        Fuse,
    )
}

# Passes that do nothing without the answers of a target.
PASSES_FOR_A_TARGET: dict[str, type[Pass]] = {
    kind.name: kind for kind in (Winograd, NarrowProducts, RoundOperands, SplitPrecision, ChooseStorage)
}

_ONE = re.compile(r"\s*([A-Za-z_][\w-]*)\s*(?:\{([^{}]*)\})?\s*(,|\Z)")


def parse_passes(text: str, answers: Mapping[str, Any] | None = None) -> tuple[Pass, ...]:
    """The passes that a text names, in order; options of a pass stand in braces.

    answers: fields by which passes ask a target, such as `costs`. Raises UsageError for an unknown pass or
    option, a value of the wrong type, a pass that lacks an answer, and text that does not parse.
    """
    passes: list[Pass] = []
    at = 0
    while at < len(text) or not passes:
        match = _ONE.match(text, at)
        if match is None or (match.group(3) == "," and match.end() == len(text)):
            raise UsageError(f"passes '{text}': expected name{{option=value,...}},... at '{text[at:]}'")
        passes.append(_make(match.group(1), match.group(2) or "", answers or {}))
        at = match.end()
    return tuple(passes)


def _make(name: str, options: str, answers: Mapping[str, Any]) -> Pass:
    every = PASSES | PASSES_FOR_A_TARGET
    kind = every.get(name)
    if kind is None:
        raise UsageError(f"pass '{name}' is not known; known: {', '.join(every)}")
    known = {field.name: field for field in fields(kind) if _is_textual(field)}  # type: ignore[arg-type]
    asked = [field for field in fields(kind) if not _is_textual(field)]  # type: ignore[arg-type]
    values: dict[str, Any] = {field.name: answers[field.name] for field in asked if field.name in answers}
    if any(field.name not in values and _is_required(field) for field in asked):
        raise UsageError(f"pass '{name}' asks a target: say which with --target")
    for part in filter(None, (piece.strip() for piece in options.split(","))):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key not in known:
            listed = ", ".join(known) or "none"
            raise UsageError(f"pass '{name}' has no option '{key}'; its options: {listed}")
        values[key] = _value(name, known[key], value)
    return kind(**values)


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _is_textual(field: Field[Any]) -> bool:
    return isinstance(field.default, bool | int | float | str)


def _value(name: str, field: Field[Any], text: str) -> Any:
    default: Any = field.default
    wanted: type = type(default)
    if wanted is bool:
        found: Any = {"true": True, "false": False}.get(text.lower(), text)
    elif wanted is str:
        found = text
    else:
        try:
            found = literal_eval(text)
        except (ValueError, SyntaxError):
            found = text
    if wanted is float and type(found) is int:
        found = float(found)
    if type(found) is not wanted:
        raise UsageError(
            f"pass '{name}': option {field.name} takes a value of type {wanted.__name__}, not '{text}'"
        )
    return found
