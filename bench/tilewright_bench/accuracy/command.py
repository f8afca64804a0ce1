"""What `tilewright accuracy` does: run every model over the images, then write and show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import UsageError
from tilewright_bench import tables
from tilewright_bench.accuracy.driver import Outcome, Task, run_task
from tilewright_bench.accuracy.summary import offset_of, pairs_of, rows_of
from tilewright_bench.affinity import pinned
from tilewright_bench.engines.base import Settings
from tilewright_bench.engines.registry import engine_of
from tilewright_bench.environment import describe
from tilewright_bench.models import ModelFile, check_model, find_model
from tilewright_bench.options import engines_of
from tilewright_bench.outputs import Outputs
from tilewright_bench.progress import Reporter
from tilewright_bench.sizes import check_sizes
from tilewright_datasets import zoo
from tilewright_datasets.images import open_dataset
from tilewright_datasets.preprocess import Preprocess

Json = dict[str, Any]

# Margin of a top-1 flip that the contract of a precision class allows (docs/precision.md).
MARGINS = {"fp32-fast": 1e-3}


@dataclass(frozen=True)
class Images:
    """The options that say which images, how they are prepared and how labels map to outputs."""

    dataset: str
    ks: tuple[int, ...]
    limit: int | None
    preprocess: str | None
    label_offset: int | None


def run_accuracy(
    models: Sequence[str],
    engines: Sequence[str],
    settings: Settings,
    images: Images,
    outputs: Outputs,
    command: Sequence[str],
) -> bool:
    """Measure, write, show; False when an engine failed or it was interrupted. `command` is what the user
    gave, for the result.

    Raises UsageError or DataError for what cannot be run at all.
    """
    outputs.prepare(models)
    if not models:
        raise UsageError("nothing to measure: give a MODEL")
    specs = engines_of(engines)
    for spec in specs:
        engine_of(spec)
    found = open_dataset(images.dataset).limited(images.limit)
    tasks = [
        Task(
            model,
            specs,
            settings,
            found,
            _preprocess_of(model, images.preprocess),
            max(5, *images.ks),
            images.label_offset,
        )
        for model in map(find_model, models)
    ]
    for one in tasks:
        check_model(one.model, settings.dims)
    check_sizes([one.model.path for one in tasks], settings.dims)
    with Reporter(outputs.quiet) as reporter:
        result = measure_accuracy(tasks, images.ks, reporter)
    result["environment"]["command"] = [*command]
    if outputs.shows_tables:
        tables.show(f"accuracy on {found.name}", tables.ACCURACY_HEAD, tables.accuracy_cells(result))
    outputs.write(result)
    return not result["interrupted"] and not any("error" in row for row in result["rows"])


def measure_accuracy(tasks: Sequence[Task], ks: Sequence[int], reporter: Reporter) -> Json:
    """Run tasks that share their settings; the JSON of DESIGN with `environment`, `warnings` and
    `interrupted`.
    """
    settings = tasks[0].settings
    result: Json = {"environment": {}, "rows": [], "pairs": [], "warnings": [], "interrupted": False}
    with pinned(settings.threads) as affinity:
        result["environment"] = describe(affinity, settings.threads)
        for task in tasks:
            outcome = run_task(task, settings.cache_dir, reporter)
            result["rows"] += rows_of(task, outcome, ks)
            pairs = pairs_of(task, outcome)
            result["pairs"] += pairs
            for warning in (*_warnings(task, outcome), *flip_warnings(pairs)):
                result["warnings"].append(warning)
                reporter.note(f"warning: {warning}")
            if outcome.interrupted:
                result["interrupted"] = True
                break
    return result


def _warnings(task: Task, outcome: Outcome) -> list[str]:
    check, used = offset_of(outcome), outcome.label_offset
    if check is None or check.better is None:
        return []
    return [
        f"{task.model.name}: top-1 hits {check.hits[check.better]} images with label offset {check.better}, "
        f"and {check.hits[used]} with the one in use ({used}); if labels are shifted, give --label-offset "
        f"{check.better}"
    ]


def flip_warnings(pairs: Sequence[Json]) -> list[str]:
    """One line for each pair of engines with a flip beyond the margin of their class, where it has one."""
    return [
        f"{pair['model']}: {pair['a']} and {pair['b']} disagree on a top-1 class by a margin of "
        f"{pair['max_margin_of_flip']:.1e}; the contract of {pair['precision']} allows {allowed:.0e}"
        for pair in pairs
        if (allowed := MARGINS.get(pair["precision"])) is not None and pair["max_margin_of_flip"] > allowed
    ]


def _preprocess_of(model: ModelFile, zoo_name: str | None) -> Preprocess:
    found = zoo.preprocess_spec(zoo_name or model.name)
    if found is None:
        raise UsageError(
            f"no preprocessing is known for '{zoo_name or model.name}'; give --preprocess ZOO-NAME of a "
            "model that takes images (see: tilewright models)"
        )
    return found
