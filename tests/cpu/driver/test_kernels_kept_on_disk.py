"""A model whose layers were compiled before: its kernels come from disk, with the same code."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import tilewright as tw
from tilewright.lower import parallel
from tilewright.runtime.executable import Executable


def compiled(model: Path, folder: Path, dump_dir: Path | None = None) -> Executable:
    return tw.compile(model, dims={"n": 1}, cache_dir=folder, threads=1, dump_dir=dump_dir)


@pytest.fixture
def lowering_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> NoReturn:
        raise AssertionError("a kernel is lowered again")

    monkeypatch.setattr(parallel, "lower_node", refuse)


@pytest.fixture
def first(network: Path, cache_dir: Path) -> Executable:
    return compiled(network, cache_dir)


@pytest.mark.parametrize("lost", ["nothing", "objects"])
def test_other_weights_need_no_lowering(
    retrained: Path, image: np.ndarray, cache_dir: Path, first: Executable, lowering_fails: None, lost: str
) -> None:
    shutil.rmtree(cache_dir / lost, ignore_errors=True)
    again = compiled(retrained, cache_dir)
    (one,), (other,) = first.package.segments, again.package.segments
    assert one.code == other.code
    assert one.info["kernels"] == other.info["kernels"]
    expected = tw.evaluate(retrained, {"x": image}, dims={"n": 1})
    np.testing.assert_allclose(again.run({"x": image})["y"], expected["y"], rtol=1e-5, atol=1e-6)


def test_another_compiler_lowers_anew(
    retrained: Path, cache_dir: Path, first: Executable, lowering_fails: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.lower.store.digest_of_sources", lambda *patterns: "edited")
    with pytest.raises(AssertionError, match="lowered again"):
        compiled(retrained, cache_dir)


def test_stages_that_are_wanted_run(
    retrained: Path, cache_dir: Path, first: Executable, lowering_fails: None
) -> None:
    with pytest.raises(AssertionError, match="lowered again"):
        compiled(retrained, cache_dir, dump_dir=cache_dir / "dump")


def test_damaged_kernels_are_lowered_anew(retrained: Path, cache_dir: Path, first: Executable) -> None:
    kept = sorted((cache_dir / "kernels").iterdir())
    for path in kept:
        path.write_bytes(path.read_bytes()[:-9] + bytes(9))
    again = compiled(retrained, cache_dir)
    assert again.package.segments[0].code == first.package.segments[0].code
    assert sorted((cache_dir / "kernels").iterdir()) == kept
