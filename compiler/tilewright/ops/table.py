"""The table of operators in the documentation, from the declarations.

`python -m tilewright.ops.table docs/ops.md` brings the table of that file up to date.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import tilewright.ops.all  # noqa: F401  fills the registry
from tilewright.errors import UsageError
from tilewright.ops.operator import REGISTRY, Attr, Operand, Operator

BEGIN, END = "<!-- operators -->", "<!-- end -->"


def operator_table() -> str:
    """A Markdown table with one row for every operator, in alphabetical order."""
    rows = [_row(REGISTRY[name]) for name in sorted(REGISTRY)]
    head = "| operator | operands → results | attributes | meaning | fusion | for targets |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows])


def with_table(text: str) -> str:
    """A document with the table between its two marks replaced. Raises UsageError without the marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UsageError(f"the document has no table to replace: it needs the marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{operator_table()}\n{END}{after}"


def _row(operator: Operator) -> str:
    operands = ", ".join(map(_operand, operator.inputs))
    results = ", ".join(map(_operand, operator.outputs))
    attrs = ", ".join(_attr(name, attr) for name, attr in operator.attrs.items())
    cells = (
        f"`{operator.name}`",
        f"{operands} → {results}",
        attrs,
        operator.doc.replace("|", "\\|"),
        operator.fusion.name.lower(),
        meaning(operator),
    )
    return f"| {' | '.join(cells)} |"


def _operand(operand: Operand) -> str:
    return f"{operand.name}{'…' if operand.variadic else '?' if operand.optional else ''}"


def _attr(name: str, attr: Attr) -> str:
    return f"{name}: {attr.kind}" + ("" if attr.default is None else f" = {attr.default}")


def meaning(operator: Operator) -> str:
    """How targets get at the operator."""
    if operator.lower is not None:
        return "simpler operators"
    if operator.compute is not None:
        return "expression"
    return "loop program" if operator.loops is not None else "its body"


def main(path: Path) -> None:
    """Rewrite the table of a document in place."""
    draft = path.with_name(f"{path.name}.tmp")
    draft.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
    os.replace(draft, path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tilewright.ops.table FILE")
    main(Path(sys.argv[1]))
