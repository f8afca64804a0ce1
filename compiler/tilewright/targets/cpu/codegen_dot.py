"""Dot products of neighbouring factors, which one instruction adds to a vector of sums.

    tensorized(dot_pairs) vectorized for a in 0..L:    L of 4, 8, 16
      for j in 0..2:
        sums[.., a] += f32(x[.., j]) * f32(w[.., a, j])

Pairs of bf16 are added to f32 by AVX512_BF16, which takes denormals for zeros; quads of u8 and i8 to i32 by
VNNI, exactly (`dot_quads`). Loops of other lengths, and machines without the instruction, compute the same
lane by lane.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.dtypes import BF16, F32, I8, I32, U8, DType
from tilewright.expr import Binary, Cast, Const, Read
from tilewright.loops.affine import Linear
from tilewright.loops.ir import For, LoopKind, Store
from tilewright.machine import Machine
from tilewright.targets.cpu.codegen_address import Evaluate, element_pointer, flat_index
from tilewright.targets.cpu.codegen_context import Context, Pointer, VectorLoop
from tilewright.targets.cpu.codegen_memory import store
from tilewright.targets.cpu.codegen_types import Value, memory_type, vector_type

LANES = (4, 8, 16)
LANE_BITS = 32  # of a sum, and of the factors that one lane multiplies
PAIR, QUAD = 2, 4  # factors side by side that one lane multiplies and adds


@dataclass(frozen=True)
class Dot:
    """An instruction. terms: factors side by side in a lane; x, w, sums: types of the operands.

    features: sets of LLVM features, any of which brings it, each with the bits of the widest vector that it
    brings it for; callee: LLVM's name without the width in bits; element: LLVM's type of the elements of both
    vectors of factors.
    """

    terms: int
    x: DType
    w: DType
    sums: DType
    features: tuple[tuple[frozenset[str], int], ...]
    callee: str
    element: str

    def on(self, machine: Machine) -> bool:
        """Whether a machine has it."""
        return self.widest(machine) > 0

    def widest(self, machine: Machine) -> int:
        """Bits of the widest vector that a machine has it for; 0 for none."""
        return max((bits for group, bits in self.features if all(map(machine.has, group))), default=0)

    def vector(self, lanes: int) -> str:
        """LLVM's type of a vector of factors."""
        bits = {"bfloat": 16, "i32": 32}[self.element]
        return f"<{lanes * LANE_BITS // bits} x {self.element}>"


_BF16 = ((frozenset({"avx512bf16", "avx512vl"}), 512),)
_VNNI = (frozenset({"avx512vnni", "avx512vl"}), 512), (frozenset({"avxvnni"}), 256)
PAIRS = Dot(PAIR, BF16, BF16, F32, _BF16, "llvm.x86.avx512bf16.dpbf16ps", "bfloat")
QUADS = Dot(QUAD, U8, I8, I32, _VNNI, "llvm.x86.avx512.vpdpbusd", "i32")
DOTS = {"dot_pairs": PAIRS, "dot_quads": QUADS}


@dataclass(frozen=True)
class _Factor:
    """An operand of the products: the element index of its first element, free of both loop variables."""

    read: Read
    first: Linear


def rule(context: Context, loop: For, evaluate: Evaluate) -> bool:
    """Writes the loop nest as one instruction, when it is one and the machine has it."""
    function, dot = context.function, DOTS[loop.intrinsic]
    machine = function.module.machine
    if context.vector is not None or context.mask is not None:
        return False
    found = match(loop, dot) if dot.on(machine) else None
    if found is None or not all(isinstance(context.place(f.read.source), Pointer) for f in found[1:]):
        return False
    step, x, w = found
    lanes = int(loop.extent.value)  # type: ignore[attr-defined]  # match admits constants only
    if lanes * LANE_BITS > min(machine.vector_bits, dot.widest(machine)):
        return False
    inside = replace(context, vector=VectorLoop(loop.var.name, lanes))
    sums = evaluate(inside, step.value.a)  # type: ignore[attr-defined]  # the sum that match found
    group, spread, whole = f"<{lanes} x i32>", f"<{lanes} x i32> zeroinitializer", dot.vector(lanes)
    few = _load(context, x, "i32", evaluate)
    one = function.op(f"insertelement {group} poison, i32 {few}, i64 0")
    rows = function.op(f"shufflevector {group} {one}, {group} poison, {spread}")
    if whole != group:
        rows = function.op(f"bitcast {group} {rows} to {whole}")
    columns = _load(context, w, whole, evaluate)
    total = vector_type(memory_type(dot.sums), lanes)
    operands = [(total, sums.ref), (whole, rows), (whole, columns)]
    result = function.call(f"{dot.callee}.{LANE_BITS * lanes}", total, operands)
    store(inside, step.buffer, step.indices, Value(result, dot.sums, lanes), evaluate)
    return True


def match(loop: For, dot: Dot) -> tuple[Store, _Factor, _Factor] | None:
    """The statement of the nest, x and w; None when it has another form than the one above."""
    inner = loop.body
    if (
        loop.kind != LoopKind.VECTORIZED
        or not isinstance(inner, For)
        or inner.extent != Const(dot.terms, inner.var.dtype)
    ):
        return None
    step = inner.body
    if loop.extent not in [Const(n, loop.var.dtype) for n in LANES] or not isinstance(step, Store):
        return None
    reads = factors(step, dot)
    if reads is None:
        return None
    x, w = (_factor(read, loop, inner, apart) for read, apart in zip(reads, (0, dot.terms), strict=True))
    return None if x is None or w is None else (step, x, w)


def factors(step: Store, dot: Dot) -> tuple[Read, Read] | None:
    """x and w of `sums += sum type(x) * sum type(w)`; None when the store does something else."""
    total = step.value
    if not isinstance(total, Binary) or total.op != "add" or not isinstance(total.b, Binary):
        return None
    if total.a != Read(step.buffer, step.indices, dot.sums) or total.b.op != "mul":
        return None
    parts = (total.b.a, total.b.b)
    reads = [p.a for p in parts if isinstance(p, Cast) and p.dtype == dot.sums and isinstance(p.a, Read)]
    if [read.dtype for read in reads] != [dot.x, dot.w]:
        return None
    return reads[0], reads[1]


def _factor(read: Read, loop: For, inner: For, apart: int) -> _Factor | None:
    """An operand whose terms are contiguous and `apart` elements from lane to lane."""
    index = flat_index(read.source, read.indices)
    if index.terms.get(inner.var) != 1 or index.terms.get(loop.var, 0) != apart:
        return None
    rest = {atom: factor for atom, factor in index.terms.items() if atom not in (loop.var, inner.var)}
    return _Factor(read, Linear(rest, index.constant))


def _load(context: Context, factor: _Factor, type_text: str, evaluate: Evaluate) -> str:
    place = context.place(factor.read.source)
    assert isinstance(place, Pointer)
    size = factor.read.dtype.bytes
    pointer = element_pointer(context, place, factor.first.times(size), evaluate)
    return context.function.op(f"load {type_text}, ptr {pointer}, align {size}", place.constant)
