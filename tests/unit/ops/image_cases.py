"""Encoded pictures of many sizes and kinds, made by Pillow, with the pixels that Pillow reads from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from case import Case
from PIL import Image

MODES = {
    "BMP": ("RGB", "L", "P", "1"),
    "PPM": ("RGB", "L", "1"),
    "TIFF": ("RGB", "L", "P", "1", "RGBA"),
    "PNG": ("RGB", "L", "P", "1", "RGBA", "LA"),
}


@dataclass(frozen=True)
class Encoded:
    """A file, and the picture in it as u8 [height, width, 3], red first."""

    name: str
    data: bytes
    colours: np.ndarray

    def case(self, pixel_format: str = "RGB", data: bytes | None = None) -> Case:
        height, width, _ = self.colours.shape
        attrs = {"height": height, "width": width, "pixel_format": pixel_format}
        return Case("ImageDecoder", [np.frombuffer(data or self.data, np.uint8)], attrs)

    def pixels(self, pixel_format: str) -> np.ndarray:
        if pixel_format == "Grayscale":
            return np.asarray(Image.fromarray(self.colours).convert("L"))[..., np.newaxis]
        return self.colours if pixel_format == "RGB" else self.colours[..., ::-1]


def encoded(image: Image.Image, kind: str, **options: Any) -> Encoded:
    file = BytesIO()
    image.save(file, kind, **options)
    name = f"{kind}-{image.mode}-{image.width}x{image.height}-{options}".replace(" ", "")
    return Encoded(name, file.getvalue(), np.asarray(image.convert("RGB")))


def picture(mode: str, height: int, width: int) -> Image.Image:
    """Random pixels in smooth surroundings: every filter and every kind of block is worth its while."""
    rng = np.random.default_rng([height, width])
    ramp = np.add.outer(3 * np.arange(height), 5 * np.arange(width))[..., np.newaxis]
    ramp = ramp + np.array([0, 40, 90, 7])
    noise = rng.integers(0, 256, ramp.shape) * (rng.random((height, width, 1)) < 0.2)
    array = ((ramp + noise) % 256).astype(np.uint8)
    if mode == "P":
        return Image.fromarray(array[..., :3]).quantize(11)
    if mode == "RGBA":
        return Image.fromarray(array)
    return Image.fromarray(array[..., :3]).convert(mode)


def small_pictures() -> Iterator[Encoded]:
    """Of every kind, of sizes that are no multiples of anything."""
    for kind, modes in MODES.items():
        for mode in modes:
            for height, width in ((1, 1), (3, 5)):
                yield encoded(picture(mode, height, width), kind)


def image_cases() -> Iterator[Case]:
    """Nodes small enough for the interpreter."""
    for file in small_pictures():
        if len(file.colours) > 1:
            yield file.case()
    file = encoded(picture("RGB", 2, 3), "PNG")
    yield from (file.case("BGR"), file.case("Grayscale"))


def pictures() -> Iterator[Encoded]:
    """The small ones and larger ones, and what Pillow writes only when it is told to."""
    yield from small_pictures()
    for kind, modes in MODES.items():
        for mode in modes:
            for height, width in ((7, 33), (61, 40)):
                yield encoded(picture(mode, height, width), kind)
    for level in (0, 1, 9):
        yield encoded(picture("RGB", 30, 31), "PNG", compress_level=level)
    for bits in (2, 4):
        few = picture("RGB", 13, 9).quantize(2**bits)
        yield encoded(few, "PNG", bits=bits)
    yield encoded(picture("RGB", 50, 60), "TIFF", tiffinfo={278: 7})
    yield from _made_by_hand()


def _made_by_hand() -> Iterator[Encoded]:
    """What other programs write: rows from the top, four bytes a pixel, comments, numbers high byte first."""
    image = picture("RGB", 6, 5)
    colours = np.asarray(image)
    bmp = bytearray(encoded(image, "BMP").data)
    height, start, stride = 6, 54, 16
    bmp[22:26] = (-height & 0xFFFFFFFF).to_bytes(4, "little")
    rows = [bmp[start + r * stride : start + (r + 1) * stride] for r in range(height)]
    yield Encoded("BMP-from-the-top", bytes(bmp[:start]) + b"".join(reversed(rows)), colours)
    four = np.concatenate([colours[::-1, :, ::-1], np.full((6, 5, 1), 9, np.uint8)], axis=2)
    bmp[22:26], bmp[28:30] = height.to_bytes(4, "little"), (32).to_bytes(2, "little")
    yield Encoded("BMP-32", bytes(bmp[:start]) + four.tobytes(), colours)
    header = b"P6 # made by hand\n# 9 9\n  5\t6\n255\n"
    yield Encoded("PPM-with-comments", header + colours.tobytes(), colours)
    fields = [(256, 3, 5), (257, 3, 6), (258, 3, 8), (262, 3, 2), (273, 4, 200), (277, 3, 3)]
    directory = b"".join(
        tag.to_bytes(2, "big")
        + type.to_bytes(2, "big")
        + (1).to_bytes(4, "big")
        + (value.to_bytes(2, "big") + b"\0\0" if type == 3 else value.to_bytes(4, "big"))
        for tag, type, value in fields
    )
    tiff = b"MM\0*" + (8).to_bytes(4, "big") + len(fields).to_bytes(2, "big") + directory
    yield Encoded("TIFF-big-endian", tiff.ljust(200, b"\0") + colours.tobytes(), colours)
