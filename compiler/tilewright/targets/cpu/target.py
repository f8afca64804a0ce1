"""The CPU target: schedules for groups, and whole programs as one segment whose code is a flat image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.config import CompileOptions, default_cache_dir
from tilewright.graph.ir import Node
from tilewright.lower.target import Choice, Group
from tilewright.machine import Machine
from tilewright.ops.operator import operator_of
from tilewright.program.ir import Program
from tilewright.program.plan import Plan
from tilewright.program.segment_of import segment_of
from tilewright.segment import Segment
from tilewright.storage import Wish
from tilewright.targets.cpu.codegen import SYMBOL, kernel_text
from tilewright.targets.cpu.costs import CpuCosts
from tilewright.targets.cpu.detect import host
from tilewright.targets.cpu.device import ABI_VERSION, HEADER, MAGIC
from tilewright.targets.cpu.entry import RUN, entry_text, traced
from tilewright.targets.cpu.link import Image, Part, link
from tilewright.targets.cpu.object_cache import ObjectCache, object_key, open_cache
from tilewright.targets.cpu.objects import compile_text
from tilewright.targets.cpu.pool import PARALLEL_FOR, WORKER, pool_text
from tilewright.targets.cpu.schedules.choose import choose
from tilewright.types import TensorType


class CpuTarget:
    """machine: None for the host. Raises UsageError where the host cannot run code of this target."""

    name = "cpu"

    def __init__(self, machine: Machine | None, options: CompileOptions) -> None:
        self.machine = host() if machine is None else machine
        self.options = options
        self._cache: ObjectCache | None = None
        self._cache_opened = False

    def should_lower(self, node: Node) -> bool:
        """Operators with an expression or a loop program of their own are kept whole."""
        declaration = operator_of(node)
        return declaration.compute is None and declaration.loops is None

    def schedule(self, group: Group) -> Choice:
        return choose(group, self.machine)

    def wish(self, node: Node) -> Wish | None:
        """Channels last, weights in panels: see costs.py."""
        return CpuCosts(self.machine).wish(node)

    def pack_cost(self, type: TensorType) -> float:
        """A transposition, or a copy at least."""
        return CpuCosts(self.machine).pack_cost(type)

    def algorithms(self, node: Node) -> Mapping[str, float]:
        """Direct convolution and Winograd: see costs.py."""
        return CpuCosts(self.machine).algorithms(node)

    def assemble(self, program: Program, plan: Plan) -> Segment:
        """Objects of all kernels, from the cache where they are known, linked with the entry and the pool.

        Raises CodegenError naming a kernel that cannot be compiled, and CacheError.
        """
        texts = {name: kernel_text(callee.kernel, self.machine) for name, callee in program.kernels.items()}
        # kernels that differ in their names alone are one function of the image
        symbols: dict[str, str] = {}
        parts: dict[str, Part] = {}
        for name, text in texts.items():
            symbol = f"kernel.{object_key(text, self.machine)[:24]}"
            symbols[name] = symbol
            if symbol not in parts:
                parts[symbol] = Part(self._object(text), {SYMBOL: symbol})
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
        cache = self._objects()
        if cache is None:
            return compile_text(text, self.machine)
        key = object_key(text, self.machine)
        found = cache.get(key)
        if found is None:
            found = compile_text(text, self.machine)
            cache.put(key, found)
        return found

    def _objects(self) -> ObjectCache | None:
        """The cache, opened when it is first needed."""
        if not self._cache_opened:
            self._cache = open_cache(self.options.cache_dir, default_cache_dir())
            self._cache_opened = True
        return self._cache

    def _info(self, program: Program, sizes: dict[str, int], slots: list[str]) -> dict[str, Any]:
        kernels = [
            {"name": name, "object_bytes": sizes[name], **program.notes.get(name, {})}
            for name in program.kernels
        ]
        return {"device": self.machine.name, "kernels": kernels, "trace": slots}


def _with_header(image: Image, slots: int) -> bytes:
    offsets = (image.symbols[name] for name in (RUN, PARALLEL_FOR, WORKER))
    return HEADER.pack(MAGIC, ABI_VERSION, *offsets, slots) + image.data[HEADER.size :]
