"""Top-1 and top-5 on the packaged images: a share each, for every engine."""

import json
from pathlib import Path
from typing import Any

from tilewright_bench.accuracy.command import Images, run_accuracy
from tilewright_bench.outputs import Outputs

from .preparation import ENGINES, settings_of

MODELS = ["efficientnet_lite0"]
THREADS = ["1"]  # the number of threads changes no class
IMAGES = Images(dataset="foolbox", ks=(1, 5), limit=None, preprocess=None, label_offset=None)

Rows = dict[tuple[str, str], dict[str, Any]]


def share(rows: Rows, model: str, engine: str, name: str) -> float:
    """Raises RuntimeError with the engine's own words when it failed."""
    row = rows[model, engine]
    if "error" in row:
        raise RuntimeError(row["error"])
    return float(row[name])


class Accuracy:
    """Few images: enough to see a broken model, not to rank engines. `tilewright accuracy` takes more."""

    params = (MODELS, ENGINES, THREADS)
    param_names = ("model", "engine", "threads")
    timeout = 60

    def setup_cache(self) -> Rows:
        file = Path("accuracy.json")
        settings = settings_of(THREADS[0], Path.cwd() / "cache")
        run_accuracy(MODELS, ENGINES, settings, IMAGES, Outputs(str(file), quiet=True), command=[])
        rows = json.loads(file.read_text())["rows"]
        return {(row["model"], row["engine"]): row for row in rows}

    setup_cache.timeout = 900  # type: ignore[attr-defined]

    def track_top1(self, rows: Rows, model: str, engine: str, threads: str) -> float:
        return share(rows, model, engine, "top1")

    track_top1.unit = "share"  # type: ignore[attr-defined]

    def track_top5(self, rows: Rows, model: str, engine: str, threads: str) -> float:
        return share(rows, model, engine, "top5")

    track_top5.unit = "share"  # type: ignore[attr-defined]
