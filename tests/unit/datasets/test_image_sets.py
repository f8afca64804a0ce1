"""Image sets: labels, order, limits, and directories and files that are not what they should be."""

import io
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from tilewright.errors import DataError, UsageError
from tilewright_datasets import images, labels, wheels
from tilewright_datasets.cache import sha256_of
from tilewright_datasets.config import Config


def jpeg(colour: str = "red") -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 6), colour).save(stream, "JPEG")
    return stream.getvalue()


def test_labels() -> None:
    assert labels.synset_label("n01440764") == 0
    assert labels.synset_label("n15075141") == 999
    assert labels.synset_label("n99999999") is None
    assert labels.validation_label("ILSVRC2012_val_00000293") == 0
    assert labels.validation_label("ILSVRC2012_val_99999999") is None


def test_validation_directory(tmp_path: Path) -> None:
    (tmp_path / "ILSVRC2012_val_00003116.JPEG").write_bytes(jpeg())
    (tmp_path / "ILSVRC2012_val_00000293.jpg").write_bytes(jpeg())
    (tmp_path / "README.txt").write_text("not an image")
    found = images.open_dataset(tmp_path)
    assert [(image.name, image.label) for image in found] == [
        ("ILSVRC2012_val_00000293.jpg", 0),
        ("ILSVRC2012_val_00003116.JPEG", 13),
    ]
    assert images.decode(found.images[0]).size == (8, 6)


def test_synset_directory(tmp_path: Path) -> None:
    for synset in ("n01440764", "n15075141"):
        (tmp_path / synset).mkdir()
        for index in range(4):
            (tmp_path / synset / f"{index}.png").write_bytes(jpeg())
    found = images.open_dataset(str(tmp_path))
    assert [image.label for image in found] == [0] * 4 + [999] * 4
    assert found.images[5].name == "n15075141/1.png"
    assert [image.label for image in found.limited(4)] == [0, 0, 999, 999]
    assert len(found.limited(None)) == len(found.limited(100)) == 8
    with pytest.raises(UsageError, match="limit of 0"):
        found.limited(0)


def test_undecodable_image_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    broken = {"00000293": b"no picture", "00000537": jpeg()[:-40], "00000557": b""}
    for number, content in broken.items():
        (tmp_path / f"ILSVRC2012_val_{number}.JPEG").write_bytes(content)
    (tmp_path / "ILSVRC2012_val_00003116.JPEG").write_bytes(jpeg())
    found = images.open_dataset(tmp_path)
    assert len(found) == 4
    for image in found.images[:3]:
        with pytest.raises(DataError, match=image.name):
            images.decode(image)
    assert images.decode(found.images[3]).mode == "RGB"


def test_vanished_image_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ILSVRC2012_val_00000293.JPEG"
    path.write_bytes(jpeg())
    (image,) = images.open_dataset(tmp_path)
    os.remove(path)
    with pytest.raises(DataError, match=r"ILSVRC2012_val_00000293.*cannot be read"):
        images.decode(image)


def test_empty_and_unknown(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no images"):
        images.open_dataset(tmp_path)
    (tmp_path / "n01440764").mkdir()
    with pytest.raises(DataError, match="no images"):
        images.open_dataset(tmp_path)
    with pytest.raises(UsageError, match=r"no such directory.*foolbox"):
        images.open_dataset("fools-box")
    (tmp_path / "n99999999").mkdir()
    with pytest.raises(DataError, match="none of ImageNet's 1000 classes"):
        images.open_dataset(tmp_path)


def test_packaged_set(settings: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    path = settings.cache_dir / "wheels" / images.FOOLBOX.file_name
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("foolbox/data/imagenet_01_559.jpg", jpeg("blue"))
        archive.writestr("foolbox/data/imagenet_00_243.jpg", jpeg())
        archive.writestr("foolbox/data/cifar10_00_3.png", jpeg())
    monkeypatch.setattr(images, "FOOLBOX", replace(images.FOOLBOX, sha256=sha256_of(path)))
    found = images.open_dataset("foolbox")
    assert [(image.name, image.label) for image in found] == [
        ("imagenet_00_243.jpg", 243),
        ("imagenet_01_559.jpg", 559),
    ]
    assert images.decode(found.images[1]).getpixel((3, 3)) == pytest.approx((0, 0, 254), abs=2)


def test_wheel_with_another_checksum_is_refused(settings: Config) -> None:
    path = settings.cache_dir / "wheels" / images.FOOLBOX.file_name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"something else")
    with pytest.raises(DataError, match=r"SHA-256 is .*, expected 11049d51"):
        images.open_dataset("foolbox")


def test_wheel_that_pip_cannot_fetch(
    settings: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(DataError, match=r"pip cannot download foolbox==3\.3\.4"):
        wheels.wheel_path(images.FOOLBOX, settings)
    left = [path.name for path in (settings.cache_dir / "wheels").iterdir() if path.suffix != ".lock"]
    assert left == []
