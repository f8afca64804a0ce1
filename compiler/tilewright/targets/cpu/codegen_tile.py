"""Loops that are one AMX instruction: products of tiles, and sums in scope `tile` set to 0 and stored.

    tensorized(zero_tile) for i in 0..R:      R, C <= 16
      for j in 0..C:
        sums[.., i, .., j] = 0
    tensorized(dot_tile_pairs) for i in 0..R:       P <= 16; x contiguous in 2 p + q, w in 2 j + q
      for j in 0..C:
        for p in 0..P:
          for q in 0..2:
            sums[.., i, .., j] += f32(x[.., 2 p + q]) * f32(w[.., 2 j + q])
    tensorized(store_tile) for i in 0..R:     y contiguous in j
      for j in 0..C:
        y[.., j] = sums[.., i, .., j]

`dot_tile_quads` is the same of four bytes in place of two bf16: u8 of x, i8 of w, sums of i32. The indices
of sums are a constant, plus i in one of them and j in another. bf16 denormals count as 0. Each function that
uses tiles configures them when it begins and releases them when it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.dtypes import F32, I32
from tilewright.errors import CodegenError
from tilewright.expr import Const, Expr, Read, Var, const, free_vars
from tilewright.loops.affine import Linear, linear, rejoined
from tilewright.loops.ir import Allocate, Buffer, For, LoopKind, Store, walk
from tilewright.targets.cpu.codegen_address import Evaluate, element_pointer, flat_index
from tilewright.targets.cpu.codegen_builder import Function
from tilewright.targets.cpu.codegen_context import Context, Pointer, Tiles
from tilewright.targets.cpu.codegen_dot import DOTS, Dot, factors
from tilewright.targets.cpu.tile_file import SUM_BYTES, TileShape

FEATURES = {F32: ("amx-tile", "amx-bf16"), I32: ("amx-tile", "amx-int8")}  # that sums of a type need
_PRODUCTS = {"dot_tile_pairs": "tdpbf16ps", "dot_tile_quads": "tdpbusd"}
_BYTE = "i8"


@dataclass(frozen=True)
class _Nest:
    """Loops of constant extent around one store. axes: variables with extents, outermost first."""

    axes: tuple[tuple[Var, int], ...]
    step: Store

    @property
    def rows(self) -> int:
        return self.axes[0][1]

    @property
    def columns(self) -> int:
        return self.axes[1][1]


@dataclass(frozen=True)
class _Matrix:
    """Rows in memory. first: element index of the first element; step: elements from row to row."""

    buffer: Buffer
    first: Linear
    step: int


def allocate(context: Context, stmt: Allocate) -> Tiles:
    """A tile for each constant index at which the loops inside use the buffer. Raises CodegenError."""
    buffer, machine = stmt.buffer, context.function.module.machine
    features = FEATURES.get(buffer.dtype, ())
    if not features or not all(map(machine.has, features)):
        needed = " and ".join(features) or f"sums of {' or '.join(map(str, FEATURES))}"
        raise CodegenError(f"buffer '{buffer.name}': scope 'tile' needs {needed}")
    numbers: dict[tuple[int, ...], int] = {}
    shapes = set()
    for loop in (part for part in walk(stmt.body) if isinstance(part, For) and part.intrinsic):
        for nest, indices in _uses(loop, buffer):
            slot = _slot(nest, indices)
            shapes.add((nest.rows, nest.columns))
            if slot is None or len(shapes) != 1:
                raise CodegenError(f"buffer '{buffer.name}' is not used in whole tiles of one shape")
            if slot not in numbers:
                numbers[slot] = context.function.tiles.take(TileShape(nest.rows, nest.columns * SUM_BYTES))
    return Tiles(numbers)


def zero(context: Context, loop: For, _: Evaluate) -> bool:
    """Writes `zero_tile` as one instruction, when the sums are in a tile."""
    nest = _nest(loop, 2)
    number = None if nest is None else _number(context, nest, nest.step.buffer, nest.step.indices)
    if nest is None or number is None or nest.step.value != const(0, nest.step.buffer.dtype):
        return False
    _call(context.function, "tilezero", (_BYTE, str(number)))
    return True


def dot(context: Context, loop: For, evaluate: Evaluate) -> bool:
    """Writes `dot_tile_...` as one instruction and loads of what the block has not loaded yet."""
    nest = _nest(loop, 4)
    number = None if nest is None else _number(context, nest, nest.step.buffer, nest.step.indices)
    factors = None if nest is None else _factors(nest, DOTS[loop.intrinsic.replace("_tile", "")])
    if nest is None or number is None or factors is None:
        return False
    (_, rows), (_, columns), (_, groups), _ = nest.axes
    x = _load(context, factors[0], TileShape(rows, groups * SUM_BYTES), evaluate)
    w = _load(context, factors[1], TileShape(groups, columns * SUM_BYTES), evaluate)
    if x == w:
        raise CodegenError(f"sums of '{nest.step.buffer.name}' leave no tiles for two operands")
    _call(context.function, _PRODUCTS[loop.intrinsic], *((_BYTE, str(n)) for n in (number, x, w)))
    return True


def store(context: Context, loop: For, evaluate: Evaluate) -> bool:
    """Writes `store_tile` as one instruction."""
    nest = _nest(loop, 2)
    if nest is None or not isinstance(nest.step.value, Read):
        return False
    read, step = nest.step.value, nest.step
    number = _number(context, nest, read.source, read.indices)
    target = _matrix(step.buffer, step.indices, nest, (None, 1))
    if number is None or target is None:
        return False
    pointer, stride = _place(context, target, evaluate)
    _call(context.function, "tilestored64", (_BYTE, str(number)), ("ptr", pointer), ("i64", str(stride)))
    return True


RULES = {"zero_tile": zero, "dot_tile_pairs": dot, "dot_tile_quads": dot, "store_tile": store}


def finish(function: Function) -> None:
    """Configures the tiles wherever the function, or what it does after a fork, begins; releases them."""
    if not function.tiles.used:
        return
    config = "".join(f"\\{byte:02X}" for byte in function.tiles.config())
    name = f"@tiles.{len(function.module.globals)}"
    function.module.globals.append(f'{name} = private constant [64 x i8] c"{config}", align 64')
    configure = function.module.intrinsic("llvm.x86.ldtilecfg", "void", ("ptr",))
    for place in function.tile_starts:
        place.append(f"  call void {configure}(ptr {name})")
    _call(function, "tilerelease")


def _uses(loop: For, buffer: Buffer) -> list[tuple[_Nest, Sequence[Expr]]]:
    """How the loops of an intrinsic use a buffer."""
    nest = _nest(loop, 4) or _nest(loop, 2)
    if nest is None:
        return []
    if nest.step.buffer == buffer:
        return [(nest, nest.step.indices)]
    value = nest.step.value
    return [(nest, value.indices)] if isinstance(value, Read) and value.source == buffer else []


def _nest(loop: For, depth: int) -> _Nest | None:
    """The loops and their store; None when there are others, or something else inside."""
    axes: list[tuple[Var, int]] = []
    stmt: object = loop
    while isinstance(stmt, For) and len(axes) < depth:
        plain = stmt.kind == LoopKind.SERIAL and stmt.start == Const(0, stmt.var.dtype)
        if not plain or not isinstance(stmt.extent, Const):
            return None
        axes.append((stmt.var, int(stmt.extent.value)))
        stmt = stmt.body
    return _Nest(tuple(axes), stmt) if len(axes) == depth and isinstance(stmt, Store) else None


def _slot(nest: _Nest, indices: Sequence[Expr]) -> tuple[int, ...] | None:
    """The constants in the indices, when row and column are added to one of them each, in whole tiles."""
    extents: dict[Expr, int] = dict(nest.axes[:2])
    moved: dict[Expr, int] = {}
    slot: list[int] = []
    for index in indices:
        form = linear(index)
        for atom, factor in form.terms.items():
            extent = extents.get(atom)
            if extent is None or factor != 1 or len(form.terms) > 1 or form.constant % extent:
                return None
            moved[atom] = moved.get(atom, 0) + 1
        slot.append(form.constant)
    return tuple(slot) if list(moved.values()) == [1, 1] else None


def _number(context: Context, nest: _Nest, buffer: Buffer, indices: Sequence[Expr]) -> int | None:
    """The tile of the sums; None when they are not in one, or lanes are asked for."""
    if context.vector is not None:
        return None
    place, slot = context.place(buffer), _slot(nest, indices)
    return place.numbers.get(slot) if isinstance(place, Tiles) and slot is not None else None


def _factors(nest: _Nest, dot: Dot) -> tuple[_Matrix, _Matrix] | None:
    """x and w of a sum of products in the form above."""
    reads = factors(nest.step, dot)
    if nest.axes[3][1] != dot.terms or reads is None:
        return None
    x = _matrix(reads[0].source, reads[0].indices, nest, (None, 0, dot.terms, 1))
    w = _matrix(reads[1].source, reads[1].indices, nest, (0, dot.terms, None, 1))
    return None if x is None or w is None else (x, w)


def _matrix(
    buffer: Buffer, indices: Sequence[Expr], nest: _Nest, strides: Sequence[int | None]
) -> _Matrix | None:
    """An operand that moves with the loops by these strides; None stands for that from row to row."""
    form = rejoined(flat_index(buffer, indices))
    rest = dict(form.terms)
    step = 0
    for (var, _), wanted in zip(nest.axes, strides, strict=True):
        found = rest.pop(var, 0)
        if wanted is None:
            step = found
        elif found != wanted:
            return None
    variables = {var.name for var, _ in nest.axes}
    if not step or any(free_vars(atom) & variables for atom in rest):
        return None
    return _Matrix(buffer, Linear(rest, form.constant), step)


def _load(context: Context, matrix: _Matrix, shape: TileShape, evaluate: Evaluate) -> int:
    """The tile that holds the operand; loaded, unless the block has it from memory that nothing writes to."""
    function = context.function
    pointer, stride = _place(context, matrix, evaluate)
    place = context.place(matrix.buffer)
    shared = isinstance(place, Pointer) and place.constant
    key = (pointer, stride, shape) if shared else object()
    number, known = function.tiles.operand(key, shape)
    if not known:
        _call(function, "tileloadd64", (_BYTE, str(number)), ("ptr", pointer), ("i64", str(stride)))
    return number


def _place(context: Context, matrix: _Matrix, evaluate: Evaluate) -> tuple[str, int]:
    """A pointer to the first element, and the bytes from row to row."""
    place, size = context.place(matrix.buffer), matrix.buffer.dtype.bytes
    if not isinstance(place, Pointer):
        raise CodegenError(f"'{matrix.buffer.name}' is in registers, which tiles cannot be loaded from")
    return element_pointer(context, place, matrix.first.times(size), evaluate), matrix.step * size


def _call(function: Function, name: str, *arguments: tuple[str, str]) -> None:
    target = function.module.intrinsic(f"llvm.x86.{name}", "void", [t for t, _ in arguments])
    function.emit(f"call void {target}({', '.join(f'{t} {v}' for t, v in arguments)})")
