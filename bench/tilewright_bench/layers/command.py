"""What `tilewright layers` does: measure, then write and show."""

from collections.abc import Sequence
from typing import Any

from tilewright_bench import tables
from tilewright_bench.engines.base import Settings
from tilewright_bench.layers import table
from tilewright_bench.layers.run import Request, has_failed, measure_layers
from tilewright_bench.measure import Plan
from tilewright_bench.models import check_model, find_model
from tilewright_bench.options import engines_of
from tilewright_bench.outputs import Outputs
from tilewright_bench.progress import Reporter
from tilewright_bench.sizes import check_sizes

# A network has many layers: shorter and wider than a comparison of whole models.
PLAN = Plan(duration_s=1.5, half_width=0.03, minimum_rounds=10, block_s=0.01)


def run_layers(
    model: str,
    engines: Sequence[str],
    settings: Settings,
    duration: float | None,
    outputs: Outputs,
    command: Sequence[str],
) -> bool:
    """Measure, write, show; False when an engine failed on a layer. `command` is what the user gave, for the
    result. Raises UsageError.
    """
    outputs.prepare([model])
    specs = engines_of(engines)
    found = find_model(model)
    check_model(found, settings.dims)
    check_sizes([found.path], settings.dims)
    plan = PLAN if duration is None else Plan(duration, PLAN.half_width, PLAN.minimum_rounds, PLAN.block_s)
    with Reporter(outputs.quiet) as reporter:
        result = measure_layers(Request(found, specs, settings, plan), reporter)
    result["environment"]["command"] = [*command]
    _write(result, outputs)
    return not has_failed(result)


def _write(result: dict[str, Any], outputs: Outputs) -> None:
    title = table.title(result)
    head, cells = table.layer_table(result)
    totals = table.total_cells(result)
    if outputs.shows_tables:
        tables.show(title, head, cells)
        tables.show("in the network, by kind", table.TOTAL_HEAD, totals)
        tables.show("the whole network", table.NETWORK_HEAD, table.network_cells(result))
    text = [f"{title}\n", tables.markdown(head, cells), tables.markdown(table.TOTAL_HEAD, totals)]
    outputs.write(result, table.layer_csv(result), "\n".join(text))
