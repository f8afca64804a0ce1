"""What `tilewright debug` says: rows of JSON values, lines of text, and the two arrays as files."""

import hashlib
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import UsageError
from tilewright_bench.debug.difference import Difference
from tilewright_bench.debug.search import Found
from tilewright_bench.debug.tensors import TensorOfModel
from tilewright_bench.engines.base import Array

Json = dict[str, Any]

LONGEST_NAME = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def as_rows(found: Found, tolerance: float) -> list[Json]:
    """One row per tensor that was looked at, in topological order."""
    return [
        {
            "name": tensor.name,
            "node": tensor.node,
            "op": tensor.op,
            "dtypes": [str(values.a.dtype), str(values.b.dtype)],
            "shape": list(values.b.shape),
            **_figures(values.difference),
            "diverges": values.difference.exceeds(tolerance),
        }
        for tensor, values in found.values.items()
    ]


def _figures(difference: Difference) -> Json:
    index = difference.first_index
    return {
        "max_abs": difference.max_abs,
        "rel_l2": difference.rel_l2,
        "differing": difference.differing,
        "first_index": None if index is None else list(index),
        "a_value": difference.a_value,
        "b_value": difference.b_value,
        "mismatch": difference.mismatch,
    }


def lines_of(result: Json) -> list[str]:
    """The result in words."""
    rows, first, (a, b) = result["rows"], result["first"], result["engines"]
    looked = f"{len(rows)} of {result['tensors']} tensors compared"
    if first is None:
        worst = max(rows, key=lambda row: row["rel_l2"], default=None)
        most = f"; the largest error is {worst['rel_l2']:.3g}, at '{worst['name']}'" if worst else ""
        lines = [f"no divergence above {result['tolerance']:g} between {a} and {b}: {looked}{most}"]
        if result["mode"] == "all":
            lines.append("fused kernels were broken up for this; `--mode bisect` keeps them")
        return [*lines, *_missing(result)]
    lines = [
        f"first divergence above {result['tolerance']:g} between {a} and {b}: {looked}",
        f"  tensor '{first['name']}', of node '{first['node']}' ({first['op']}), {_type(first)}",
    ]
    if first["mismatch"]:
        lines.append(f"  {first['mismatch']}")
    else:
        lines.append(
            f"  max abs {first['max_abs']:.6g}, relative L2 {first['rel_l2']:.6g}, "
            f"{first['differing']} elements differ"
        )
    if first["first_index"] is not None:
        lines.append(
            f"  first at {first['first_index']}: {first['a_value']:.9g} against {first['b_value']:.9g}"
        )
    operands = [row for row in rows if row["name"] in first["operands"]]
    lines += [f"  operand '{row['name']}': relative L2 {row['rel_l2']:.3g}" for row in operands]
    lines += [f"  {engine}: {path}" for engine, path in zip((a, b), first["files"], strict=True)]
    if result["healed"]:
        names = ", ".join(f"'{name}'" for name in result["healed"])
        lines.append(
            f"  the outputs agree when {names} is returned too: look at the kernel that it is fused into"
        )
    return [*lines, *_missing(result)]


def _missing(result: Json) -> list[str]:
    if not result["missing"]:
        return []
    some = ", ".join(result["missing"][:5])
    return [f"not returned by one of the engines: {len(result['missing'])} tensors, such as {some}"]


def _type(row: Json) -> str:
    kinds = " / ".join(dict.fromkeys(row["dtypes"]))
    return f"{kinds} {row['shape']}"


def save_values(folder: Path, tensor: TensorOfModel, found: Found, engines: Sequence[str]) -> list[Path]:
    """Write both values of a tensor as .npy files; the paths. Raises UsageError when that fails."""
    values = found.values[tensor]
    paths = []
    for side, engine, array in zip("ab", engines, (values.a, values.b), strict=True):
        path = folder / f"{file_name(tensor.name)}.{side}.{_safe(engine)}.npy"
        _save(path, array)
        paths.append(path)
    return paths


def file_name(name: str) -> str:
    """A tensor's name as a part of a file name: letters, digits, `.`, `_` and `-`; a changed one ends in a
    digest, so that no two tensors share a file.
    """
    safe = _safe(name)[:LONGEST_NAME]
    if safe == name and not name.startswith("."):
        return name
    return f"{safe.lstrip('.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _safe(text: str) -> str:
    return _UNSAFE.sub("_", text)


def make_folder(folder: Path) -> None:
    """Before anything runs. Raises UsageError when the folder cannot be made or written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--output-dir {folder} cannot be made: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--output-dir {folder} is read-only")


def _save(path: Path, array: Array) -> None:
    """Types that a .npy file cannot name, such as bfloat16, are widened to float32, which is exact."""
    plain = array.astype(np.float32) if array.dtype.kind == "V" else array
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".debug.", delete=False) as file:
            np.save(file, plain, allow_pickle=False)
        os.chmod(file.name, 0o644)  # a temporary file is private, a result is not
        os.replace(file.name, path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
