"""The result of a conformance run: totals, a row for each operator, the cases that did not pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from tilewright.cli.conformance.cases import Case
from tilewright.cli.conformance.outcome import Outcome

STATUSES = ("passed", "failed", "refused")
Results = Mapping[int, Outcome]


def totals(cases: list[Case], results: Results) -> dict[str, dict[str, int]]:
    """Counts over all cases that ran, and over the tensor cases among them."""
    return {
        "all": _counts(results.values()),
        "tensor": _counts(outcome for index, outcome in results.items() if cases[index].tensor),
    }


def by_operator(cases: list[Case], results: Results) -> dict[str, dict[str, int]]:
    """Counts for each operator, in alphabetical order."""
    groups: dict[str, list[Outcome]] = {}
    for index, outcome in results.items():
        groups.setdefault(cases[index].operator, []).append(outcome)
    return {name: _counts(groups[name]) for name in sorted(groups)}


def as_json(cases: list[Case], results: Results, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Everything as JSON values; facts: what was run, and how long it took."""
    rows = [
        {
            "name": cases[index].name,
            "kind": cases[index].kind,
            "operator": cases[index].operator,
            "tensor": cases[index].tensor,
            "status": outcome.status,
            "reason": outcome.reason,
            "seconds": round(outcome.seconds, 4),
        }
        for index, outcome in sorted(results.items())
    ]
    operators = [{"operator": name} | counts for name, counts in by_operator(cases, results).items()]
    return {**facts, "totals": totals(cases, results), "operators": operators, "cases": rows}


def show(console: Console, cases: list[Case], results: Results, list_failures: bool) -> None:
    """The tables for people."""
    table = Table("operator", *STATUSES)
    for name, counts in by_operator(cases, results).items():
        table.add_row(name, *(str(counts[status] or "") for status in STATUSES))
    console.print(table)
    if list_failures:
        _show_failures(console, cases, results)
    for name, counts in totals(cases, results).items():
        figures = ", ".join(f"{counts[status]} {status}" for status in STATUSES)
        console.print(f"{name} cases: {sum(counts.values())}: {figures}")


def _show_failures(console: Console, cases: list[Case], results: Results) -> None:
    for index, outcome in sorted(results.items(), key=lambda item: (cases[item[0]].operator, item[0])):
        if outcome.status != "passed":
            case = cases[index]
            line = f"{outcome.status:8} {case.operator:24} {case.name}: {outcome.reason}"
            console.print(line, markup=False, soft_wrap=True)


def _counts(outcomes: Iterable[Outcome]) -> dict[str, int]:
    counted = Counter(outcome.status for outcome in outcomes)
    return {status: counted[status] for status in STATUSES}
