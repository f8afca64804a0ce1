"""The commands `models` and `datasets`: what there is, where it comes from, whether it is in the cache."""

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tilewright.errors import DataError
from tilewright_datasets import config as configuration
from tilewright_datasets.config import Config

# Every command of tilewright loads this file: what needs onnx and Pillow is imported when a command runs.

Json = Annotated[str | None, typer.Option("--json", help="Write JSON to this file, or to stdout with '-'.")]


def register(app: typer.Typer) -> None:
    """Add the commands `models` and `datasets`."""
    app.command("models")(_models_command)
    app.command("datasets")(_datasets_command)


@dataclass(frozen=True)
class _Column:
    title: str
    key: str
    align: Any = "left"


_MODEL_COLUMNS = (
    _Column("model", "name"),
    _Column("weights", "weights"),
    _Column("input", "inputs"),
    _Column("GMAC", "gmac", "right"),
    _Column("cached", "cached"),
    _Column("source", "source"),
)
_SET_COLUMNS = (
    _Column("dataset", "name"),
    _Column("images", "images", "right"),
    _Column("cached", "cached"),
    _Column("labels", "labels"),
    _Column("source", "source"),
)


def _models_command(json_file: Json = None) -> None:
    """List the models that every command takes by name."""
    _show("models", model_rows(configuration.from_environment()), _MODEL_COLUMNS, json_file)


def _datasets_command(json_file: Json = None) -> None:
    """List the image sets that `accuracy` takes by name; it also takes any ImageNet-style directory."""
    _show("datasets", dataset_rows(configuration.from_environment()), _SET_COLUMNS, json_file)


def model_rows(settings: Config) -> list[dict[str, Any]]:
    """One row per model.

    Keys: name, weights ('seeded', 'trained' or 'public'), inputs (shapes by name; public models leave the
    name to the file), gmac (None where not counted), sha256, licence, source, address (None where built
    here), cached.
    """
    from tilewright_datasets.catalogue import ZOO
    from tilewright_datasets.public import PUBLIC
    from tilewright_datasets.zoo import cached_file

    rows: list[dict[str, Any]] = []
    for name, model in ZOO.items():
        row = {"name": name, "weights": model.weights, "inputs": model.inputs, "gmac": model.gmac}
        row |= {"sha256": model.sha256, "licence": model.licence, "source": model.source, "address": None}
        rows.append(row)
    for name, public in PUBLIC.items():
        row = {"name": name, "weights": "public", "inputs": {"": public.input_shape}, "gmac": None}
        row |= {"sha256": public.sha256, "licence": "Apache-2.0", "source": "onnx/models"}
        rows.append(row | {"address": f"{settings.mirror}/{public.path}"})
    return [row | {"cached": cached_file(row["name"], settings).is_file()} for row in rows]


def dataset_rows(settings: Config) -> list[dict[str, Any]]:
    """One row per named image set: name, number of images, labels, licence, source, cached."""
    from tilewright_datasets.images import FOOLBOX_IMAGES, NAMED_SETS

    folder = settings.cache_dir / "wheels"
    return [
        {
            "name": name,
            "images": FOOLBOX_IMAGES,
            "labels": "ImageNet, 0-999",
            "licence": wheel.licence,
            "source": f"wheel {wheel.requirement}",
            "cached": (folder / wheel.file_name).is_file(),
        }
        for name, wheel in NAMED_SETS.items()
    ]


def _show(
    title: str, rows: list[dict[str, Any]], columns: tuple[_Column, ...], json_file: str | None
) -> None:
    text = json.dumps({title: rows}, indent=2)
    if json_file == "-":
        typer.echo(text)
        return
    if json_file is not None:
        _write(Path(json_file), text + "\n")
    table = Table(box=None)
    for column in columns:
        table.add_column(column.title, justify=column.align, no_wrap=column.key == "name", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row[column.key]) for column in columns))
    Console().print(table)


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{name} {'x'.join(map(str, shape))}".strip() for name, shape in value.items())
    return str(value)


def _write(path: Path, text: str) -> None:
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=f".{path.name}-", delete=False
        ) as draft:
            draft.write(text)
        os.replace(draft.name, path)
    except OSError as error:
        raise DataError(f"--json {path}: cannot be written ({error.strerror or error})") from error
