"""Downloads that go on where an earlier one stopped, by HTTP range requests."""

import http.client
import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from tilewright.errors import DataError

_ATTEMPTS = 4
_PAUSE_S = 0.5
_TIMEOUT_S = 30.0
_BLOCK = 1 << 16
_UNREACHABLE = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError)


class ResumingDownloader:
    """A downloader for pooch: fills `partial` up to `size` bytes, then renames it to the file to check.

    `partial` outlives an interruption. When the connection breaks, the rest is asked for again, up to four
    times; a server without range requests sends the whole file again. Raises DataError when the address
    cannot be read.
    """

    def __init__(self, partial: Path, size: int) -> None:
        self._partial, self._size = partial, size

    def __call__(self, url: str, output_file: str, pooch: Any, check_only: bool = False) -> None:
        reason: Exception | str = "the connection closed early"
        with Progress(console=Console(stderr=True), transient=True) as progress:
            bar = progress.add_task(f"fetching {Path(url).name}", total=self._size, completed=self._have())
            for attempt in range(_ATTEMPTS):
                if self._have() >= self._size:
                    break
                time.sleep(_PAUSE_S * attempt)
                try:
                    self._receive(url, progress, bar)
                except urllib.error.HTTPError as error:
                    reason = error
                    if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                        self._partial.unlink(missing_ok=True)
                    elif error.code < http.client.INTERNAL_SERVER_ERROR:
                        break
                except _UNREACHABLE as error:
                    reason = error
                except ValueError as error:
                    raise DataError(f"'{url}' is no address ({error}); check TILEWRIGHT_MIRROR") from error
        if self._have() < self._size:
            raise DataError(
                f"{url}: {self._have()} of {self._size} bytes fetched ({reason}); try again to continue, "
                "or set TILEWRIGHT_MIRROR to the address of a mirror"
            )
        os.replace(self._partial, output_file)

    def _have(self) -> int:
        return self._partial.stat().st_size if self._partial.is_file() else 0

    def _receive(self, url: str, progress: Progress, bar: Any) -> None:
        have = self._have()
        request = urllib.request.Request(url, headers={"User-Agent": "tilewright"})
        if have:
            request.add_header("Range", f"bytes={have}-")
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            continues = have > 0 and response.status == http.client.PARTIAL_CONTENT
            with self._partial.open("ab" if continues else "wb") as stream:
                progress.update(bar, completed=stream.tell())
                while block := response.read(_BLOCK):
                    stream.write(block)
                    progress.advance(bar, len(block))
