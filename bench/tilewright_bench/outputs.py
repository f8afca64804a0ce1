"""Where the results of a command go."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.errors import UsageError
from tilewright_bench.results import check_writable, write_result, write_text
from tilewright_bench.verbosity import show_tracebacks

INTERRUPTED = "tilewright: interrupted; the results are those that were complete"


@dataclass(frozen=True)
class Outputs:
    """Where results go; stdout holds only JSON when `json_to` is '-'."""

    json_to: str | None = None
    csv_to: Path | None = None
    md_to: Path | None = None
    quiet: bool = False
    verbose: bool = False

    @property
    def shows_tables(self) -> bool:
        return self.json_to != "-"

    def prepare(self, models: Sequence[str] = ()) -> None:
        """Refuse an unwritable destination, or one of the models, before anything is measured.

        Raises UsageError.
        """
        show_tracebacks(self.verbose)
        for destination in (self.json_to, self.csv_to, self.md_to):
            check_writable(None if destination is None else str(destination), models)

    def write(self, result: Mapping[str, Any], csv: str = "", md: str = "") -> None:
        """Write what was asked for, after the tables were shown: a full disk must not take them too.

        One file that fails does not stop the others. Raises UsageError that names all that failed.
        """
        if result["interrupted"]:
            print(INTERRUPTED, file=sys.stderr)
        failed: list[str] = []
        if self.json_to:
            _try(failed, write_result, result, self.json_to)
        for path, text in ((self.csv_to, csv), (self.md_to, md)):
            if path:
                _try(failed, write_text, text, path)
        if failed:
            raise UsageError("; ".join(failed))


def _try(failed: list[str], write: Any, *arguments: Any) -> None:
    try:
        write(*arguments)
    except UsageError as error:
        failed.append(str(error))
