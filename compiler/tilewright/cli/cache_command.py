"""`tilewright cache info` and `tilewright cache clear`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from tilewright.cache import ROOMS
from tilewright.cli.output import byte_text, table_console, write_json
from tilewright.config import default_cache_dir
from tilewright.errors import CacheError


def show_caches(cache_dir: Path | None, json_to: str | None) -> None:
    """One row for each folder of the cache. Raises CacheError for what is no folder."""
    root = _root(cache_dir)
    folders = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    rows = [_row(folder) for folder in folders]
    if json_to is not None:
        write_json(json_to, {"folder": str(root), "caches": rows})
    if json_to == "-":
        return
    table = Table("cache", "files", "size", title=str(root))
    for row in rows:
        table.add_row(row["name"], str(row["files"]), byte_text(row["bytes"]))
    table_console().print(table)


def clear_caches(cache_dir: Path | None) -> None:
    """Removes what compilation can make again. Raises CacheError when something cannot be removed, and as
    `show_caches`.
    """
    root = _root(cache_dir)
    freed = 0
    for folder in (root / name for name in ROOMS):
        freed += sum(_sizes(folder))
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise CacheError(f"cache folder {folder} cannot be removed: {error.strerror}") from error
    typer.echo(f"{byte_text(freed)} freed in {root}")


def _root(cache_dir: Path | None) -> Path:
    root = cache_dir or default_cache_dir()
    if root.exists() and not root.is_dir():
        raise CacheError(f"{root} is not a folder, as a cache is; give one with --cache-dir")
    return root


def _row(folder: Path) -> dict[str, Any]:
    sizes = list(_sizes(folder))
    return {"name": folder.name, "files": len(sizes), "bytes": sum(sizes)}


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                yield path.stat().st_size
        except FileNotFoundError:
            continue  # another process removed it meanwhile
