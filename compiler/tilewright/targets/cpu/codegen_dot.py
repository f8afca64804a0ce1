"""Dot products of pairs of bf16, which AVX512_BF16 adds to a vector of f32 sums in one instruction.

    tensorized(dot_pairs) vectorized for a in 0..L:    L of 4, 8, 16
      for j in 0..2:
        sums[.., a] += f32(x[.., j]) * f32(w[.., a, j])

The instruction takes denormals for zeros. Loops of other lengths, and machines without it, compute the same
lane by lane.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.dtypes import BF16, F32
from tilewright.expr import Binary, Cast, Const, Read
from tilewright.loops.affine import Linear
from tilewright.loops.ir import For, LoopKind, Store
from tilewright.targets.cpu.codegen_address import Evaluate, element_pointer, flat_index
from tilewright.targets.cpu.codegen_context import Context, Pointer, VectorLoop
from tilewright.targets.cpu.codegen_memory import store
from tilewright.targets.cpu.codegen_types import Value, vector_type

FEATURES = ("avx512bf16", "avx512vl")
LANES = (4, 8, 16)
PAIR = 2  # factors side by side that one lane multiplies and adds


@dataclass(frozen=True)
class _Factor:
    """An operand of the products: the element index of its first element, free of both loop variables."""

    read: Read
    first: Linear


def rule(context: Context, loop: For, evaluate: Evaluate) -> bool:
    """Writes the loop nest as one instruction, when it is one and the machine has it."""
    function = context.function
    if context.vector is not None or context.mask is not None:
        return False
    found = match(loop) if all(map(function.module.machine.has, FEATURES)) else None
    if found is None or not all(isinstance(context.place(f.read.source), Pointer) for f in found[1:]):
        return False
    step, x, w = found
    lanes = int(loop.extent.value)  # type: ignore[attr-defined]  # match admits constants only
    inside = replace(context, vector=VectorLoop(loop.var.name, lanes))
    sums = evaluate(inside, step.value.a)  # type: ignore[attr-defined]  # the sum that match found
    pairs, spread, whole = f"<{lanes} x i32>", f"<{lanes} x i32> zeroinitializer", f"<{2 * lanes} x bfloat>"
    pair = _load(context, x, "i32", evaluate)
    one = function.op(f"insertelement {pairs} poison, i32 {pair}, i64 0")
    every = function.op(f"shufflevector {pairs} {one}, {pairs} poison, {spread}")
    rows = function.op(f"bitcast {pairs} {every} to {whole}")
    columns = _load(context, w, whole, evaluate)
    operands = [(vector_type("float", lanes), sums.ref), (whole, rows), (whole, columns)]
    result = function.call(f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}", operands[0][0], operands)
    store(inside, step.buffer, step.indices, Value(result, F32, lanes), evaluate)
    return True


def match(loop: For) -> tuple[Store, _Factor, _Factor] | None:
    """The statement of the nest, x and w; None when it has another form than the one above."""
    inner = loop.body
    if (
        loop.kind != LoopKind.VECTORIZED
        or not isinstance(inner, For)
        or inner.extent != Const(PAIR, inner.var.dtype)
    ):
        return None
    step = inner.body
    if loop.extent not in [Const(n, loop.var.dtype) for n in LANES] or not isinstance(step, Store):
        return None
    reads = factors(step)
    if reads is None:
        return None
    x, w = (_factor(read, loop, inner, apart) for read, apart in zip(reads, (0, PAIR), strict=True))
    return None if x is None or w is None else (step, x, w)


def factors(step: Store) -> tuple[Read, Read] | None:
    """x and w of `sums += f32(x) * f32(w)`, both bf16; None when the store does something else."""
    total = step.value
    if not isinstance(total, Binary) or total.op != "add" or not isinstance(total.b, Binary):
        return None
    if total.a != Read(step.buffer, step.indices, F32) or total.b.op != "mul":
        return None
    parts = (total.b.a, total.b.b)
    reads = [p.a for p in parts if isinstance(p, Cast) and p.dtype == F32 and isinstance(p.a, Read)]
    if len(reads) != 2 or any(read.dtype != BF16 for read in reads):
        return None
    return reads[0], reads[1]


def _factor(read: Read, loop: For, inner: For, apart: int) -> _Factor | None:
    """An operand whose pairs are contiguous and `apart` elements from lane to lane."""
    index = flat_index(read.source, read.indices)
    if index.terms.get(inner.var) != 1 or index.terms.get(loop.var, 0) != apart:
        return None
    rest = {atom: factor for atom, factor in index.terms.items() if atom not in (loop.var, inner.var)}
    return _Factor(read, Linear(rest, index.constant))


def _load(context: Context, factor: _Factor, type_text: str, evaluate: Evaluate) -> str:
    place = context.place(factor.read.source)
    assert isinstance(place, Pointer)
    pointer = element_pointer(context, place, factor.first.times(BF16.bytes), evaluate)
    return context.function.op(f"load {type_text}, ptr {pointer}, align {BF16.bytes}", place.constant)
