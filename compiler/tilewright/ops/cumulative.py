"""Running sums and products along an axis, which may be known at run time only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.errors import RunError, VerifyError
from tilewright.expr import Expr, add, binary, cast, const, minimum, mul, read, sub
from tilewright.loops.ir import Allocate, Buffer, If, Kernel, Stmt, seq
from tilewright.ops.declaration import NUMBERS, operator, required, wide
from tilewright.ops.gather_elements import limited
from tilewright.ops.looping import (
    PARALLEL_ELEMENTS,
    around,
    cell,
    get,
    loop,
    loop_program,
    put,
    store,
    with_cells,
)
from tilewright.ops.operator import Attr, Attrs, Operand, Operator
from tilewright.ops.reading import accumulator
from tilewright.types import TensorType

Types = Sequence[TensorType | None]
Arrays = Sequence[np.ndarray | None]

_COLUMNS = 64  # neighbouring columns that run together, so that memory is read in order


def _running(
    name: str, doc: str, combine: Callable[[Expr, Expr], Expr], numeric: Any, identity: int
) -> Operator:
    """Declare the operator. Half types are accumulated in float32."""

    def infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
        x, axis, given = required(types, 0), types[1], attrs["axis"]
        if (axis is None) == (given is None):
            raise VerifyError(f"{name}: the axis is given either as attribute or as operand")
        if not x.rank or (given is not None and not 0 <= given < x.rank):
            raise VerifyError(f"{name}: axis {given} does not fit a tensor of rank {x.rank}")
        if axis is not None and axis.size != 1:
            raise VerifyError(f"{name}: the axis is one number, found shape {list(axis.shape)}")
        return (TensorType(x.dtype, x.shape),)

    def evaluate(arrays: Arrays, attrs: Attrs) -> tuple[np.ndarray, ...]:
        x = required(arrays, 0)
        axis = attrs["axis"] if arrays[1] is None else int(arrays[1].reshape(-1)[0])
        if not -x.ndim <= axis < x.ndim:
            raise RunError(f"{name}: axis {axis} does not exist in a tensor of rank {x.ndim}")
        work = np.moveaxis(x.astype(wide(x.dtype), copy=False), axis, 0)
        work = work[::-1] if attrs["reverse"] else work
        if attrs["exclusive"] and len(work):
            work = np.concatenate([np.full_like(work[:1], identity), work[:-1]])
        with np.errstate(all="ignore"):
            total = numeric.accumulate(work, axis=0, dtype=work.dtype)
        total = total[::-1] if attrs["reverse"] else total
        return (np.moveaxis(total, 0, axis).astype(x.dtype, copy=False),)

    def along(x: Buffer, y: Buffer, shape: Sequence[int], axis: int, attrs: Attrs) -> Stmt:
        """Columns side by side: sums[j] runs over column j of a block."""
        before, extent, behind = around(shape, axis)
        blocks = -(-behind // _COLUMNS)
        width = min(behind, _COLUMNS)
        sums = Buffer(f"sums{axis}", accumulator(x.dtype), (max(1, width),), "local")

        def block(o: Expr, b: Expr) -> Stmt:
            first = mul(b, const(_COLUMNS))
            count = const(width) if blocks == 1 else minimum(const(_COLUMNS), sub(const(behind), first))
            clear = loop(f"z{axis}", count, lambda j: store(sums, j, const(identity, sums.dtype)))

            def turn(n: Expr) -> Stmt:
                step = sub(const(extent - 1), n) if attrs["reverse"] else n
                row = add(mul(add(mul(o, const(extent)), step), const(behind)), first)
                return loop(f"j{axis}", count, lambda j: one(add(row, j), j))

            return Allocate(sums, seq(clear, loop(f"n{axis}", extent, turn)))

        def one(place: Expr, j: Expr) -> Stmt:
            new = combine(read(sums, [j]), cast(read(x, [place]), sums.dtype))
            result = store(y, place, cast(read(sums, [j]), y.dtype))
            update = store(sums, j, new)
            return seq(result, update) if attrs["exclusive"] else seq(update, result)

        shared = x.size >= PARALLEL_ELEMENTS
        return loop(
            f"o{axis}",
            before,
            lambda o: loop(f"b{axis}", blocks, lambda b: block(o, b), shared and before == 1),
            shared and before > 1,
        )

    def loops(types: Types, attrs: Attrs, outputs: Sequence[TensorType]) -> Kernel:
        shape = required(types, 0).shape

        def body(inputs: Sequence[Buffer | None], results: Sequence[Buffer]) -> Stmt:
            x, axis = required(inputs, 0), inputs[1] if len(inputs) > 1 else None
            if axis is None:
                return along(x, results[0], shape, attrs["axis"], attrs)
            known = cell("axis")
            branches = (
                If(binary("eq", get(known), const(a)), along(x, results[0], shape, a, attrs))
                for a in range(len(shape))
            )
            find = put(known, limited(read(axis, [0]), len(shape)))
            return with_cells([known], seq(find, *branches))

        return loop_program(name.lower(), types, outputs, body)

    return operator(
        name,
        doc,
        [Operand("x", NUMBERS), Operand("axis", ("i32", "i64"), optional=True)],
        [Operand("y", NUMBERS)],
        infer,
        evaluate,
        {"axis": Attr("int"), "exclusive": Attr("bool", False), "reverse": Attr("bool", False)},
        loops=loops,
    )


_running("CumSum", "running sum along an axis; exclusive leaves the own element out", add, np.add, 0)
_running("CumProd", "running product along an axis; exclusive leaves it out", mul, np.multiply, 1)
