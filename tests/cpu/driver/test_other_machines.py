"""Compiling for a machine that has more than this one, and for one that has less.

The narrow host is pretended, so that the code made here can be run afterwards.
"""

import json

import numpy as np
import pytest

import tilewright as tw
from tilewright.cli import main
from tilewright.errors import ArtefactError
from tilewright.targets.cpu import device
from tilewright.targets.cpu.detect import from_features, host

WIDE = frozenset({"avx2", "fma"})
MISSING = "the code needs a processor with avx2, fma, which this machine does not have"


def _written(path, features):
    path.write_text(json.dumps(from_features(path.stem, features).to_json()))
    return path


@pytest.fixture
def wide(tmp_path):
    return _written(tmp_path / "wide.json", WIDE)


@pytest.fixture
def narrow_host(monkeypatch):
    """This machine, without the features of the wide one; gives a function that brings them back."""
    monkeypatch.setattr(device, "host_flags", lambda: frozenset({"sse", "sse2"}))
    return monkeypatch.undo


@pytest.fixture
def command(capsys, tmp_path, monkeypatch):
    """Runs a command line in an empty folder: its exit code and what it said on stderr."""
    monkeypatch.chdir(tmp_path)
    main.load_commands()

    def run(*arguments):
        code = main.run([*map(str, arguments), "--cache-dir", "cache"])
        return code, capsys.readouterr().err

    return run


def test_code_for_a_wider_machine_is_saved_and_not_run(
    network, image, wide, narrow_host, cache_dir, tmp_path
):
    exe = tw.compile(network, machine=wide, cache_dir=cache_dir, dims={"n": 1})
    assert exe.unrunnable.startswith(MISSING)
    assert exe.inputs[0].shape == (1, 3, 12, 12)
    for run in (exe, exe.run, exe.trace):
        with pytest.raises(ArtefactError, match=MISSING):
            run(image if run is exe else {"x": image})
    exe.save(tmp_path / "wide.tw")
    with pytest.raises(ArtefactError, match=MISSING):
        tw.Executable.load(tmp_path / "wide.tw")
    assert tw.compile(network, machine=wide, cache_dir=cache_dir, dims={"n": 1}).unrunnable  # from the cache
    narrow_host()
    if not set(host().features) >= WIDE:
        pytest.skip("this processor has no AVX2")
    loaded = tw.Executable.load(tmp_path / "wide.tw")
    assert not loaded.unrunnable
    expected = tw.evaluate(network, {"x": image}, dims={"n": 1})["y"]
    np.testing.assert_allclose(loaded(image), expected, rtol=1e-5, atol=1e-5)


def test_code_for_a_narrower_machine_runs(network, image, tmp_path, cache_dir):
    narrow = _written(tmp_path / "narrow.json", frozenset({"sse2"}))
    exe = tw.compile(network, machine=narrow, cache_dir=cache_dir, dims={"n": 1})
    assert not exe.unrunnable
    expected = tw.evaluate(network, {"x": image}, dims={"n": 1})["y"]
    np.testing.assert_allclose(exe(image), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("narrow_host")
def test_open_sizes_are_refused_before_they_are_compiled(network, image, wide, cache_dir):
    exe = tw.compile(network, machine=wide, cache_dir=cache_dir)
    with pytest.raises(ArtefactError, match=MISSING):
        exe(image)
    assert not list(cache_dir.rglob("*.o"))


@pytest.mark.usefixtures("narrow_host")
def test_commands_for_a_wider_machine(command, network, wide, tmp_path):
    options = ("--dim", "n=1", "--machine", wide)
    code, said = command("run", network, *options)
    assert (code, said.count("\n")) == (2, 1)
    assert MISSING in said
    assert not list((tmp_path / "cache").rglob("*.*"))  # it was refused before it was compiled

    code, said = command("compile", network, "-o", "wide.tw", *options)
    assert code == 0
    assert said.splitlines()[1].startswith(f"wide.tw cannot run here: {MISSING}")
    assert command("compile", network, "-o", "wide.tw", "-q", *options) == (0, "")

    code, said = command("run", "wide.tw")
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith(f"tilewright: wide.tw: {MISSING}")
    for what in ((network, *options), ("wide.tw",)):
        assert command("inspect", *what, "--json", "facts.json") == (0, "")
        (segment,) = json.loads((tmp_path / "facts.json").read_text())["segments"]
        assert segment["features"] == ["avx2", "fma"]

    code, said = command("conformance", "-k", "test_relu", "--machine", wide)
    assert code == 2
    assert MISSING in said
