"""Small kernels, random programs over them, and a machine that runs programs in planned memory."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tilewright.dtypes import BOOL, F32, I64
from tilewright.expr import Var, binary, const, read
from tilewright.loops.interpret import interpret
from tilewright.loops.ir import Buffer, For, Kernel, Role, Store
from tilewright.program.callee import Callee
from tilewright.program.ir import (
    Branch,
    CallKernel,
    Copy,
    Loop,
    Memory,
    Operand,
    Program,
    Space,
)
from tilewright.program.plan import Plan

WIDTH = 4
TRIPS = 3
AT = Var("i")


def _kernel(name, count, value, inplace):
    params = tuple(Buffer(f"p{n}", F32, (WIDTH,)) for n in range(count + 1))
    body = For(AT, const(WIDTH), Store(params[-1], (AT,), value(*params[:-1])))
    return Kernel(name, params, (Role.IN,) * count + (Role.OUT,), body, inplace)


# whether the first element is small: what ends a loop
BELOW = Kernel(
    "below",
    (Buffer("p0", F32, (WIDTH,)), Buffer("p1", BOOL, (1,))),
    (Role.IN, Role.OUT),
    Store(
        Buffer("p1", BOOL, (1,)),
        (const(0),),
        binary("lt", read(Buffer("p0", F32, (WIDTH,)), [const(0)]), const(40.0, F32)),
    ),
)
KERNELS = {
    "below": BELOW,
    "bump": _kernel("bump", 1, lambda a: read(a, [AT]) + 1.0, ((1, 0),)),
    "flip": _kernel("flip", 1, lambda a: read(a, [const(WIDTH - 1) - AT]) * 2.0, ()),
    "sum2": _kernel("sum2", 2, lambda a, b: read(a, [AT]) + read(b, [AT]), ((2, 0), (2, 1))),
    "mixed": _kernel(
        "mixed", 2, lambda a, b: read(a, [AT]) - read(b, [const(WIDTH - 1) - AT]) * 0.5, ((2, 0),)
    ),
}
ARITY = {"bump": 1, "flip": 1, "sum2": 2, "mixed": 2}


def row(name, space=Space.ACTIVATION):
    return Memory(name, F32, (WIDTH,), space)


def rows(name, space=Space.ACTIVATION):
    return Memory(name, F32, (TRIPS, WIDTH), space)


def source(memory, index=""):
    return Operand(memory, Role.IN, index)


def target(memory, index=""):
    return Operand(memory, Role.OUT, index)


def call(kernel, *memories):
    """A call whose last operand is the result; operands are memories or (memory, index)."""
    pairs = [m if isinstance(m, tuple) else (m, "") for m in memories]
    *takes, gives = pairs
    return CallKernel(kernel, (*(source(*p) for p in takes), target(*gives)))


def program(body, inputs=(), outputs=(), constants=()):
    return Program(
        "test",
        constants={m.name: (m, data) for m, data in constants},
        inputs=[(m.name, m) for m in inputs],
        outputs=[(m.name, m) for m in outputs],
        body=tuple(body),
        kernels={name: Callee.of(kernel) for name, kernel in KERNELS.items()},
        notes={
            name: {"template": "by hand", "schedule": "split(i, 4)\n{}", "source": "default"}
            for name in KERNELS
        },
    )


@st.composite
def programs(draw):
    """Programs that read nothing undefined: calls, copies, loops with state and slices, branches."""
    x, xs = row("x", Space.MUTABLE), rows("xs", Space.MUTABLE)
    flag = Memory("flag", F32, (1,), Space.MUTABLE)
    limit, going = Memory("limit", I64, (), Space.MUTABLE), Memory("go", BOOL, (1,), Space.MUTABLE)
    w = row("w", Space.CONSTANT)
    y, ys = row("y", Space.MUTABLE), rows("ys", Space.MUTABLE)
    scalars = (flag, limit, going)
    maker = _Maker(draw, [row(f"a{n}") for n in range(6)], [rows(f"b{n}") for n in range(2)], scalars)
    defined = {x, w, xs}
    body = maker.body(defined, draw(st.integers(1, 8)), depth=0, loops=())
    body.append(Copy(target(y), source(maker.pick_row(defined))))
    body.append(Copy(target(ys), source(maker.pick_rows(defined))))
    constants = [(w, np.arange(WIDTH, dtype=np.float32))]
    return program(body, (x, xs, *scalars), (y, ys), constants)


class _Maker:
    def __init__(self, draw, singles, stacks, scalars):
        self.draw, self.singles, self.stacks = draw, singles, stacks
        self.flag, self.limit, self.going = scalars
        self.count = 0

    def pick_row(self, defined):
        return self.draw(st.sampled_from(sorted((m for m in defined if m.shape == (WIDTH,)), key=str)))

    def pick_rows(self, defined):
        return self.draw(st.sampled_from(sorted((m for m in defined if m.shape != (WIDTH,)), key=str)))

    def pick_source(self, defined, loops):
        if loops and self.draw(st.booleans()):
            return self.pick_rows(defined), self.draw(st.sampled_from(loops))
        return self.pick_row(defined), ""

    def body(self, defined, length, depth, loops):
        """Instructions; `defined` grows by what is certainly written."""
        kinds = ["call", "call", "copy", "stack"] + ["loop", "while", "if"] * (depth < 2)
        return [
            self.instruction(defined, self.draw(st.sampled_from(kinds)), depth, loops) for _ in range(length)
        ]

    def instruction(self, defined, kind, depth, loops):
        if kind == "stack":
            made = self.draw(st.sampled_from(self.stacks))
            found = Copy(target(made), source(self.pick_rows(defined)))
            defined.add(made)
            return found
        if kind in ("call", "copy"):
            return self.simple(defined, kind, loops)
        length = self.draw(st.integers(1, 4))
        if kind == "if":
            then, orelse = set(defined), set(defined)
            arms = self.body(then, length, depth + 1, loops), self.body(orelse, 1, depth + 1, loops)
            defined |= then & orelse
            return Branch(source(self.flag), tuple(arms[0]), tuple(arms[1]))
        self.count += 1
        var = f"t{self.count}"
        if kind == "while":
            return self.ended_by_memory(set(defined), var, length, depth, loops)
        inner = self.body(defined, length, depth + 1, (*loops, var))
        return Loop(var, TRIPS, tuple(inner), self.draw(st.booleans()))

    def ended_by_memory(self, defined, var, length, depth, loops):
        """What its body writes may stay unwritten. The condition comes from each turn, or never changes."""
        limit = source(self.limit) if self.draw(st.booleans()) else None
        inner = self.body(defined, length, depth + 1, (*loops, var))
        if not self.draw(st.booleans()):
            return Loop(var, TRIPS, tuple(inner), False, limit, source(self.going))
        seen = Memory(f"seen.{var}", BOOL, (1,))
        before = Copy(target(seen), source(self.going))
        again = CallKernel("below", (source(self.pick_row(defined)), target(seen)))
        loop = Loop(var, TRIPS, (*inner, again), False, limit, source(seen))
        return Loop(f"once.{var}", 1, (before, loop))

    def simple(self, defined, kind, loops):
        takes = [self.pick_source(defined, loops) for _ in range(2)]
        stacks = [
            m for m in self.stacks if m in defined
        ]  # a slice is written only into what is whole already
        if loops and stacks and self.draw(st.booleans()):
            gives = (self.draw(st.sampled_from(stacks)), self.draw(st.sampled_from(loops)))
        else:
            gives = (self.draw(st.sampled_from(self.singles)), "")
        defined.add(gives[0])
        if kind == "copy":
            return Copy(target(*gives), source(*takes[0]))
        name = self.draw(st.sampled_from(sorted(ARITY)))
        takes = takes[: ARITY[name]]
        # a kernel may only write over an operand where it says so
        if any(taken == gives or taken[0] == gives[0] for taken in takes):
            return Copy(target(*gives), source(*takes[0]))
        return call(name, *takes, gives)


class Machine:
    """Runs a program. Without a plan each buffer has memory of its own."""

    def __init__(self, program: Program, plan: Plan | None = None):
        self.program, self.plan = program, plan
        self.private: dict[str, np.ndarray] = {}
        self.arena = np.full(plan.arena_bytes if plan else 0, 0xFF, np.uint8)
        self.mutable = np.full(plan.mutable_bytes if plan else 0, 0xFF, np.uint8)

    def memory(self, memory: Memory) -> np.ndarray:
        if self.plan is None or memory.space == Space.CONSTANT:
            fresh = np.full(memory.bytes, 0xFF, np.uint8).view(memory.dtype.numpy).reshape(memory.shape)
            return self.private.setdefault(memory.name, fresh)
        region = self.arena if memory.space == Space.ACTIVATION else self.mutable
        start = self.plan.offsets[memory.name]
        return region[start : start + memory.bytes].view(memory.dtype.numpy).reshape(memory.shape)

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        for memory, data in self.program.constants.values():
            self.memory(memory)[...] = data
        for name, memory in self.program.inputs:
            self.memory(memory)[...] = inputs[name]
        self.body(self.program.body, {})
        return {name: self.memory(memory).copy() for name, memory in self.program.outputs}

    def body(self, body, turns):
        for instruction in body:
            if isinstance(instruction, Loop):
                self.loop(instruction, turns)
            elif isinstance(instruction, Branch):
                taken = (
                    instruction.then if self.operand(instruction.condition, turns)[0] else instruction.orelse
                )
                self.body(taken, turns)
            elif isinstance(instruction, Copy):
                self.operand(instruction.target, turns)[...] = self.operand(instruction.source, turns)
            elif isinstance(instruction, CallKernel):
                arrays = [self.operand(arg, turns) for arg in instruction.args]
                interpret(self.program.kernels[instruction.kernel].kernel, arrays)

    def loop(self, loop, turns):
        limit = loop.trips if loop.limit is None else int(self.operand(loop.limit, turns))
        order = range(min(limit, loop.trips))
        for turn in reversed(order) if loop.reverse else order:
            if loop.condition is not None and not self.operand(loop.condition, turns).all():
                return
            self.body(loop.body, turns | {loop.var: turn})

    def operand(self, operand, turns):
        whole = self.memory(operand.memory)
        return whole[turns[operand.index]] if operand.index else whole


def sample_inputs(flag: float, limit: int = TRIPS, go: bool = True) -> dict[str, np.ndarray]:
    return {
        "x": np.arange(WIDTH, dtype=np.float32) + 10,
        "xs": np.arange(TRIPS * WIDTH, dtype=np.float32).reshape(TRIPS, WIDTH) * 3,
        "flag": np.array([flag], np.float32),
        "limit": np.array(limit, np.int64),
        "go": np.array([go]),
    }
