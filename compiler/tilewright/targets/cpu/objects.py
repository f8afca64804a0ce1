"""LLVM text to object code: position-independent, for the features that the machine lists and no others."""

from __future__ import annotations

import threading
from functools import lru_cache

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from tilewright.errors import CodegenError
from tilewright.machine import Machine

# raised whenever the same text would give other code; part of every cache key
VERSION = 2

_LOCK = threading.Lock()  # LLVM's global context is shared by all threads


@lru_cache(maxsize=1)
def _initialise() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@lru_cache(maxsize=16)
def _target_machine(triple: str, features: tuple[str, ...]) -> llvm.TargetMachine:
    """Code for a generic processor: the name of a processor would bring features that nobody checked."""
    _initialise()
    x86 = triple.startswith("x86_64")
    listed = ["+" + feature for feature in features]
    if x86:
        listed.append("-prefer-256-bit")
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise CodegenError(f"no code generator for '{triple}': {error}") from error
    cpu = "x86-64" if x86 else "generic"
    return target.create_target_machine(
        cpu=cpu, features=",".join(listed), opt=3, reloc="pic", codemodel="small"
    )


def target_machine(machine: Machine) -> llvm.TargetMachine:
    return _target_machine(machine.triple, machine.features)


def compile_text(text: str, machine: Machine) -> bytes:
    """The object file of an LLVM module. Raises CodegenError with LLVM's message."""
    with _LOCK:
        return bytes(target_machine(machine).emit_object(_optimised(text, machine)))


def assembly(text: str, machine: Machine) -> str:
    """The module's assembly, for people."""
    with _LOCK:
        return str(target_machine(machine).emit_assembly(_optimised(text, machine)))


def _optimised(text: str, machine: Machine) -> llvm.ModuleRef:
    target = target_machine(machine)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CodegenError(f"LLVM refuses the generated code: {error}") from error
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False  # schedules vectorise
    options.slp_vectorization = False
    options.loop_unrolling = False
    options.loop_interleaving = False
    builder = llvm.create_pass_builder(target, options)
    manager = builder.getModulePassManager()
    try:
        manager.run(module, builder)
    finally:
        _dispose(manager)
    return module


def _dispose(manager: llvm.ModulePassManager) -> None:
    """Frees a pass manager: its class in llvmlite inherits an empty `_dispose` before the one that frees it,
    and some 100 kB of passes and what they found would stay for each module.
    """
    NewPassManager._dispose(manager)
    manager.detach()
