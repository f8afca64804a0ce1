"""Progress on stderr, without a thread of its own: a refreshing thread would disturb what is measured."""

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

REFRESH_S = 0.5


class Reporter:
    """A bar on a terminal, a line per stage elsewhere, nothing when quiet. Draws only when it is called."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=self._console, auto_refresh=False, transient=True)
        self._task = self._bar.add_task("", total=None)
        self._drawn = 0.0

    def __enter__(self) -> "Reporter":
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def stage(self, text: str, total: float | None = None) -> None:
        """A new stage begins; `total` is what `advance` will count up to."""
        if not self._console.is_terminal:
            self._console.print(text, highlight=False, soft_wrap=True)
            return
        self._bar.reset(self._task, description=text, total=total)
        self._bar.refresh()

    def advance(self, completed: float) -> None:
        """How far the stage is; draws at most twice a second."""
        self._bar.update(self._task, completed=completed)
        if self._console.is_terminal and time.monotonic() - self._drawn > REFRESH_S:
            self._drawn = time.monotonic()
            self._bar.refresh()

    def note(self, text: str) -> None:
        """A line that stays, such as a warning."""
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)
