"""`tilewright devices`."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from tilewright.cli.output import table_console, write_json
from tilewright.config import usable_cpus
from tilewright.errors import TilewrightError


def show_devices(json_to: str | None) -> None:
    """One row a device; a target that cannot be used has its reason in place of a description."""
    rows = [_cpu(), *_opencl(), {"target": "numpy", "device": "NumPy, for reference", "usable": True}]
    if json_to is not None:
        write_json(json_to, rows)
    if json_to == "-":
        return
    table = Table("target", "device", "usable")
    for row in rows:
        table.add_row(row["target"], row["device"], "yes" if row["usable"] else "no")
    table_console().print(table)


def show_profile(json_to: str | None) -> None:
    """The host as a profile of a machine, on stdout where no file is given. Raises UsageError."""
    from tilewright.targets.cpu.detect import host

    write_json(json_to or "-", host().to_json())


def _cpu() -> dict[str, Any]:
    from tilewright.targets.cpu.detect import host

    machine = host()
    text = f"{machine.triple}, {machine.vector_bits}-bit vectors, {usable_cpus()} usable CPUs"
    return {"target": "cpu", "device": text, "usable": True, "machine": machine.to_json()}


def _opencl() -> list[dict[str, Any]]:
    from tilewright.targets.opencl.platforms import list_devices

    try:
        found = list_devices()
    except TilewrightError as error:
        return [{"target": "opencl", "device": str(error), "usable": False}]
    rows = [
        {"target": f"opencl:{device.label}", "device": device.version, "usable": True} for device in found
    ]
    return rows or [{"target": "opencl", "device": "no OpenCL driver offers a device", "usable": False}]
