"""A result never replaces a file that the command reads: it is refused before any work."""

import json
import os

import numpy as np
import pytest


@pytest.mark.parametrize(
    "arguments",
    [
        ("compile", "two.onnx", "-o", "two.onnx"),
        ("compile", "two.onnx", "-o", "./two.onnx"),
        ("compile", "two.onnx", "-o", "link.onnx"),
        ("compile", "link.onnx", "-o", "two.onnx"),
        ("compile", "two.onnx", "--machine", "host.json", "-o", "host.json"),
        ("inspect", "two.onnx", "--json", "two.onnx"),
        ("run", "two.onnx", "--json", "two.onnx"),
        ("run", "two.onnx", "--trace", "two.onnx"),
        ("run", "two.onnx", "--input", "ids=ids.npy", "--trace", "ids.npy"),
        ("opt", "g.tw.txt", "-p", "dce", "-o", "g.tw.txt"),
    ],
)
def test_a_file_that_is_read_is_not_replaced(tilewright, model, tmp_path, arguments):
    (tmp_path / "link.onnx").symlink_to(model)
    (tmp_path / "host.json").write_text(json.dumps({"name": "a profile"}))
    (tmp_path / "g.tw.txt").write_text("func @main() -> () {\n}\n")
    np.save(tmp_path / "ids.npy", np.arange(4))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    done = tilewright(*arguments)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert f"{arguments[-1].removeprefix('./')} is read by this command" in done.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("arguments", [("run", "two.onnx"), ("inspect", "two.onnx")])
def test_json_that_cannot_be_written_is_refused_before_any_work(tilewright, model, tmp_path, arguments):
    done = tilewright(*arguments, "--dim", "n=2", "--json", "none/x.json")
    assert done.code == 2
    assert "none/x.json cannot be written" in done.err
    assert not (tmp_path / "cache").exists()


def test_a_device_is_written_to_and_not_replaced(tilewright, model, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert tilewright("show-versions", "--json", "pipe").code == 0
        assert json.loads(os.read(reader, 1 << 16))["tilewright"]
    finally:
        os.close(reader)
    refused = tilewright("compile", "two.onnx", "-o", "pipe", "--dim", "n=1")
    assert refused.code == 2
    assert "pipe is no file" in refused.err
    assert pipe.is_fifo()
