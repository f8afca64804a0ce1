"""The table of ONNX's operators in the documentation: what is read, what it means, what passes.

`tilewright conformance --write-docs docs/operators.md` fills in the counts of one target.
`python -m tilewright.cli.conformance.operators docs/operators.md` brings all else up to date.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from onnx import defs

from tilewright.errors import UsageError
from tilewright.frontend.registry import OLDEST_OPSET, TABLE
from tilewright.frontend.support import STANDARD
from tilewright.ops.operator import REGISTRY
from tilewright.ops.table import meaning

BEGIN, END = "<!-- onnx operators -->", "<!-- end -->"
TARGETS = ("numpy", "cpu", "opencl")

Counts = Mapping[str, int]  # passed, failed, refused
CountsOf = Mapping[str, Mapping[str, Counts]]  # by target, then by operator

_ROW = re.compile(r"^\| `(\w+)` \|(.*)\|$")
_CELL = re.compile(r"(\d+) of (\d+)(?:, (\d+) refused)?")


def operator_table(counts: CountsOf) -> str:
    """A Markdown table with one row for every operator of ONNX that some opset from 7 on has."""
    head = f"| operator | opsets | meaning | for targets | {' | '.join(TARGETS)} |"
    rows = [_row(name, versions, counts) for name, versions in sorted(_history().items())]
    return "\n".join([head, "|---" * (4 + len(TARGETS)) + "|", *rows])


def with_table(text: str, new: CountsOf | None = None) -> str:
    """A document with the table between its marks replaced.

    new: counts that replace those of the document for their targets. Raises UsageError without the marks.
    """
    before, begin, rest = text.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        raise UsageError(f"the document has no table to replace: it needs the marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{operator_table(read_counts(table) | dict(new or {}))}\n{END}{after}"


def read_counts(table: str) -> dict[str, Mapping[str, Counts]]:
    """The counts that a table holds, by target and operator."""
    found: dict[str, dict[str, Counts]] = {target: {} for target in TARGETS}
    for line in table.splitlines():
        row = _ROW.match(line)
        cells = row.group(2).split(" | ")[-len(TARGETS) :] if row else []
        for target, cell in zip(TARGETS, cells, strict=False):
            figures = _CELL.fullmatch(cell.strip())
            if row and figures:
                passed, total, refused = (int(figure or 0) for figure in figures.groups())
                failed = total - passed - refused
                found[target][row.group(1)] = {"passed": passed, "failed": failed, "refused": refused}
    return dict(found)


def write_table(path: Path, new: CountsOf | None = None) -> None:
    """Rewrite the table of a document. Raises UsageError when it cannot be read or written."""
    draft = path.with_name(f"{path.name}.tmp")
    try:
        draft.write_text(with_table(path.read_text(encoding="utf-8"), new), encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:
        raise UsageError(f"{path} cannot be rewritten: {error.strerror}") from error


def _history() -> dict[str, list[defs.OpSchema]]:
    """Versions of every operator of the standard set, oldest first."""
    found: dict[str, list[defs.OpSchema]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain in STANDARD:
            found.setdefault(schema.name, []).append(schema)
    ordered = {name: sorted(all_, key=lambda s: s.since_version) for name, all_ in found.items()}
    return {name: versions for name, versions in ordered.items() if _spans(versions)}


def _spans(versions: list[defs.OpSchema]) -> list[tuple[int, int, int]]:
    """(version, first opset, last opset) of each version that a supported opset has."""
    newest = defs.onnx_opset_version()
    lasts = [*(schema.since_version - 1 for schema in versions[1:]), newest]
    return [
        (schema.since_version, max(schema.since_version, OLDEST_OPSET), last)
        for schema, last in zip(versions, lasts, strict=True)
        if last >= OLDEST_OPSET and not schema.deprecated
    ]


def _row(name: str, versions: list[defs.OpSchema], counts: CountsOf) -> str:
    declaration = REGISTRY.get(name)
    cells = (
        f"`{name}`",
        _opsets(name, versions),
        "" if declaration is None else declaration.doc.replace("|", "\\|"),
        "" if declaration is None else meaning(declaration),
        *(_cell(counts.get(target, {}).get(name)) for target in TARGETS),
    )
    return f"| {' | '.join(cells)} |"


def _opsets(name: str, versions: list[defs.OpSchema]) -> str:
    """The opsets that are read, as ranges; nothing when none is."""
    ranges: list[list[int]] = []
    for since, first, last in _spans(versions):
        if (name, since) not in TABLE:
            continue
        if ranges and ranges[-1][1] == first - 1:
            ranges[-1][1] = last
        else:
            ranges.append([first, last])
    return ", ".join(f"{first}–{last}" if first < last else str(first) for first, last in ranges)


def _cell(counts: Counts | None) -> str:
    if counts is None:
        return ""
    text = f"{counts['passed']} of {sum(counts.values())}"
    return f"{text}, {counts['refused']} refused" if counts["refused"] else text


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tilewright.cli.conformance.operators FILE")
    write_table(Path(sys.argv[1]))
