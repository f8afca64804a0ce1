"""Zoo names turned into ONNX files: built or fetched on first use, then taken from the cache."""

import warnings
from pathlib import Path

from rich.console import Console

from tilewright.errors import UsageError
from tilewright_datasets import config as configuration
from tilewright_datasets.cache import make_once, sha256_of
from tilewright_datasets.catalogue import SUITES, ZOO, ZooModel
from tilewright_datasets.config import Config
from tilewright_datasets.preprocess import Preprocess
from tilewright_datasets.public import PUBLIC, fetch_public


class ZooDigestWarning(UserWarning):
    """A model that was built here differs from the file of the manifest."""


def model_names() -> list[str]:
    """The names of the models that are built here, in the order of the catalogue."""
    return list(ZOO)


def suite(name: str) -> list[str]:
    """The zoo names of a suite; raises UsageError for an unknown suite."""
    if name not in SUITES:
        raise UsageError(f"no suite '{name}'; there are: {', '.join(SUITES)}")
    return list(SUITES[name])


def model_path(name: str) -> Path | None:
    """The ONNX file of a zoo model, or None when `name` is not a zoo name.

    The first use builds or fetches it (progress on stderr); concurrent processes wait for one of them to do
    so. Raises DataError when a download fails or does not match its checksum, CacheError when the cache
    cannot be written.
    """
    settings = configuration.from_environment()
    if name not in ZOO and name not in PUBLIC:
        return None
    target = cached_file(name, settings)
    if name in ZOO:
        return make_once(target, lambda draft: _write(ZOO[name], draft, settings))
    partial = target.with_name(target.name + ".part")
    return make_once(target, lambda draft: fetch_public(PUBLIC[name], draft, partial, settings))


def preprocess_spec(name: str) -> Preprocess | None:
    """What the model `name` expects of an image; None for models without image input and other names."""
    if name in ZOO:
        return ZOO[name].preprocess
    return PUBLIC[name].preprocess if name in PUBLIC else None


def cached_file(name: str, settings: Config) -> Path:
    """Where the file of a zoo name is or will be.

    The folder is called after the digest, so a changed definition is built anew.
    """
    model = ZOO[name] if name in ZOO else PUBLIC[name]
    return settings.cache_dir / "zoo" / model.sha256[:12] / f"{name.rpartition('/')[2]}.onnx"


def _write(model: ZooModel, draft: Path, settings: Config) -> None:
    with Console(stderr=True).status(f"building {model.name}"):
        draft.write_bytes(model.build(settings).SerializeToString())
    found = sha256_of(draft)
    if found != model.sha256:
        warnings.warn(
            f"[zoo-digest] {model.name} was built with SHA-256 {found}, the manifest says {model.sha256}: "
            "it is a valid model, but results with it cannot be compared with those of other machines. "
            "Silence with warnings.simplefilter('ignore', tilewright_datasets.zoo.ZooDigestWarning)",
            ZooDigestWarning,
            stacklevel=2,
        )
