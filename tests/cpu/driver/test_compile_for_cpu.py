"""From a file to native code: results, caches, artefacts in a process without the compiler."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ArtefactError

DIMS = {"n": 1}


def _artefacts(cache_dir):
    return sorted((cache_dir / "artefacts").glob("*.tw"))


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("threads", [1, 2])
def test_all_levels_and_thread_counts_agree_with_the_reference(network, image, cache_dir, level, threads):
    exe = tw.compile(
        network, opt_level=level, threads=threads, dims=DIMS, cache_dir=cache_dir, verify_each=True
    )
    expected = tw.evaluate(network, {"x": image}, dims=DIMS)["y"]
    error = np.linalg.norm(exe(image) - expected) / np.linalg.norm(expected)
    assert error < 2e-6


@pytest.mark.parametrize("without", [("fusion",), ("storage",), ("fusion", "storage")])
def test_ablations_agree_with_the_reference(network, image, cache_dir, without):
    exe = tw.compile(network, without=without, dims=DIMS, cache_dir=cache_dir)
    expected = tw.evaluate(network, {"x": image}, dims=DIMS)["y"]
    np.testing.assert_allclose(exe(image), expected, rtol=1e-5, atol=1e-5)


def test_a_size_that_is_open_is_named_where_it_is_needed(network, tmp_path):
    with pytest.raises(ArtefactError, match=r"the size n is not bound, give dims=\{'n': NUMBER\}"):
        tw.compile(network, cache_dir=tmp_path).save(tmp_path / "open.tw")


def test_the_second_compilation_comes_from_the_cache(network, image, cache_dir):
    first = tw.compile(network, dims=DIMS, cache_dir=cache_dir)
    (entry,) = _artefacts(cache_dir)
    stamp = entry.stat().st_ino
    again = tw.compile(network, dims=DIMS, cache_dir=cache_dir)
    assert [p.stat().st_ino for p in _artefacts(cache_dir)] == [stamp]
    np.testing.assert_array_equal(first(image), again(image))
    tw.compile(network, dims=DIMS, cache_dir=cache_dir, opt_level=1)
    assert len(_artefacts(cache_dir)) == 2
    fast = tw.compile(network, dims=DIMS, cache_dir=cache_dir, precision="fp32-fast")
    assert len(_artefacts(cache_dir)) == 3
    assert fast.package.info["precision"] == "fp32-fast"


def test_a_damaged_cache_is_repaired(network, image, cache_dir):
    expected = tw.compile(network, dims=DIMS, cache_dir=cache_dir)(image)
    for file in (*_artefacts(cache_dir), *cache_dir.rglob("*.o")):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0xFF
        file.write_bytes(content)
    np.testing.assert_array_equal(tw.compile(network, dims=DIMS, cache_dir=cache_dir)(image), expected)


def test_concurrent_compilations_make_one_entry(network, image, cache_dir):
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: tw.compile(network, dims=DIMS, cache_dir=cache_dir), range(3)))
    assert len(_artefacts(cache_dir)) == 1
    for exe in made[1:]:
        np.testing.assert_array_equal(exe(image), made[0](image))


def test_concurrent_runs_do_not_disturb_each_other(network, image, cache_dir):
    exe = tw.compile(network, dims=DIMS, cache_dir=cache_dir)
    expected = [exe(image * n) for n in range(12)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for want, found in zip(expected, pool.map(lambda n: exe(image * n), range(12)), strict=True):
                np.testing.assert_array_equal(found, want)


def test_out_arrays_are_filled(network, image, cache_dir):
    exe = tw.compile(network, dims=DIMS, cache_dir=cache_dir)
    out = np.empty((1, 10), np.float32)
    assert exe.run({"x": image}, out={"y": out})["y"] is out
    np.testing.assert_array_equal(out, exe(image))


def test_dump_dir_holds_kernels_program_and_plan(network, cache_dir, tmp_path):
    folder = tmp_path / "stages"
    tw.compile(network, dims=DIMS, cache_dir=cache_dir, dump_dir=folder)
    assert list((folder / "kernels").glob("conv*.txt"))
    assert "call %conv" in next(folder.glob("*-planned.program.txt")).read_text()
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["lower_bound"] <= plan["arena_bytes"] <= plan["sum_bytes"]


SCRIPT = """
import sys
import numpy as np
import tilewright as tw
exe = tw.Executable.load(sys.argv[1], threads=2)
np.save(sys.argv[3], exe(np.load(sys.argv[2])))
rooms = {"frontend", "graph", "tensor", "loops", "schedule", "ops", "passes", "program", "lower", "driver"}
ours = {name.split(".")[1] for name in sys.modules if name.startswith("tilewright.")}
assert not ours & rooms, sorted(ours & rooms)
targets = {name for name in sys.modules if name.startswith("tilewright.targets.")}
assert targets == {"tilewright.targets.cpu", "tilewright.targets.cpu.device"}, sorted(targets)
foreign = {name.partition(".")[0] for name in sys.modules} & {"onnx", "llvmlite", "typer", "rich", "google"}
assert not foreign, sorted(foreign)
"""


def test_an_artefact_runs_without_the_compiler(network, image, cache_dir, tmp_path):
    exe = tw.compile(network, dims=DIMS, cache_dir=cache_dir)
    exe.save(tmp_path / "n.tw")
    np.save(tmp_path / "x.npy", image)
    files = [str(tmp_path / name) for name in ("n.tw", "x.npy", "y.npy")]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *files], capture_output=True, text=True, env=os.environ, check=False
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), exe(image))
