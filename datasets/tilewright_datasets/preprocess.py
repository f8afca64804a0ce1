"""From a picture to a network's input, as data: one frozen description per model."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image

_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@dataclass(frozen=True)
class Preprocess:
    """What a model expects of an image.

    The short side is resized to `resize_short` pixels (the long one in proportion, cut to whole pixels), the
    centre `crop` × `crop` is kept, channels are put in `channel_order`, and every value v in 0–255 becomes (v
    · scale − mean) / std per channel, in that channel order. `layout` is the order of axes. `label_offset` is
    the output index of class 0.
    """

    resize_short: int
    crop: int
    interpolation: Literal["bilinear", "bicubic"]
    scale: float
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    channel_order: Literal["RGB", "BGR"] = "RGB"
    layout: Literal["NCHW", "NHWC"] = "NCHW"
    label_offset: int = 0


# The recipe of torchvision and of the public ONNX models: 0–1, then ImageNet's mean and standard deviation.
IMAGENET = Preprocess(
    resize_short=256,
    crop=224,
    interpolation="bilinear",
    scale=1 / 255,
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
)


def signed_unit(resize_short: int, crop: int, layout: Literal["NCHW", "NHWC"] = "NCHW") -> Preprocess:
    """EfficientNet-Lite's recipe: bicubic, (v − 127) / 128."""
    mean, std = (127.0, 127.0, 127.0), (128.0, 128.0, 128.0)
    return Preprocess(resize_short, crop, "bicubic", 1.0, mean, std, layout=layout)


def preprocess(image: Image.Image, spec: Preprocess) -> np.ndarray[Any, np.dtype[np.float32]]:
    """float32 [1, 3, crop, crop] (or [1, crop, crop, 3] for NHWC) of a picture of any mode and size."""
    picture = image.convert("RGB")
    picture = picture.resize(_resized(picture.size, spec.resize_short), _FILTERS[spec.interpolation])
    left, top = ((side - spec.crop) // 2 for side in picture.size)
    picture = picture.crop((left, top, left + spec.crop, top + spec.crop))
    pixels = np.asarray(picture, np.float32)
    if spec.channel_order == "BGR":
        pixels = pixels[:, :, ::-1]
    mean, std = np.asarray(spec.mean, np.float32), np.asarray(spec.std, np.float32)
    values = (pixels * np.float32(spec.scale) - mean) / std
    if spec.layout == "NCHW":
        values = values.transpose(2, 0, 1)
    return np.ascontiguousarray(values[None])


def _resized(size: tuple[int, int], short: int) -> tuple[int, int]:
    width, height = size
    if width <= height:
        return short, short * height // width
    return short * width // height, short
