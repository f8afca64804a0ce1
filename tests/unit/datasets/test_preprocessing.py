"""Preprocessing: golden checksums of a fixture picture, and the meaning of every field."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tilewright_datasets.catalogue import ZOO
from tilewright_datasets.preprocess import IMAGENET, Preprocess, preprocess, signed_unit


def picture(width: int = 375, height: int = 500) -> Image.Image:
    """A smooth pattern with an edge, different in every channel, made of integers."""
    rows, columns = np.mgrid[0:height, 0:width]
    channels = (rows * 255 // height, columns * 255 // width, ((rows // 40 + columns // 40) % 2) * 200)
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


def quantised_digest(spec: Preprocess) -> str:
    """SHA-256 of the input in thousandths, so that the last bit of a division does not matter."""
    values = np.rint(preprocess(picture(), spec) * 1000).astype("<i4")
    return hashlib.sha256(values.tobytes()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("spec", "digest"),
    [
        (IMAGENET, "eea037915640f8d4"),
        (signed_unit(256, 224), "0e259909a43fe109"),
        (signed_unit(292, 260), "f038e0037e441adb"),
    ],
)
def test_golden(spec: Preprocess, digest: str) -> None:
    assert quantised_digest(spec) == digest


def test_shapes_and_types() -> None:
    for size in ((500, 375), (375, 500), (224, 224), (30, 2000)):
        value = preprocess(picture(*size), IMAGENET)
        assert value.shape == (1, 3, 224, 224)
        assert value.dtype == np.float32
        assert value.flags.c_contiguous


def test_values_follow_the_recipe() -> None:
    grey = Image.new("RGB", (300, 400), (10, 127, 255))
    value = preprocess(grey, IMAGENET)[0, :, 100, 100]
    np.testing.assert_allclose(
        value, [(10 / 255 - 0.485) / 0.229, (127 / 255 - 0.456) / 0.224, (1 - 0.406) / 0.225], rtol=1e-5
    )
    value = preprocess(grey, signed_unit(256, 224))[0, :, 0, 0]
    np.testing.assert_allclose(value, [-117 / 128, 0, 1])


def test_centre_is_kept() -> None:
    wide = Image.new("L", (1000, 256))
    wide.paste(255, (500 - 112, 0, 500 + 112, 256))
    value = preprocess(wide, signed_unit(256, 224))
    assert value.min() == value.max() == 1


def test_channel_order_and_layout() -> None:
    spec = signed_unit(256, 224)
    value = preprocess(picture(), spec)
    np.testing.assert_array_equal(preprocess(picture(), replace(spec, channel_order="BGR")), value[:, ::-1])
    np.testing.assert_array_equal(
        preprocess(picture(), replace(spec, layout="NHWC")), value.transpose(0, 2, 3, 1)
    )


def test_palette_and_grey_pictures() -> None:
    assert preprocess(picture().convert("P"), IMAGENET).shape == (1, 3, 224, 224)
    assert preprocess(picture().convert("LA"), IMAGENET).shape == (1, 3, 224, 224)


def test_specs_fit_their_models() -> None:
    for model in ZOO.values():
        if model.preprocess is not None:
            crop = model.preprocess.crop
            assert model.inputs == {"data": (1, 3, crop, crop)}
            assert model.preprocess.resize_short == crop + 32
