"""Finding OpenCL devices by name, never as "the first": every installed driver may change which that is."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from platformdirs import user_cache_path

from tilewright.errors import UsageError

_POCL = "Portable Computing Language"
_INSTALL = "install the embedded CPU device with: pip install 'tilewright[opencl]'"
_prepared: list[int | None] = []  # one element once PoCL was started: its thread count


@dataclass(frozen=True)
class Found:
    """A device that is present. label: `platform: device`, made distinct; version: of the driver."""

    label: str
    version: str
    handle: Any

    @property
    def is_cpu(self) -> bool:
        return bool(self.handle.type & pyopencl_module().device_type.CPU)

    @property
    def is_pocl(self) -> bool:
        return self.label.startswith(_POCL)

    @property
    def is_embedded(self) -> bool:
        """Whether this is the PoCL that pip installs: it is built to be relocatable."""
        return self.is_pocl and "RELOC" in self.version


def pyopencl_module() -> ModuleType:
    """pyopencl, imported when first needed. Raises UsageError when it is absent."""
    try:
        import pyopencl
    except ImportError as error:
        raise UsageError(
            f"target opencl needs pyopencl, which cannot be imported ({error}); {_INSTALL}"
        ) from error
    return pyopencl


def choose_device(name: str = "", threads: int | None = None) -> Found:
    """The one device that `name` means.

    name: any part of `platform: device (version)`, case ignored, that fits exactly one device; a whole label
    wins over parts. Without a name: the only device of the PoCL that pip installs, else the only PoCL device.
    threads: for the CPU device, heeded by the first call of a process; PoCL starts its threads once.
    Raises UsageError listing the devices when none or several fit.
    """
    devices = list_devices(threads)
    if not devices:
        raise UsageError(f"there is no OpenCL device; {_INSTALL}")
    fitting = _fitting(devices, name)
    if len(fitting) == 1:
        return _with_threads(fitting[0], threads)
    known = "; ".join(f"'{d.label}' ({d.version})" for d in devices)
    asked = f"no OpenCL device fits '{name}'" if name else "the embedded OpenCL device is absent"
    if fitting:
        asked = (
            f"{len(fitting)} OpenCL devices fit '{name}'"
            if name
            else "there are several embedded OpenCL devices"
        )
    raise UsageError(f"{asked}; name one with opencl:NAME. Present are: {known}")


def list_devices(threads: int | None = None) -> list[Found]:
    """All devices of all platforms, in the drivers' order; equal labels get a number."""
    cl = pyopencl_module()
    _prepare(threads)
    try:
        platforms = cl.get_platforms()
    except cl.Error:  # the loader's way of saying that no driver is installed
        return []
    found: list[Found] = []
    for platform in platforms:
        for device in platform.get_devices():
            label = f"{platform.name.strip()}: {device.name.strip()}"
            twins = sum(f.label == label or f.label.startswith(f"{label} #") for f in found)
            found.append(Found(f"{label} #{twins + 1}" if twins else label, platform.version.strip(), device))
    return found


def _fitting(devices: list[Found], name: str) -> list[Found]:
    if not name:
        embedded = [d for d in devices if d.is_embedded]
        return embedded or [d for d in devices if d.is_pocl]
    exact = [d for d in devices if d.label.lower() == name.lower()]
    return exact or [d for d in devices if name.lower() in f"{d.label} ({d.version})".lower()]


def _with_threads(found: Found, threads: int | None) -> Found:
    """The device, when it runs on the wanted number of threads."""
    if threads is None or not found.is_cpu:
        return found
    units = int(found.handle.max_compute_units)
    if units <= threads:
        return found
    raise UsageError(
        f"OpenCL device '{found.label}' runs on {units} threads in this process, not on {threads}; "
        "PoCL fixes the number when it starts: ask in a fresh process, or limit the process with taskset"
    )


def _prepare(threads: int | None) -> None:
    """Settings that PoCL reads from the environment when it starts, which is once in a process."""
    if _prepared:
        return
    _prepared.append(threads)
    if threads is not None:
        os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", str(threads))
    if not _writable(user_cache_path("pocl")):
        # without a cache folder PoCL shows no device at all
        private = tempfile.mkdtemp(prefix="tilewright-pocl-")
        atexit.register(shutil.rmtree, private, ignore_errors=True)
        os.environ.setdefault("POCL_CACHE_DIR", private)


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
