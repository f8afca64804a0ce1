"""`opt`, `devices`, `cache` and `show-versions`."""

import json

import numpy as np
import pytest

import tilewright as tw
from tilewright.dtypes import F32
from tilewright.graph.ir import Function, Module
from tilewright.graph.parse import read_text
from tilewright.graph.text import write_text
from tilewright.machine import Machine
from tilewright.ops.operator import Builder
from tilewright.targets.cpu.detect import host
from tilewright.types import TensorType

TEXT = """\
func @main(%x: f32[2]) -> (%y as "y") {
  %y: f32[2] = Relu(%x) @cut
  %unused: f32[2] = Exp(%x) @wasted
}
"""


def test_opt_runs_passes_on_a_text(tilewright, tmp_path):
    (tmp_path / "g.tw.txt").write_text(TEXT)
    done = tilewright("opt", "g.tw.txt", "-p", "dce")
    assert done.code == 0
    assert "Relu" in done.out
    assert "Exp" not in done.out
    assert tilewright("opt", "g.tw.txt", "-p", "dce", "-o", "h.tw.txt").out == ""
    assert (tmp_path / "h.tw.txt").read_text() == done.out


def test_opt_reads_large_constants_from_beside_the_text(tilewright, tmp_path):
    function = Function("main")
    builder = Builder(function)
    x = function.add_input("x", TensorType(F32, (32,)))
    a, b = (builder.constant(np.arange(32, dtype=np.float32)) for _ in range(2))
    function.outputs = [builder.op("Add", x, builder.op("Add", a, b))]
    function.output_names = ["y"]
    write_text(Module({"main": function}), tmp_path / "m.tw.txt")
    done = tilewright("opt", "m.tw.txt", "-p", "fold", "-o", "n.tw.txt")
    assert done.code == 0
    (folded,) = read_text(tmp_path / "n.tw.txt").entry.constants()
    np.testing.assert_array_equal(folded.data, 2 * np.arange(32))


def test_opt_asks_a_target(tilewright, tmp_path):
    (tmp_path / "g.tw.txt").write_text(TEXT)
    done = tilewright("opt", "g.tw.txt", "-p", "lower,storage,winograd", "--target", "cpu")
    assert (done.code, done.out) == (0, tilewright("opt", "g.tw.txt", "-p", "lower").out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-p", "storage"), "pass 'storage' asks a target: say which with --target"),
        (("-p", "dce", "--target", "tpu"), "unknown target 'tpu'"),
        (("-p", "dce", "--machine", "none.json"), "say with --target whose machine it is"),
        (("-p", "dce", "--target", "cpu", "--machine", "none.json"), "machine profile none.json cannot be"),
    ],
)
def test_opt_says_what_it_needs_of_a_target(tilewright, tmp_path, options, message):
    (tmp_path / "g.tw.txt").write_text(TEXT)
    done = tilewright("opt", "g.tw.txt", *options)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize(
    ("passes", "message"),
    [("flod", "flod"), ("fold{size=1}", "size"), ("fold{max_bytes=x}", "max_bytes"), ("", "expected")],
)
def test_opt_refuses_unknown_passes_and_options(tilewright, tmp_path, passes, message):
    (tmp_path / "g.tw.txt").write_text(TEXT)
    done = tilewright("opt", "g.tw.txt", "-p", passes)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize(
    ("text", "message"), [("func", "line 1"), (TEXT.replace("f32[2] = Relu", "f32[3] = Relu"), "cut")]
)
def test_opt_refuses_bad_texts(tilewright, tmp_path, text, message):
    (tmp_path / "g.tw.txt").write_text(text)
    done = tilewright("opt", "g.tw.txt", "-p", "dce")
    assert done.code == 2
    assert message in done.err


def test_devices_are_listed_with_reasons(tilewright):
    rows = json.loads(tilewright("devices", "--json", "-").out)
    cpu = next(row for row in rows if row["target"] == "cpu")
    assert cpu["usable"]
    assert cpu["machine"]["vector_bits"] in (128, 256, 512)
    assert any(row["target"].startswith("opencl") for row in rows)
    assert "usable CPUs" in tilewright("devices").out


def test_versions_name_what_results_depend_on(tilewright):
    rows = json.loads(tilewright("show-versions", "--json", "-").out)
    assert rows["tilewright"] == tw.__version__
    assert rows["numpy"] == np.__version__
    assert "python" in tilewright("show-versions").out


def test_the_cache_is_shown_and_cleared(tilewright, tmp_path):
    folder = tmp_path / "cache" / "artefacts"
    folder.mkdir(parents=True)
    (folder / "a.tw").write_bytes(bytes(5000))
    kernels = tmp_path / "cache" / "kernels"
    kernels.mkdir()
    (kernels / "b.kernel").write_bytes(bytes(20))
    kept = tmp_path / "cache" / "datasets"
    kept.mkdir()
    (kept / "m.onnx").write_bytes(bytes(10))
    facts = json.loads(tilewright("cache", "info", "--json", "-").out)
    assert facts["caches"][0] == {"name": "artefacts", "files": 1, "bytes": 5000}
    assert {"name": "kernels", "files": 1, "bytes": 20} in facts["caches"]
    assert "5020 B freed" in tilewright("cache", "clear").out
    assert not folder.exists()
    assert not kernels.exists()
    assert (kept / "m.onnx").exists()
    assert tilewright("cache", "info", "--cache-dir", tmp_path / "none").code == 0


def test_devices_prints_the_profile_of_this_host(tilewright, tmp_path):
    printed = tilewright("devices", "--profile")
    assert printed.code == 0
    assert tilewright("devices", "--profile", "--json", "host.json").code == 0
    assert (tmp_path / "host.json").read_text() == printed.out
    assert Machine.from_file(tmp_path / "host.json") == host()
