"""Downloads of public models from a mirror on this machine: resume, checksum, servers that misbehave."""

import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import DataError
from tilewright_datasets import download, public, zoo
from tilewright_datasets.config import from_environment
from tilewright_datasets.public import PublicModel

CONTENT = bytes(range(256)) * 2000
NAME = "onnx/tiny"


class _Mirror(http.server.BaseHTTPRequestHandler):
    """Serves one file with range requests; may break off after some bytes of a response."""

    def __init__(self, log: list[str | None], behaviour: dict[str, Any], *arguments: Any) -> None:
        self.ranges, self.behaviour = log, behaviour
        super().__init__(*arguments)

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.ranges.append(wanted)
        if self.path != "/models/tiny/tiny.onnx":
            self.send_error(404)
            return
        content = self.behaviour.get("content", CONTENT)
        resumed = wanted is not None and self.behaviour.get("ranges", True)
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if resumed and wanted else 0
        self.send_response(206 if resumed else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:][: self.behaviour.get("break_after")])

    def log_message(self, *_arguments: Any) -> None:
        """Keep the test output clean."""


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[str | None], dict[str, Any]]]:
    """A running mirror and the manifest entry for its one file: (ranges asked for, behaviour to change)."""
    model = PublicModel("tiny/tiny.onnx", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
    monkeypatch.setitem(public.PUBLIC, NAME, model)
    monkeypatch.setattr(download, "_PAUSE_S", 0.0)
    ranges: list[str | None] = []
    behaviour: dict[str, Any] = {}
    handler = functools.partial(_Mirror, ranges, behaviour)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        monkeypatch.setenv("TILEWRIGHT_MIRROR", f"http://127.0.0.1:{server.server_port}/models/")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield ranges, behaviour
        server.shutdown()
        thread.join()


def files_left() -> list[str]:
    folder = zoo.cached_file(NAME, from_environment()).parent
    return sorted(path.name for path in folder.rglob("*") if path.suffix != ".lock")


def test_fetch_once(mirror: tuple[list[str | None], dict[str, Any]]) -> None:
    path = zoo.model_path(NAME)
    assert path is not None
    assert path.read_bytes() == CONTENT
    assert zoo.model_path(NAME) == path
    assert mirror[0] == [None]
    assert files_left() == ["tiny.onnx"]


def test_broken_connection_is_resumed(mirror: tuple[list[str | None], dict[str, Any]]) -> None:
    ranges, behaviour = mirror
    behaviour["break_after"] = 200_000
    path = zoo.model_path(NAME)
    assert path is not None
    assert path.read_bytes() == CONTENT
    assert ranges == [None, "bytes=200000-", "bytes=400000-"]


def test_next_call_continues(mirror: tuple[list[str | None], dict[str, Any]]) -> None:
    ranges, behaviour = mirror
    behaviour["break_after"] = 1000
    with pytest.raises(DataError, match=r"4000 of 512000 bytes fetched.*try again to continue"):
        zoo.model_path(NAME)
    assert files_left() == ["tiny.onnx.part"]
    del behaviour["break_after"]
    path = zoo.model_path(NAME)
    assert path is not None
    assert path.read_bytes() == CONTENT
    assert ranges[-1] == "bytes=4000-"


def test_server_without_ranges(mirror: tuple[list[str | None], dict[str, Any]]) -> None:
    mirror[1].update(ranges=False)
    partial = zoo.cached_file(NAME, from_environment()).with_name("tiny.onnx.part")
    partial.parent.mkdir(parents=True)
    partial.write_bytes(CONTENT[:5000])
    path = zoo.model_path(NAME)
    assert path is not None
    assert path.read_bytes() == CONTENT


def test_wrong_content_is_refused(mirror: tuple[list[str | None], dict[str, Any]]) -> None:
    mirror[1].update(content=CONTENT[::-1])
    with pytest.raises(DataError, match="not the file of the manifest"):
        zoo.model_path(NAME)
    assert files_left() == []


def test_missing_on_mirror(
    mirror: tuple[list[str | None], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_MIRROR", from_environment().mirror + "/elsewhere")
    with pytest.raises(DataError, match="404"):
        zoo.model_path(NAME)
    assert len(mirror[0]) == 1


def test_mirror_in_a_folder(
    mirror: tuple[list[str | None], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "tiny.onnx").write_bytes(CONTENT)
    monkeypatch.setenv("TILEWRIGHT_MIRROR", tmp_path.as_uri())
    path = zoo.model_path(NAME)
    assert path is not None
    assert path.read_bytes() == CONTENT
    assert mirror[0] == []


def test_mirror_that_is_no_address(
    mirror: tuple[list[str | None], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_MIRROR", "mirror.example")
    with pytest.raises(DataError, match="check TILEWRIGHT_MIRROR"):
        zoo.model_path(NAME)


def test_manifest() -> None:
    assert len(public.PUBLIC) == 14
    for name, model in public.PUBLIC.items():
        assert name == f"onnx/{Path(model.path).stem}"
        assert len(bytes.fromhex(model.sha256)) == 32
        assert zoo.preprocess_spec(name) is model.preprocess
