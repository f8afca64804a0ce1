"""From a graph whose nodes are primitives, fused groups and scans to a program (Glow's IRGen)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tilewright.dtypes import BOOL, DType
from tilewright.errors import LoweringError
from tilewright.graph.ir import Constant, Function, Node, Value
from tilewright.loops.ir import Role
from tilewright.lower.group import kernel_operands
from tilewright.lower.kernel import Lowered
from tilewright.lower.kernels import Progress, is_view, lower_kernels
from tilewright.lower.reasons import reasons_for
from tilewright.lower.store import KernelStore
from tilewright.lower.target import Target
from tilewright.ops.bounded import at_bounds, count_of
from tilewright.ops.control import CONTROL_FLOW, LOOP_OPERANDS
from tilewright.ops.declaration import attributes
from tilewright.ops.operator import operator_of
from tilewright.program.callee import Callee
from tilewright.program.ir import (
    UNBOUNDED,
    Branch,
    CallKernel,
    Copy,
    Instruction,
    Loop,
    Memory,
    Operand,
    Program,
    Space,
)
from tilewright.types import Bounded

Counts = dict[str, tuple[tuple[int, Value], ...]]


def build_program(
    function: Function, target: Target, store: KernelStore | None = None, progress: Progress | None = None
) -> Program:
    """The program of a function, without allocations yet (a program pass places them).

    Equal groups share one kernel; store: where kernels are kept from one compilation to the next.
    Raises LoweringError naming the node, or all operators that cannot be lowered at once, CodegenError and
    CacheError.
    """
    counts = _counts(function)
    set_bounds(function)
    _refuse_unknown(function)
    return _Build(lower_kernels(function, target, store, progress)).program(function, counts)


def _refuse_unknown(function: Function) -> None:
    missing = sorted({f"{n.op} (node '{n.name}')" for n in function.nodes if not _can_lower(n)})
    if missing:
        raise LoweringError(f"no lowering for {len(missing)} operators: {', '.join(missing)}")


def _can_lower(node: Node) -> bool:
    if node.op in CONTROL_FLOW:
        return all(map(_can_lower, (inner for body in node.bodies for inner in body.nodes)))
    members = node.bodies[0].nodes if node.op == "Fused" else [node]
    return all(operator_of(m).compute is not None or operator_of(m).loops is not None for m in members)


@dataclass
class _Build:
    lowered: Mapping[Node, Lowered]
    result: Program = field(default_factory=lambda: Program("main"))
    names: set[str] = field(default_factory=set)
    constants: dict[Value, Operand] = field(default_factory=dict)

    def program(self, function: Function, counts: Counts) -> Program:
        self.result.name = function.name
        operands: dict[Value, Operand] = {}
        for placeholder in function.inputs:
            memory = self._memory(placeholder, Space.MUTABLE)
            operands[placeholder] = Operand(memory, Role.IN)
            self.result.inputs.append((placeholder.name, memory))
        body = self._body(function, operands)
        for value, name in zip(function.outputs, function.output_names, strict=True):
            memory = self._memory(value, Space.MUTABLE, f"{name}:out")
            body.append(Copy(Operand(memory, Role.OUT), self._operand(value, operands)))
            self.result.outputs.append((name, memory))
        self._count_outputs(function, counts, operands, body)
        self.result.body = tuple(body)
        return self.result

    def _count_outputs(
        self, function: Function, counts: Counts, operands: dict[Value, Operand], body: list[Instruction]
    ) -> None:
        """Further outputs: the counts of those whose size depends on data."""
        names: dict[Value, str] = {}
        taken = set(function.output_names)
        for output, found in counts.items():
            for _, value in found:
                if value in names:
                    continue
                names[value] = fresh_name(f"{output}:count", taken)
                memory = self._memory(value, Space.MUTABLE, names[value])
                body.append(Copy(Operand(memory, Role.OUT), self._operand(value, operands)))
                self.result.outputs.append((names[value], memory))
            self.result.counts[output] = tuple((axis, names[value]) for axis, value in found)

    def _body(self, function: Function, operands: dict[Value, Operand]) -> list[Instruction]:
        body: list[Instruction] = []
        for node in function.nodes:
            if node.op in CONTROL_FLOW:
                for part in (part for inner in node.bodies for part in inner.nodes):
                    part.origin = part.origin or node.origin  # what an operator was lowered to is part of it
                lower = {"Scan": self._scan, "Loop": self._loop, "If": self._branch}[node.op]
                body += lower(node, operands)
            elif is_view(node):
                operands[node.output] = self._operand(node.operand(0), operands)
            else:
                body.append(self._call(node, operands))
        return body

    def _call(self, node: Node, operands: dict[Value, Operand]) -> CallKernel:
        arguments = [self._operand(value, operands) for value in _arguments(node)]
        for value in node.outputs:
            operands[value] = Operand(self._memory(value, Space.ACTIVATION), Role.IN)
            arguments.append(Operand(operands[value].memory, Role.OUT))
        kernel = self._kernel(node)
        arguments += self._scratch(kernel)
        self.result.reasons += reasons_for(node, kernel.name)
        return CallKernel(kernel.name, tuple(arguments), node.origin or (node.name,))

    def _scratch(self, kernel: Callee) -> list[Operand]:
        """Memory of their own for a kernel's scratch parameters."""
        wanted = [b for b, role in zip(kernel.params, kernel.roles, strict=True) if role == Role.SCRATCH]
        memories = [Memory(self._unique(f"{kernel.name}:{b.name}"), b.dtype, b.shape) for b in wanted]
        return [Operand(memory, Role.SCRATCH) for memory in memories]

    def _kernel(self, node: Node) -> Callee:
        lowered = self.lowered[node]
        self.result.kernels[lowered.callee.name] = lowered.callee
        self.result.notes[lowered.callee.name] = dict(lowered.notes)
        return lowered.callee

    def _scan(self, node: Node, operands: dict[Value, Operand]) -> list[Instruction]:
        """States live in buffers of their own; each turn computes the new ones and copies them over."""
        (body,) = node.bodies
        states, scans = node.attrs["num_states"], node.attrs["num_scans"]
        trips = node.operand(states).shape[0] if scans else 0
        variable = self._unique(f"{node.name}:t")
        before: list[Instruction] = []
        inner = dict(operands)
        kept: list[Memory] = []
        for position, placeholder in enumerate(body.inputs):
            source = self._operand(node.operand(position), operands)
            if position < states:
                kept.append(self._memory(node.outputs[position], Space.ACTIVATION))
                before.append(Copy(Operand(kept[-1], Role.OUT), source))
                source = Operand(kept[-1], Role.IN)
            elif position < states + scans:
                if source.index or source.memory.shape[:1] != (trips,):  # a view of a buffer of another shape
                    scanned = self._memory(node.operand(position), Space.ACTIVATION)
                    before.append(Copy(Operand(scanned, Role.OUT), source))
                    source = Operand(scanned, Role.IN)
                source = Operand(source.memory, Role.IN, variable)
            inner[placeholder] = source
        turn = self._body(body, inner)
        for position, value in enumerate(body.outputs[states:], states):
            stacked = self._memory(node.outputs[position], Space.ACTIVATION)
            turn.append(Copy(Operand(stacked, Role.OUT, variable), self._operand(value, inner)))
            operands[node.outputs[position]] = Operand(stacked, Role.IN)
        turn += self._new_states(kept, [self._operand(value, inner) for value in body.outputs[:states]])
        for memory, value in zip(kept, node.outputs, strict=False):
            operands[value] = Operand(memory, Role.IN)
        return [*before, Loop(variable, trips, tuple(turn), bool(node.attrs.get("reverse", False)))]

    def _loop(self, node: Node, operands: dict[Value, Operand]) -> list[Instruction]:
        """As a scan without operands that are cut into slices; its ends are scalars in memory."""
        (body,) = node.bodies
        attrs = attributes(node)
        states, conditional = attrs["num_states"], attrs["conditional"]
        given = node.inputs[LOOP_OPERANDS:]
        variable = self._unique(f"{node.name}:t")
        before: list[Instruction] = []
        inner = dict(operands)
        kept: list[Memory] = []
        for position, (placeholder, value) in enumerate(zip(body.inputs, given, strict=True)):
            assert value is not None
            source = self._operand(value, operands)
            if position < states:
                kept.append(self._memory(node.outputs[position], Space.ACTIVATION))
                before.append(Copy(Operand(kept[-1], Role.OUT), source))
                source = Operand(kept[-1], Role.IN)
            inner[placeholder] = source
        limit, condition = (None if v is None else self._operand(v, operands) for v in node.inputs[:2])
        turn = self._body(body, inner)
        results = [self._operand(value, inner) for value in body.outputs]
        if conditional:
            going = Memory(self._unique(f"{node.name}:going"), BOOL, ())
            before.append(Copy(Operand(going, Role.OUT), condition or self._constant(np.array(True), node)))
            condition, again = Operand(going, Role.IN), results.pop(0)
            turn.append(Copy(Operand(going, Role.OUT), again))
        for value, source in zip(node.outputs[states:], results[states:], strict=True):
            stacked = self._memory(value, Space.ACTIVATION)
            turn.append(Copy(Operand(stacked, Role.OUT, variable), source))
            operands[value] = Operand(stacked, Role.IN)
        turn += self._new_states(kept, results[:states])
        for memory, value in zip(kept, node.outputs, strict=False):
            operands[value] = Operand(memory, Role.IN)
        trips = UNBOUNDED if attrs["max_trips"] < 0 else attrs["max_trips"]
        return [*before, Loop(variable, trips, tuple(turn), False, limit, condition)]

    def _branch(self, node: Node, operands: dict[Value, Operand]) -> list[Instruction]:
        """Either body copies its results to the node's."""
        condition = self._operand(node.operand(0), operands)
        results = [Operand(self._memory(value, Space.ACTIVATION), Role.OUT) for value in node.outputs]
        arms = []
        for body in node.bodies:
            inner = dict(operands)
            for placeholder, value in zip(body.inputs, node.inputs[1:], strict=True):
                assert value is not None
                inner[placeholder] = self._operand(value, operands)
            arm = self._body(body, inner)
            arm += [
                Copy(target, self._operand(value, inner))
                for target, value in zip(results, body.outputs, strict=True)
            ]
            arms.append(tuple(arm))
        for operand, value in zip(results, node.outputs, strict=True):
            operands[value] = replace(operand, mode=Role.IN)
        return [Branch(condition, arms[0], arms[1])]

    def _constant(self, data: np.ndarray, node: Node) -> Operand:
        memory = Memory(
            self._unique(f"{node.name}:constant"), DType.of(data.dtype), data.shape, Space.CONSTANT
        )
        self.result.constants[memory.name] = (memory, data)
        return Operand(memory, Role.IN)

    def _new_states(self, kept: list[Memory], new: list[Operand]) -> list[Instruction]:
        """Copies of the new states over the old. A new state that is another's old one is saved first."""
        saved: list[Instruction] = []
        sources: list[Operand] = []
        for memory, source in zip(kept, new, strict=True):
            if source.memory in kept and source.memory != memory:
                rescue = replace(source.memory, name=self._unique(f"{memory.name}:saved"))
                saved.append(Copy(Operand(rescue, Role.OUT), source))
                source = Operand(rescue, Role.IN)
            sources.append(source)
        pairs = zip(kept, sources, strict=True)
        return [*saved, *(Copy(Operand(m, Role.OUT), o) for m, o in pairs if o.memory != m)]

    def _operand(self, value: Value, operands: dict[Value, Operand]) -> Operand:
        if isinstance(value, Constant) and value not in self.constants:
            memory = self._memory(value, Space.CONSTANT)
            self.result.constants[memory.name] = (memory, value.data)
            self.constants[value] = Operand(memory, Role.IN)
        found = operands.get(value) or self.constants.get(value)
        if found is None:
            raise LoweringError(f"value '{value.name}' is used before it is computed")
        return found

    def _memory(self, value: Value, space: Space, name: str | None = None) -> Memory:
        type = value.type
        return Memory(
            self._unique(name or value.name), type.dtype, type.physical_shape, space, type.shape, type.storage
        )

    def _unique(self, name: str) -> str:
        candidate, count = name, 0
        while candidate in self.names:
            count += 1
            candidate = f"{name}:{count}"
        self.names.add(candidate)
        return candidate


def _arguments(node: Node) -> list[Value]:
    """What a node's kernel reads. A loop program has a parameter for every operand that is given."""
    if node.op != "Fused" and operator_of(node).loops is not None:
        return [value for value in node.inputs if value is not None]
    return kernel_operands(node)


def _counts(function: Function) -> Counts:
    """For outputs whose size depends on data: the axes, and the scalars that hold their sizes."""
    found: Counts = {}
    for name, value in zip(function.output_names, function.outputs, strict=True):
        for axis, extent in enumerate(value.shape):
            if not isinstance(extent, Bounded):
                continue
            count = count_of(function, extent)
            if count is None:
                raise LoweringError(f"output '{name}': nothing in the function holds the count of {extent}")
            found[name] = (*found.get(name, ()), (axis, count))
    return found


def set_bounds(function: Function) -> None:
    """Every size that depends on data becomes its bound, in place: from here on memory matters only."""
    for node in function.nodes:
        for value in (*node.inputs, *node.outputs):
            if value is not None:
                value.type = value.type.at_bound()
        node.attrs = at_bounds(node.attrs)
        for body in node.bodies:
            for placeholder in body.inputs:
                placeholder.type = placeholder.type.at_bound()
            set_bounds(body)


def fresh_name(name: str, taken: set[str]) -> str:
    """The name, or a similar one that is not taken yet; it is taken then."""
    while name in taken:
        name += "'"
    taken.add(name)
    return name
