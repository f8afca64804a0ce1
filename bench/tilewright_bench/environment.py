"""Where a measurement was made: commit, machine, affinity, clock policy, versions. Unreadable facts say
"unknown".
"""

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tilewright_bench.affinity import Affinity

UNKNOWN = "unknown"
PACKAGES = (
    *("tilewright", "numpy", "onnx", "onnxruntime", "openvino", "MNN", "ncnn", "apache-tvm"),
    *("llvmlite", "pyopencl", "pillow"),
)
CPU = Path("/sys/devices/system/cpu")


def describe(affinity: Affinity, threads: int) -> dict[str, Any]:
    """The environment part of a result that was measured under this affinity."""
    commit, dirty = source_state()
    name, flags = _cpu()
    return {
        "commit": commit,
        "dirty": dirty,
        "time_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "affinity": affinity.cpus,
        "usable_cpus": affinity.usable,
        "host_cpus": os.cpu_count(),
        "threads": threads,
        "cpu": name,
        "flags": flags,
        "governor": _read(CPU / f"cpu{affinity.cpus[0]}/cpufreq/scaling_governor"),
        "turbo": _turbo(),
        "cpuset": _read(Path("/sys/fs/cgroup/cpuset.cpus.effective")),
        "cpu_quota": _read(Path("/sys/fs/cgroup/cpu.max")),
        "container": _container(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "load_average": list(os.getloadavg()),
        "python": platform.python_version(),
        "packages": _packages(),
        "spinning": "engines keep their default; waited out before each block",
    }


@cache
def source_state() -> tuple[str, bool | None]:
    """(commit, dirty) of the checkout this code runs from; ("unknown", None) when it is installed without
    one.
    """
    here = Path(__file__).resolve()
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return UNKNOWN, None
    commit = _git(here.parent, "rev-parse", "HEAD")
    changes = _git(here.parent, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return UNKNOWN, None
    return commit, bool(changes)


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        return None  # no git on this machine: the commit is unknown
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu() -> tuple[str, list[str]]:
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        key, colon, value = line.partition(":")
        if not colon:
            break
        fields[key.strip()] = value.strip()
    return fields.get("model name", UNKNOWN), fields.get("flags", fields.get("Features", "")).split()


def _turbo() -> str:
    intel = _read(CPU / "intel_pstate/no_turbo")
    if intel != UNKNOWN:
        return "off" if intel == "1" else "on"
    boost = _read(CPU / "cpufreq/boost")
    return boost if boost == UNKNOWN else {"0": "off", "1": "on"}.get(boost, boost)


def _container() -> str:
    if Path("/.dockerenv").exists():
        return "docker"
    if Path("/run/.containerenv").exists():
        return "podman"
    return UNKNOWN


def _packages() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return UNKNOWN
