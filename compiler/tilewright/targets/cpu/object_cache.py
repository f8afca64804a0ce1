"""Which object on disk is whose: digests of all that decides its code."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.metadata import version

import llvmlite.binding as llvm

from tilewright.machine import Machine
from tilewright.program.callee import Callee
from tilewright.sources import digest_of_sources
from tilewright.targets.cpu.objects import VERSION

ROOM, SUFFIX = "objects", ".o"
SOURCES = ("*.py", "loops/*.py", "targets/cpu/*.py")  # of what makes a kernel's LLVM text from its loops


def kernel_key(callee: Callee, machine: Machine) -> str:
    """The name of a kernel's object, known without its LLVM text; equal for kernels that differ in their
    names alone.
    """
    return object_key(f"{callee.digest} {digest_of_sources(*SOURCES)}", machine)


def object_key(text: str, machine: Machine) -> str:
    """The name of the object of an LLVM module on a machine."""
    return sha256("\0".join((text, machine.key, _compiler())).encode()).hexdigest()


@cache
def _compiler() -> str:
    """Versions of what compiles objects."""
    llvm_version = ".".join(map(str, llvm.llvm_version_info))
    return "\0".join((version("llvmlite"), llvm_version, str(VERSION)))
