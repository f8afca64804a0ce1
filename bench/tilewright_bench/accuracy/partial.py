"""What an interrupted accuracy run has done: one JSON line per image, taken up by the next run."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from filelock import FileLock, Timeout

import tilewright as tw
from tilewright.errors import CacheError, UsageError

Line = dict[str, Any]


@dataclass(frozen=True)
class RunKey:
    """Everything that a partial result depends on; another value of any part starts a run of its own."""

    model_sha256: str
    engines: Sequence[str]  # text and version of each
    settings: str
    dataset: str
    preprocess: str

    @property
    def digest(self) -> str:
        parts = (self.model_sha256, *self.engines, self.settings, self.dataset, self.preprocess)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

    @property
    def resumable(self) -> bool:
        """A dirty checkout may compute differently the next time without changing its version."""
        return not any(".dirty" in engine for engine in self.engines)


class PartialResults:
    """The lines of a run: those of an earlier, interrupted one, and those that `add` appends."""

    def __init__(self, key: RunKey, cache_dir: str | None) -> None:
        folder = Path(cache_dir or tw.default_cache_dir()) / "accuracy"
        self._path = folder / f"{key.digest}.jsonl"
        self._lock = FileLock(folder / f"{key.digest}.lock")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            self.done = _read(self._path) if key.resumable else {}
            # Written anew, so that a line that was cut off is not continued in its middle.
            self._file = self._path.open("w", encoding="utf-8")
        except Timeout as error:
            raise UsageError("the same accuracy run is under way in another process; wait for it") from error
        except OSError as error:
            raise CacheError(
                f"cannot write partial results below {folder} ({error.strerror}); give another --cache-dir"
            ) from error
        for line in self.done.values():
            self._write(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._lock.release()

    def add(self, line: Line) -> None:
        """Keep one image's result; on disk before the next image begins."""
        self.done[line["image"]] = line
        self._write(line)

    def finish(self) -> None:
        """The run is complete: nothing is left to resume."""
        self._file.close()
        self._path.unlink()

    def _write(self, line: Line) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _read(path: Path) -> dict[str, Line]:
    if not path.exists():
        return {}
    lines: dict[str, Line] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            break  # the line that the interruption cut off: that image is done again
        lines[line["image"]] = line
    return lines
