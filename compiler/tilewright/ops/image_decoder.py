"""ImageDecoder: the pixels of a BMP, PNM, TIFF or PNG file. What it cannot decode makes the run fail."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import faults
from tilewright.dtypes import U8
from tilewright.errors import VerifyError
from tilewright.expr import Expr, binary, call, const, logical_and
from tilewright.loops.ir import Buffer, If, Kernel, Stmt, seq
from tilewright.ops.declaration import operator, required
from tilewright.ops.image_bytes import PIXEL_FORMATS, Bytes, Picture
from tilewright.ops.image_formats import bmp, pnm, tiff
from tilewright.ops.image_meaning import decoded, in_format
from tilewright.ops.image_png import SIGNATURE, png
from tilewright.ops.looping import get, loop_program, put
from tilewright.ops.operator import Attr, Attrs, Operand
from tilewright.ops.selection import cleared
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]


def _infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    data, pixels = required(types, 0), attrs["pixel_format"]
    if data.rank != 1 or not data.size:
        raise VerifyError(f"ImageDecoder: the file is {data}, expected its bytes in a row")
    if pixels not in PIXEL_FORMATS:
        raise VerifyError(f"ImageDecoder: pixel format '{pixels}' is none of {', '.join(PIXEL_FORMATS)}")
    if attrs["height"] < 1 or attrs["width"] < 1:
        raise VerifyError(f"ImageDecoder: a picture of {attrs['height']} rows of {attrs['width']} pixels")
    return (TensorType(U8, (attrs["height"], attrs["width"], 1 if pixels == "Grayscale" else 3)),)


def _evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
    colours = decoded(required(arrays, 0).tobytes(), attrs["height"], attrs["width"])
    return (in_format(colours, attrs["pixel_format"]),)


def _loops(types: Types, attrs: Attrs, outputs: Sequence[TensorType]) -> Kernel:
    def body(inputs: Sequence[Buffer | None], results: Sequence[Buffer]) -> Stmt:
        file, (y,) = Bytes(required(inputs, 0)), results
        picture = Picture(y, attrs["height"], attrs["width"], attrs["pixel_format"])
        plain = picture.fail(faults.PICTURE_FORMAT)
        portable = logical_and(file.starts_with(b"P"), _is_digit(file))
        tagged = binary("or", file.starts_with(b"II*\0"), file.starts_with(b"MM\0*"))
        for magic, read in ((tagged, tiff), (portable, pnm), (file.starts_with(b"BM"), bmp)):
            plain = If(magic, read(file, picture), plain)
        plain = seq(plain, If(picture.is_sound(), picture.pixels(file, file)))
        reader = If(file.starts_with(SIGNATURE), png(file, picture), plain)
        report = put(picture.status, call("report", get(picture.status)))
        return picture.around(seq(cleared(y), reader, report))

    return loop_program("image_decoder", types, outputs, body)


def _is_digit(file: Bytes) -> Expr:
    """Whether the second byte is a digit, as in the magic numbers of portable maps."""
    byte = file.byte(const(1))
    return logical_and(byte >= ord("0"), byte <= ord("9"))


operator(
    "ImageDecoder",
    "the pixels, u8 [height, width, channels], of a BMP, PNM, TIFF or PNG file of this size; pixel_format: "
    "RGB, BGR or Grayscale. A run fails when the file is of another size or kind",
    [Operand("data", ("u8",))],
    [Operand("y")],
    _infer,
    _evaluate,
    {
        "height": Attr("int", required=True),
        "width": Attr("int", required=True),
        "pixel_format": Attr("str", "RGB"),
    },
    loops=_loops,
)
