"""The CPU target: schedules for groups, and whole programs as one segment whose code is a flat image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from tilewright.config import CompileOptions
from tilewright.disk_cache import DiskCache
from tilewright.graph.ir import Node
from tilewright.lower.target import Choice, Group
from tilewright.machine import Machine
from tilewright.ops.operator import operator_of
from tilewright.ops.winograd import ALGORITHMS
from tilewright.program.callee import Callee
from tilewright.program.ir import Program
from tilewright.program.plan import Plan
from tilewright.program.segment_of import segment_of
from tilewright.segment import Segment
from tilewright.sources import digest_of_sources
from tilewright.storage import Wish
from tilewright.targets.cpu.codegen import SYMBOL, kernel_text
from tilewright.targets.cpu.costs import CpuCosts
from tilewright.targets.cpu.detect import checked, host, without_tiles
from tilewright.targets.cpu.device import ABI_VERSION, HEADER, MAGIC
from tilewright.targets.cpu.entry import RUN, entry_text, traced
from tilewright.targets.cpu.link import Image, Part, link
from tilewright.targets.cpu.object_cache import ROOM, SUFFIX, kernel_key, object_key
from tilewright.targets.cpu.objects import compile_text
from tilewright.targets.cpu.pool import PARALLEL_FOR, WORKER, pool_text
from tilewright.targets.cpu.schedules.choose import choose
from tilewright.types import TensorType


class CpuTarget:
    """machine: None for the host.

    Raises UsageError where the host cannot run code of this target, or the machine is none to compile for.
    """

    name = "cpu"

    def __init__(self, machine: Machine | None, options: CompileOptions) -> None:
        machine = host() if machine is None else checked(machine, options.machine)
        self.machine = without_tiles(machine) if "matrix" in options.without else machine
        self.options = options
        self._costs = CpuCosts(self.machine, options.precision)

    @property
    def schedule_key(self) -> str:
        """The machine, the options, and all of this target's code."""
        options = (self.options.precision, *sorted(self.options.without))
        return " ".join((self.machine.key, *options, digest_of_sources("targets/cpu/**/*.py")))

    def should_lower(self, node: Node) -> bool:
        """Operators with an expression or a loop program of their own are kept whole."""
        declaration = operator_of(node)
        return declaration.compute is None and declaration.loops is None

    def schedule(self, group: Group) -> Choice:
        return choose(group, self.machine)

    def wish(self, node: Node) -> Wish | None:
        """Channels last, weights in panels: see wishes.py."""
        return self._costs.wish(node)

    def pack_cost(self, type: TensorType) -> float:
        """A transposition, or a copy at least."""
        return self._costs.pack_cost(type)

    def algorithms(self, node: Node) -> Mapping[str, float]:
        """Those that the mode of precision permits and `--without winograd` leaves: see costs.py.

        `--without direct` takes none away: convolutions are products by then, and still have the choice.
        """
        cycles = self._costs.algorithms(node)
        left_out = ALGORITHMS if "winograd" in self.options.without else ()
        return {name: count for name, count in cycles.items() if name not in left_out}

    def compile_kernel(self, callee: Callee) -> bytes:
        """An object, from the cache where it is known."""
        key = kernel_key(callee, self.machine)
        return self._stored(key, lambda: kernel_text(callee.kernel, self.machine))

    def assemble(self, program: Program, plan: Plan) -> Segment:
        """Objects of all kernels, linked with the entry and the pool.

        Raises CodegenError and CacheError.
        """
        # kernels that differ in their names alone are one function of the image
        symbols = {name: f"kernel.{callee.digest[:24]}" for name, callee in program.kernels.items()}
        parts: dict[str, Part] = {}
        for name, callee in program.kernels.items():
            if symbols[name] not in parts:
                code = callee.code or self.compile_kernel(callee)
                parts[symbols[name]] = Part(code, {SYMBOL: symbols[name]})
        entry = Part(self._object(entry_text(program, plan, symbols, self.machine)), {RUN: RUN})
        pool = Part(self._object(pool_text(self.machine.triple)), {n: n for n in (PARALLEL_FOR, WORKER)})
        slots = traced(program)
        image = link([entry, pool, *parts.values()], HEADER.size)
        return segment_of(
            program,
            plan,
            self.name,
            _with_header(image, len(slots)),
            self._info(program, {n: len(parts[s].data) for n, s in symbols.items()}, slots),
            self.machine.features,
        )

    def _object(self, text: str) -> bytes:
        return self._stored(object_key(text, self.machine), lambda: text)

    def _stored(self, key: str, text: Callable[[], str]) -> bytes:
        """The object of this key from the cache; when it is not there, compiled from the text and kept."""
        found = self._objects.get(key)
        if found is None:
            found = compile_text(text(), self.machine)
            self._objects.put(key, found)
        return found

    @cached_property
    def _objects(self) -> DiskCache:
        """The cache of objects, opened when it is first needed. Raises CacheError."""
        return DiskCache(self.options.caches, ROOM, SUFFIX)

    def _info(self, program: Program, sizes: dict[str, int], slots: list[str]) -> dict[str, Any]:
        kernels = [
            {"name": name, "object_bytes": sizes[name], **program.notes.get(name, {})}
            for name in program.kernels
        ]
        return {"device": self.machine.name, "kernels": kernels, "trace": slots}


def _with_header(image: Image, slots: int) -> bytes:
    offsets = (image.symbols[name] for name in (RUN, PARALLEL_FOR, WORKER))
    return HEADER.pack(MAGIC, ABI_VERSION, *offsets, slots) + image.data[HEADER.size :]
