"""The commands `models` and `datasets`."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tilewright.errors import DataError
from tilewright_datasets import cli, zoo
from tilewright_datasets.public import PUBLIC


@pytest.fixture
def app() -> typer.Typer:
    application = typer.Typer()
    cli.register(application)
    return application


def test_models_json(app: typer.Typer) -> None:
    zoo.model_path("dqn")
    result = CliRunner().invoke(app, ["models", "--json", "-"])
    assert result.exit_code == 0
    rows = {row["name"]: row for row in json.loads(result.stdout)["models"]}
    assert set(rows) == {*zoo.model_names(), *PUBLIC}
    assert rows["dqn"]["cached"] is True
    assert rows["resnet18"]["cached"] is False
    assert rows["resnet18"]["inputs"] == {"data": [1, 3, 224, 224]}
    assert rows["efficientnet_lite0"]["weights"] == "trained"
    assert rows["onnx/vgg19-7"]["address"] == "http://127.0.0.1:9/unreachable/vgg/model/vgg19-7.onnx"


def test_models_table(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["models"])
    assert result.exit_code == 0
    for name in (*zoo.model_names(), *PUBLIC):
        assert name in result.stdout


def test_datasets_to_file(app: typer.Typer, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["datasets", "--json", str(tmp_path / "sets.json")])
    assert result.exit_code == 0
    assert "foolbox" in result.stdout
    (row,) = json.loads((tmp_path / "sets.json").read_text())["datasets"]
    assert row["images"] == 20
    assert [path.name for path in tmp_path.glob("*.json*")] == ["sets.json"]


def test_unwritable_json(app: typer.Typer, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["models", "--json", str(tmp_path / "absent" / "models.json")])
    assert isinstance(result.exception, DataError)
    assert "cannot be written" in str(result.exception)
