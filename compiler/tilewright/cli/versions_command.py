"""`tilewright show-versions`."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import typer

import tilewright
from tilewright.cli.output import write_json

PACKAGES = ("numpy", "ml_dtypes", "onnx", "llvmlite", "onnxruntime", "pyopencl", "openvino", "pandas", "asv")


def show(json_to: str | None) -> None:
    """Prints a line for each."""
    rows = versions()
    if json_to is not None:
        write_json(json_to, rows)
    if json_to != "-":
        for name, value in rows.items():
            typer.echo(f"{name:12} {value}")


def versions() -> dict[str, str]:
    """Versions by name; packages that are not installed are `absent`."""
    rows = {
        "tilewright": tilewright.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    for package in PACKAGES:
        try:
            rows[package] = version(package)
        except PackageNotFoundError:
            rows[package] = "absent"
    return rows
