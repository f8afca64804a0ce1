"""Public ONNX models (repository onnx/models, `validated/vision/classification/`) by manifest."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pooch

from tilewright.errors import DataError
from tilewright_datasets.config import Config
from tilewright_datasets.download import ResumingDownloader
from tilewright_datasets.preprocess import IMAGENET, Preprocess, signed_unit

PREFIX = "onnx/"


@dataclass(frozen=True)
class PublicModel:
    """A file below the base address: relative path, SHA-256, size in bytes, input shape, what it expects."""

    path: str
    sha256: str
    size: int
    input_shape: tuple[int, ...] = (1, 3, 224, 224)
    preprocess: Preprocess = IMAGENET

    @property
    def name(self) -> str:
        """`onnx/` and the file's name without its ending."""
        return PREFIX + Path(self.path).stem


_MODELS = (
    PublicModel(
        "resnet/model/resnet18-v1-7.onnx",
        "4e8f8653e7a2222b3904cc3fe8e304cd8b339ce1d05fd24688162f86fb6df52c",
        46820737,
    ),
    PublicModel(
        "resnet/model/resnet18-v2-7.onnx",
        "3b4d048057854022232aa20bf68262e31718ab7119a17f920b8a2dc1433f824b",
        46806737,
    ),
    PublicModel(
        "resnet/model/resnet50-v1-12.onnx",
        "3f03fdef724b22947eed826f1eef1dc5c34151bb4c37d634f1db89dfa2dd1526",
        102576593,
    ),
    PublicModel(
        "resnet/model/resnet50-v1-12-int8.onnx",
        "c234f30975989788b4405f25253275aae247ab6dbdd34aaa69ab0a59ff76f6d0",
        25816052,
    ),
    PublicModel(
        "resnet/model/resnet50-v1-12-qdq.onnx",
        "e6429d274805654c79ba68dc886c1efd4eff95393e747c35d3fdab579febd8a0",
        25753167,
    ),
    PublicModel(
        "mobilenet/model/mobilenetv2-12.onnx",
        "c0c3f76d93fa3fd6580652a45618618a220fced18babf65774ed169de0432ad5",
        13964571,
    ),
    PublicModel(
        "mobilenet/model/mobilenetv2-12-int8.onnx",
        "cc028fe6cae7bc11a4ff53cfc9b79c920e8be65ce33a904ec3e2a8f66d77f95f",
        3655033,
    ),
    PublicModel(
        "mobilenet/model/mobilenetv2-12-qdq.onnx",
        "41a36090dafe98f4ad8f9b7fe0b218c56ac3c031e547f0367c30655d2702bffe",
        3593903,
    ),
    PublicModel(
        "squeezenet/model/squeezenet1.0-12.onnx",
        "dec81a8684617770b3cf13fadc1d92565d1d453d23935fc6388b792d99c992bd",
        4952956,
    ),
    PublicModel(
        "squeezenet/model/squeezenet1.0-12-int8.onnx",
        "3da17dfad1b7ba23c93fac6dbf49f6db78cd42f7519e915a2e27d37c5c0a972b",
        1293388,
    ),
    PublicModel(
        "squeezenet/model/squeezenet1.1-7.onnx",
        "1eeff551a67ae8d565ca33b572fc4b66e3ef357b0eb2863bb9ff47a918cc4088",
        4956208,
    ),
    PublicModel(
        "shufflenet/model/shufflenet-v2-10.onnx",
        "8b85e969a0a5518b554c99548379d1ba54d973733a6a12012138d91852308584",
        9218554,
    ),
    PublicModel(
        "efficientnet-lite4/model/efficientnet-lite4-11.onnx",
        "d111689907c06eea7c82e4833ddef758da6453b9d4cf60b7e99ca05c7cbd9c12",
        51946641,
        input_shape=(1, 224, 224, 3),
        preprocess=signed_unit(256, 224, "NHWC"),
    ),
    PublicModel(
        "vgg/model/vgg19-7.onnx",
        "692f9f927f1df1b89033787a77a73eac59fd9b3344f9ecdf0b13221e41c2046f",
        574677321,
    ),
)

PUBLIC: dict[str, PublicModel] = {model.name: model for model in _MODELS}


def fetch_public(model: PublicModel, draft: Path, partial: Path, settings: Config) -> None:
    """Download `model` to `draft`; an interrupted download continues from `partial` at the next call.

    Raises DataError when the download fails, the checksum differs or the disk is too small.
    """
    free = shutil.disk_usage(draft.parent).free
    if free < model.size:
        raise DataError(
            f"{model.name} takes {model.size / 1e6:.0f} MB, {draft.parent} has {free / 1e6:.0f} MB"
        )
    address = f"{settings.mirror}/{model.path}"
    try:
        pooch.retrieve(
            address,
            known_hash=f"sha256:{model.sha256}",
            fname=draft.name,
            path=draft.parent,
            downloader=ResumingDownloader(partial, model.size),
        )
    except ValueError as error:  # what pooch raises when the hash of the finished file differs
        raise DataError(f"{address}: not the file of the manifest, discarded ({error})") from error
