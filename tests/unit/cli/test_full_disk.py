"""A full disk: one line that names the file, exit code 2, nothing temporary left.

`resource.RLIMIT_FSIZE` stands for the disk: writing beyond it fails as on a full one.
"""

import resource
import signal
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

LIMIT = 40_000  # bytes of one file


def _few_bytes():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that the write fails, and does not kill
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def _tilewright(folder, *arguments, **options):
    command = [sys.executable, "-m", "tilewright.cli.main", *arguments]
    return subprocess.run(
        command, cwd=folder, stderr=subprocess.PIPE, text=True, timeout=120, check=False, **options
    )


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (("compile", "wide.onnx", "-o", "x.tw"), "cache/artefacts"),
        (
            ("compile", "wide.onnx", "-o", "x.tw", "--dump-dir", "d"),
            "d/00-read.tw.npz cannot be written: File",
        ),
        (("compile", "dqn", "-o", "x.tw"), "dqn.onnx cannot be written: File too large"),
    ],
)
def test_what_cannot_be_written_is_named(tmp_path, monkeypatch, arguments, where):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    weights = numpy_helper.from_array(np.ones((1, LIMIT), np.float32), "w")
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    wide (float[1, {LIMIT}] x) => (float[1, {LIMIT}] y) {{ y = Add (x, w) }}"""
    wide = onnx.parser.parse_model(text)
    wide.graph.initializer.append(weights)
    onnx.save(wide, tmp_path / "wide.onnx")
    done = _tilewright(tmp_path, *arguments, stdout=subprocess.PIPE, preexec_fn=_few_bytes)
    assert done.returncode == 2, done.stderr
    assert where in done.stderr
    assert "Traceback" not in done.stderr
    left = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert not [name for name in left if name.startswith(".") or name in ("x.tw", "dqn.onnx")]


def test_standard_output(tmp_path, model, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    with open("/dev/full", "w") as full:
        done = _tilewright(tmp_path, "inspect", "two.onnx", "--dim", "n=1", stdout=full)
    assert done.returncode == 2
    assert done.stderr == "tilewright: the output cannot be written: No space left on device\n"
