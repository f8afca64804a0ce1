"""The NumPy meaning of ImageDecoder against Pillow, and what it says about files that it cannot decode."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from image_cases import Encoded, encoded, picture, pictures
from PIL import Image

import tilewright.ops.all  # noqa: F401  fills the registry
from tilewright import faults
from tilewright.dtypes import U8
from tilewright.errors import RunError, VerifyError
from tilewright.loops.interpret import interpret
from tilewright.lower.kernel import finish_kernel
from tilewright.ops.image_bytes import PIXEL_FORMATS
from tilewright.ops.operator import REGISTRY
from tilewright.types import TensorType

IMAGE_DECODER = REGISTRY["ImageDecoder"]


@pytest.mark.parametrize("file", list(pictures()), ids=lambda file: file.name)
def test_pixels_are_those_of_pillow(file: Encoded) -> None:
    for pixel_format in PIXEL_FORMATS:
        case = file.case(pixel_format)
        (found,) = IMAGE_DECODER.evaluate(case.operands, case.attrs)
        np.testing.assert_array_equal(found, file.pixels(pixel_format))


def broken() -> dict[str, tuple[bytes, int]]:
    """Files of 5 by 4 pixels and the reason why each is refused."""
    image, others = picture("RGB", 4, 5), picture("RGB", 5, 4)
    png, bmp = encoded(image, "PNG").data, encoded(image, "BMP").data
    wrong_sum = bytearray(png)
    wrong_sum[png.index(b"IEND") - 9] ^= 1
    interlaced = bytearray(png)
    interlaced[28] = 1
    jpeg = BytesIO()
    image.save(jpeg, "JPEG")
    return {
        "jpeg": (jpeg.getvalue(), faults.PICTURE_FORMAT),
        "zeros": (bytes(30), faults.PICTURE_FORMAT),
        "one-byte": (b"P", faults.PICTURE_FORMAT),
        "compressed-tiff": (encoded(image, "TIFF", compression="tiff_lzw").data, faults.PICTURE_KIND),
        "interlaced": (bytes(interlaced), faults.PICTURE_KIND),
        "pnm-in-text": (b"P3 5 4 255 " + b"1 2 3 " * 20, faults.PICTURE_KIND),
        "pnm-of-7-levels": (b"P6 5 4 7\n" + bytes(60), faults.PICTURE_KIND),
        "old-bmp": (bmp[:14] + b"\x0c" + bmp[15:], faults.PICTURE_KIND),
        "short-bmp": (bmp[:-1], faults.PICTURE_DAMAGE),
        "short-pnm": (encoded(image, "PPM").data[:-1], faults.PICTURE_DAMAGE),
        "short-tiff": (encoded(image, "TIFF").data[:-30], faults.PICTURE_DAMAGE),
        "short-png": (png[:-20], faults.PICTURE_DAMAGE),
        "wrong-sum": (bytes(wrong_sum), faults.PICTURE_DAMAGE),
        **{
            f"other-size-{kind}": (encoded(others, kind).data, faults.PICTURE_SIZE)
            for kind in ("BMP", "PPM", "TIFF", "PNG")
        },
    }


@pytest.mark.parametrize("name", broken())
def test_what_cannot_be_decoded_is_an_error(name: str) -> None:
    """In the NumPy meaning and in the loop program, for the same reason."""
    data, reason = broken()[name]
    operand = np.frombuffer(data, np.uint8)
    attrs = {"height": 4, "width": 5}
    with pytest.raises(RunError) as raised:
        IMAGE_DECODER.evaluate([operand], attrs)
    assert str(raised.value) == faults.REASONS[reason]
    types = [TensorType(U8, operand.shape)]
    assert IMAGE_DECODER.loops is not None
    kernel = finish_kernel(IMAGE_DECODER.loops(types, attrs, IMAGE_DECODER.infer(types, attrs)))
    with pytest.raises(RunError) as raised:
        interpret(kernel, [operand, np.zeros(60, np.uint8)])
    assert str(raised.value) == faults.REASONS[reason]


@pytest.mark.parametrize(
    ("shape", "attrs", "message"),
    [
        ((4, 5), {"height": 4, "width": 5}, "expected its bytes in a row"),
        ((0,), {"height": 4, "width": 5}, "expected its bytes in a row"),
        ((9,), {"height": 4, "width": 5, "pixel_format": "HSV"}, "'HSV' is none of RGB"),
        ((9,), {"height": 0, "width": 5}, "a picture of 0 rows"),
    ],
)
def test_wrong_declarations_are_refused(
    shape: tuple[int, ...], attrs: dict[str, object], message: str
) -> None:
    with pytest.raises(VerifyError, match=message):
        IMAGE_DECODER.infer([TensorType(U8, shape)], attrs)


def test_a_picture_is_read_from_the_front_of_longer_data() -> None:
    """So that files of several lengths can be fed to a model of one length."""
    for kind in ("BMP", "PPM", "TIFF", "PNG"):
        file = encoded(picture("RGB", 4, 5), kind)
        case = file.case(data=file.data + bytes(50))
        np.testing.assert_array_equal(IMAGE_DECODER.evaluate(case.operands, case.attrs)[0], file.colours)


def test_pillow_reads_what_is_made_by_hand() -> None:
    for file in pictures():
        np.testing.assert_array_equal(Image.open(BytesIO(file.data)).convert("RGB"), file.colours)
