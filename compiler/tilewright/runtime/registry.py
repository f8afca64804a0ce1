"""Devices by target name, through the entry-point group `tilewright.devices`."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from threading import Lock

from tilewright.errors import ArtefactError
from tilewright.runtime.device import Device

GROUP = "tilewright.devices"
_lock = Lock()
_devices: dict[str, Device] = {}


def device_for(target: str) -> Device:
    """The one device object of this process for a target such as `cpu` or `opencl:NAME`.

    Raises ArtefactError when no installed package offers one, or when what it needs is not installed.
    """
    name = target.partition(":")[0]
    with _lock:
        if name not in _devices:
            _devices[name] = _make(name)
        return _devices[name]


def device_names() -> list[str]:
    """Names of all devices that installed packages offer."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def _make(name: str) -> Device:
    points: list[EntryPoint] = list(entry_points(group=GROUP, name=name))
    if not points:
        raise ArtefactError(
            f"no device runs target '{name}'; installed: {', '.join(device_names()) or 'none'}"
        )
    try:
        made: Device = points[0].load()()
    except ImportError as error:
        raise ArtefactError(
            f"the device for target '{name}' cannot be loaded: {error}; "
            f"install the extra 'tilewright[{name}]'"
        ) from error
    return made
