"""The host as a Machine, from feature flags alone.

Processor names are unreliable on virtual machines and for new models.
"""

from __future__ import annotations

import platform
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import llvmlite.binding as llvm

from tilewright.errors import UsageError
from tilewright.machine import Machine
from tilewright.targets.cpu.device import tile_permission

# what code generation can make use of; anything else in a machine's list would only narrow where an artefact
# runs
_X86_FEATURES = frozenset(
    {"sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "fma", "f16c"}
    | {"bmi", "bmi2", "lzcnt", "movbe", "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}
    | {"avx512vnni", "avx512bf16", "avx512fp16", "avx512vbmi", "avx512vbmi2", "avx512bitalg", "avx512ifma"}
    | {"avx512vpopcntdq", "avxvnni", "amx-tile", "amx-int8", "amx-bf16", "amx-fp16"}
)
_VECTOR_BITS = (128, 256, 512)
_REGISTERS = (16, 32)
_AVX512 = ("avx512f", "avx512vl", "avx512dq", "avx512bw")
_DEFAULT_CACHES = (32 << 10, 1 << 20, 16 << 20)
_CACHE_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")


@lru_cache(maxsize=1)
def host() -> Machine:
    """The machine this process runs on. Raises UsageError where code for it cannot be run."""
    if platform.machine() not in ("x86_64", "AMD64") or platform.system() != "Linux":
        raise UsageError(
            f"the cpu target runs on x86-64 Linux, not on {platform.machine()} {platform.system()}; "
            "name a machine to compile for with --machine, or use --target numpy"
        )
    features = frozenset(f for f, present in llvm.get_host_cpu_features().items() if present) & _X86_FEATURES
    machine = from_features("host", features, caches=_caches())
    return machine if may_use_tiles(features) else without_tiles(machine)


def from_features(
    name: str, features: frozenset[str], caches: tuple[int, ...] = _DEFAULT_CACHES, triple: str = ""
) -> Machine:
    """A machine with these LLVM features: register width, count and units follow from them."""
    bits = 128
    if "avx2" in features and "fma" in features:
        bits = 256
    wide = all(feature in features for feature in _AVX512)
    if wide and bits == 256:
        bits = 512
    tiles = "amx-tile" in features
    units = {
        "fma": int("fma" in features),
        "vnni": int("avx512vnni" in features or "avxvnni" in features),
        "amx_int8": int(tiles and "amx-int8" in features),
        "amx_bf16": int(tiles and "amx-bf16" in features),
    }
    return Machine(
        name=name,
        triple=triple or "x86_64-unknown-linux-gnu",
        features=tuple(sorted(features)),
        vector_bits=bits,
        registers=32 if wide else 16,
        caches=caches,
        units={unit: count for unit, count in units.items() if count},
    )


def checked(machine: Machine, profile: Path | None) -> Machine:
    """A machine that a profile describes, when code can be generated for it. profile: its file, for messages.

    Raises UsageError for a system that images are not made for, and for registers, features and units that
    x86-64 code, or that with these features, has no instructions for.
    """
    where = f"machine profile {profile or machine.name}"
    if not machine.triple.startswith("x86_64-") or "linux" not in machine.triple:
        raise UsageError(f"{where}: images are made for x86-64 Linux, not for '{machine.triple}'")
    for field, known in (("vector_bits", _VECTOR_BITS), ("registers", _REGISTERS)):
        value = getattr(machine, field)
        if value not in known:
            raise UsageError(f"{where}: {field} is {value}; x86-64 has {', '.join(map(str, known))}")
    unknown = sorted(set(machine.features) - _X86_FEATURES)
    if unknown:
        raise UsageError(
            f"{where}: no code is generated for {_list('feature', unknown)}; "
            f"known: {', '.join(sorted(_X86_FEATURES))}"
        )
    for field, most in (("vector_bits", _widest(machine)), ("registers", 32 if _is_avx512(machine) else 16)):
        value = getattr(machine, field)
        if value > most:
            raise UsageError(f"{where}: {field} is {value}; its features bring {most} at most")
    given = from_features(machine.name, frozenset(machine.features)).units
    unfounded = sorted(unit for unit, count in machine.units.items() if count and unit not in given)
    if unfounded:
        raise UsageError(f"{where}: none of its features brings {_list('unit', unfounded)}")
    return machine


def _is_avx512(machine: Machine) -> bool:
    return any(feature.startswith("avx512") for feature in machine.features)


def _widest(machine: Machine) -> int:
    """Bits of the widest vectors that the features have instructions for; code may use narrower ones."""
    if _is_avx512(machine):
        return 512
    return 256 if any(feature.startswith("avx") or feature == "fma" for feature in machine.features) else 128


def _list(word: str, names: list[str]) -> str:
    return f"the {word}{'s' if len(names) > 1 else ''} {', '.join(names)}"


def without_tiles(machine: Machine) -> Machine:
    """The machine as it is without AMX."""
    features = tuple(f for f in machine.features if not f.startswith("amx"))
    units = {unit: count for unit, count in machine.units.items() if not unit.startswith("amx")}
    return replace(machine, features=features, units=units)


def may_use_tiles(features: frozenset[str]) -> bool:
    """Whether the kernel lets this process use tile registers; it is asked only where the flag is there."""
    return "amx-tile" in features and tile_permission()


def _caches() -> tuple[int, ...]:
    """Bytes of L1d, L2 and L3 as one core sees them; defaults for levels that the system does not tell."""
    sizes = dict(enumerate(_DEFAULT_CACHES, start=1))
    for folder in sorted(_CACHE_FOLDER.glob("index*")):
        try:
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:  # containers may hide some files
            continue
        if kind != "Instruction" and size[-1:] in ("K", "M") and int(level) in sizes:
            sizes[int(level)] = int(size[:-1]) << (10 if size[-1] == "K" else 20)
    return tuple(sizes[level] for level in sorted(sizes))
