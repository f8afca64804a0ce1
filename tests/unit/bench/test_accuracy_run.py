"""The accuracy driver on a tiny classifier: rows, flips, undecodable images, resuming."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from virtual_world import FakeEngine

from tilewright.errors import DataError, UsageError
from tilewright_bench.accuracy.command import flip_warnings, measure_accuracy
from tilewright_bench.accuracy.driver import Task
from tilewright_bench.engines import registry
from tilewright_bench.engines.base import FLOAT32, Arrays, EngineSpec, Prepared, Session, Settings, Tensor
from tilewright_bench.models import ModelFile
from tilewright_bench.progress import Reporter
from tilewright_datasets.images import ImageSet, LabelledImage
from tilewright_datasets.preprocess import Preprocess

SIDE = 4
RECIPE = Preprocess(SIDE, SIDE, "bilinear", 1.0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
runs: list[int] = []


class BrightnessSession(Session):
    """The class is the image's grey value / 10, of 26; `bias` moves dark images up by one class."""

    def __init__(self, spec: EngineSpec, settings: Settings) -> None:
        self.inputs = [Tensor("x", np.dtype(np.float32), (1, 3, SIDE, SIDE))]
        self.outputs = ["y"]
        self.precision = settings.precision
        self.notes: Mapping[str, str] = {}
        self._bias = int(spec.options.get("bias", "0"))
        self._fails = "fails" in spec.options

    def run(self, inputs: Arrays) -> Arrays:
        if self._fails and runs:
            raise RuntimeError("failed on the second image")
        found = round(float(inputs["x"].mean()) / 10)
        runs.append(found)
        if len(runs) == interrupt_after:
            raise KeyboardInterrupt
        scores = np.zeros((1, 26), np.float32)
        scores[0, found + (self._bias if found < 3 else 0)] = 4
        return {"y": scores}


interrupt_after = 0


class BrightnessEngine(FakeEngine):
    def load(self, prepared: Prepared, spec: EngineSpec, settings: Settings) -> Session:
        return BrightnessSession(spec, settings)


@pytest.fixture(autouse=True)
def _engines(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = BrightnessEngine(name="grey", keys={"bias": "", "fails": ""})
    monkeypatch.setattr(registry, "known_engines", lambda: {"grey": engine})
    runs.clear()


@pytest.fixture
def images(tmp_path: Path) -> ImageSet:
    """Eight grey images of classes 1 to 8; the fifth file is no image."""
    listed = []
    for label in range(1, 9):
        path = tmp_path / f"{label}.png"
        Image.new("RGB", (SIDE, SIDE), (10 * label,) * 3).save(path)
        listed.append(LabelledImage(path.name, label, path))
    listed[4].path.write_bytes(b"no image at all")
    return ImageSet(str(tmp_path), tuple(listed))


def task(images: ImageSet, model: Path, *engines: str, **options: Any) -> Task:
    settings = Settings(1, cache_dir=str(Path(images.name) / "cache"))
    specs = [registry.parse_engine(text) for text in engines]
    return Task(ModelFile("grey", model), specs, settings, images, RECIPE, 5, **options)


def measured(one: Task) -> dict[str, Any]:
    with Reporter(quiet=True) as reporter:
        return measure_accuracy([one], (1, 5), reporter)


def test_rows_pairs_and_flips(images: ImageSet, tiny_model: Path) -> None:
    result = measured(task(images, tiny_model, "grey", "grey,bias=1"))
    exact, biased = result["rows"]
    assert (exact["n"], exact["top1"], exact["top5"]) == (7, 1.0, 1.0)
    assert exact["undecodable"] == ["5.png"]
    assert biased["top1"] == pytest.approx(5 / 7)
    assert biased["top1_ci"][0] < 5 / 7 < biased["top1_ci"][1]
    (pair,) = result["pairs"]
    assert pair["agree_top1"] == pytest.approx(5 / 7)
    flips = [(flip["image"], flip["label"], flip["a_class"], flip["b_class"]) for flip in pair["flips"]]
    assert flips == [("1.png", 1, 1, 2), ("2.png", 2, 2, 3)]
    margin = (np.exp(4) - 1) / (np.exp(4) + 25)
    assert pair["max_margin_of_flip"] == pytest.approx(margin)


def test_an_engine_without_the_mode_is_a_float32_reference(
    images: ImageSet, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = BrightnessEngine(name="grey", keys={"bias": ""})
    plain = BrightnessEngine(name="plain", keys={"bias": ""})
    monkeypatch.setattr(plain, "classes", FLOAT32)
    monkeypatch.setattr(registry, "known_engines", lambda: {"grey": narrow, "plain": plain})
    settings = Settings(1, precision="bf16", cache_dir=str(Path(images.name) / "cache"))
    result = measured(replace(task(images, tiny_model, "grey", "plain"), settings=settings))
    assert [row["precision"] for row in result["rows"]] == ["bf16", "fp32"]
    assert result["pairs"][0]["agree_top1"] == 1.0


def test_a_flip_beyond_the_contract_is_a_warning() -> None:
    pair = {"model": "m", "a": "one", "b": "two", "precision": "fp32-fast", "max_margin_of_flip": 2e-3}
    (warning,) = flip_warnings([pair, {**pair, "max_margin_of_flip": 9e-4}, {**pair, "precision": "fp32"}])
    assert "m: one and two disagree on a top-1 class by a margin of 2.0e-03" in warning


def test_an_offset_moves_classes_back_to_those_of_the_data(images: ImageSet, tiny_model: Path) -> None:
    shifted = ImageSet(
        images.name, tuple(LabelledImage(one.name, one.label - 1, one.path) for one in images.images)
    )
    result = measured(task(shifted, tiny_model, "grey", "grey,bias=1", label_offset=1))
    assert result["rows"][0]["top1"] == 1.0
    assert result["pairs"][0]["flips"][0]["a_class"] == 0


def test_an_engine_that_fails_midway_leaves_an_error(images: ImageSet, tiny_model: Path) -> None:
    result = measured(task(images, tiny_model, "grey", "grey,fails=yes"))
    good, failed = result["rows"]
    assert good["n"] == 7
    assert failed["error"] == "RuntimeError: failed on the second image"
    assert result["pairs"] == []


def test_an_interrupted_run_resumes(
    images: ImageSet, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "interrupt_after", 4)
    first = measured(task(images, tiny_model, "grey"))
    assert first["interrupted"]
    assert first["rows"][0]["n"] == 3
    monkeypatch.setitem(globals(), "interrupt_after", 0)
    runs.clear()
    second = measured(task(images, tiny_model, "grey"))
    assert not second["interrupted"]
    assert second["rows"][0]["n"] == 7
    assert runs == [4, 6, 7, 8]  # the first three came from the partial results, the fifth is no image
    assert not list((Path(images.name) / "cache" / "accuracy").glob("*.jsonl"))


def test_a_line_that_was_cut_off_is_done_again(
    images: ImageSet, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "interrupt_after", 4)
    measured(task(images, tiny_model, "grey"))
    monkeypatch.setitem(globals(), "interrupt_after", 0)
    (partial,) = (Path(images.name) / "cache" / "accuracy").glob("*.jsonl")
    partial.write_text(partial.read_text()[:-20])
    runs.clear()
    assert measured(task(images, tiny_model, "grey"))["rows"][0]["n"] == 7
    assert runs == [3, 4, 6, 7, 8]


def test_a_set_without_one_good_image_is_an_error(images: ImageSet, tiny_model: Path) -> None:
    bad = ImageSet(images.name, images.images[4:5])
    with pytest.raises(DataError, match="none of its 1 images decodes"):
        measured(task(bad, tiny_model, "grey"))


def test_a_model_with_another_input_is_refused(images: ImageSet, tiny_model: Path) -> None:
    recipe = Preprocess(8, 8, "bilinear", 1.0, (0.0,) * 3, (1.0,) * 3)
    one = task(images, tiny_model, "grey")
    other = Task(one.model, one.engines, one.settings, one.images, recipe, 5)
    with pytest.raises(UsageError, match=r"one input of shape \(1, 3, 8, 8\)"):
        measured(other)
