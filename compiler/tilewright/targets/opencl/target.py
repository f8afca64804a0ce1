"""The OpenCL target: schedules for groups, and whole programs as one segment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.config import CompileOptions, usable_cpus
from tilewright.errors import CodegenError
from tilewright.graph.ir import Node
from tilewright.lower.target import Choice, Group
from tilewright.machine import Machine
from tilewright.ops.operator import operator_of
from tilewright.program.callee import Callee
from tilewright.program.ir import Program
from tilewright.program.plan import Plan
from tilewright.program.segment_of import segment_of
from tilewright.segment import Segment
from tilewright.sources import digest_of_sources
from tilewright.storage import Wish
from tilewright.targets.opencl.c_types import Names
from tilewright.targets.opencl.codegen import Phase, generate
from tilewright.targets.opencl.costs import wish_of
from tilewright.targets.opencl.detect import detect
from tilewright.targets.opencl.launches import launches_of
from tilewright.targets.opencl.preamble import preamble_for
from tilewright.targets.opencl.schedules.generic import schedule_generic
from tilewright.types import TensorType

_ARGUMENT_BYTES = 16  # a pointer and an offset for each parameter


class OpenClTarget:
    """machine: None detects the device that the options name. Raises UsageError when it is absent."""

    name = "opencl"

    def __init__(self, machine: Machine | None, options: CompileOptions) -> None:
        _, _, self.device = options.target.partition(":")
        self.machine = detect(self.device, options.threads or usable_cpus()) if machine is None else machine

    @property
    def schedule_key(self) -> str:
        """The machine, and all of this target's code."""
        return f"{self.machine.key} {digest_of_sources('targets/opencl/**/*.py')}"

    def should_lower(self, node: Node) -> bool:
        """Operators with an expression or a loop program of their own are kept whole."""
        declaration = operator_of(node)
        return declaration.compute is None and declaration.loops is None

    def wish(self, node: Node) -> Wish | None:
        """See costs.py."""
        return wish_of(node)

    def pack_cost(self, type: TensorType) -> float:
        """Nothing asks: no wish here is for other than plain activations."""
        return 0.0

    def algorithms(self, node: Node) -> Mapping[str, float]:
        """There is one template for convolutions."""
        return {}

    def schedule(self, group: Group) -> Choice:
        return schedule_generic(group)

    def compile_kernel(self, callee: Callee) -> bytes:
        """Nothing: the driver compiles all kernels of a program together."""
        return b""

    def assemble(self, program: Program, plan: Plan) -> Segment:
        """One OpenCL program and its launches. Raises CodegenError naming a kernel that cannot run."""
        names = Names()
        phases = {name: generate(callee.kernel, names) for name, callee in program.kernels.items()}
        for name, parts in phases.items():
            for part in parts:
                self._check(name, part)
        texts = [part.text for parts in phases.values() for part in parts]
        body = "\n".join(texts)
        launches = list(launches_of(program.body, plan, phases, self.machine))
        reporting = [name for name, parts in phases.items() if any(part.reports for part in parts)]
        everything = [part for parts in phases.values() for part in parts]
        code = {
            "device": self.device,
            "source": f"{preamble_for(body)}\n{body}",
            "launches": launches,
            "needs": _needs(everything, body),
            "reporting": reporting,
            "rounded_divide": self.machine.has("rounded_divide"),
        }
        info = self._info(program, phases, len(launches))
        return segment_of(program, plan, self.name, json.dumps(code).encode(), info)

    def _check(self, name: str, part: Phase) -> None:
        """Refuse before a driver does, with the reason."""
        limits = self.machine.limits
        items = int(np.prod(part.local_size)) if part.local_size else 1
        found = {
            "work_group": (items, "items in a work-group"),
            "local_bytes": (part.shared_bytes, "bytes of local memory"),
            "parameter_bytes": (_ARGUMENT_BYTES * (len(part.params) + part.reports), "bytes of parameters"),
        }
        for key, (wanted, what) in found.items():
            if key in limits and wanted > limits[key]:
                raise CodegenError(
                    f"kernel '{name}' needs {wanted} {what}, '{self.machine.name}' allows {limits[key]}"
                )

    def _info(self, program: Program, phases: dict[str, tuple[Phase, ...]], launches: int) -> dict[str, Any]:
        kernels = [
            {"name": name, "launches": len(parts), **program.notes.get(name, {})}
            for name, parts in phases.items()
        ]
        return {"device": self.machine.name, "kernels": kernels, "launches": launches}


def _needs(parts: list[Phase], source: str) -> dict[str, int]:
    """What a device must have to run the source."""
    groups = [int(np.prod(part.local_size)) for part in parts if part.local_size is not None]
    return {
        "work_group": max(groups, default=1),
        "local_bytes": max((part.shared_bytes for part in parts), default=0),
        "fp64": int("double" in source),
    }
