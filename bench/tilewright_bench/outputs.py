"""Where the results of a command go."""

from dataclasses import dataclass
from pathlib import Path

from tilewright_bench.results import check_writable
from tilewright_bench.verbosity import show_tracebacks


@dataclass(frozen=True)
class Outputs:
    """Where results go; stdout holds only JSON when `json_to` is '-'."""

    json_to: str | None = None
    csv_to: Path | None = None
    md_to: Path | None = None
    quiet: bool = False
    verbose: bool = False

    def prepare(self) -> None:
        """Refuse an unwritable destination before anything is measured. Raises UsageError."""
        show_tracebacks(self.verbose)
        for destination in (self.json_to, self.csv_to, self.md_to):
            check_writable(None if destination is None else str(destination))
