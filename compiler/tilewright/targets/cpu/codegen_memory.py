"""Loads and stores of buffer elements: scalars, vectors, and vectors with lanes switched off."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dtypes import I64
from tilewright.errors import CodegenError
from tilewright.expr import Const, Expr
from tilewright.loops.ir import Buffer
from tilewright.targets.cpu import codegen_arithmetic as arithmetic
from tilewright.targets.cpu.codegen_address import Evaluate, Location, element_pointer, locate
from tilewright.targets.cpu.codegen_casts import from_memory, from_register, to_memory, to_register
from tilewright.targets.cpu.codegen_context import Context, Pointer, Registers, Tiles
from tilewright.targets.cpu.codegen_types import (
    Value,
    literal,
    memory_type,
    register_type,
    suffix,
    vector_type,
)


def load(context: Context, buffer: Buffer, indices: Sequence[Expr], evaluate: Evaluate) -> Value:
    """The element, one a lane where the index depends on the vector variable, else a scalar."""
    place = _addressable(context, buffer)
    if isinstance(place, Registers):
        return _load_register(context, place, buffer, indices)
    location = locate(context, buffer, indices)
    if location.step == 0:
        guarded = context.mask is not None and not _is_inside(context, buffer, indices)
        return _load_uniform(context, place, buffer, location, evaluate, guarded)
    lanes = context.vector.lanes if context.vector else 0
    if location.step == buffer.dtype.bytes:
        ref = _load_contiguous(context, place, buffer, location, evaluate)
    elif (
        location.step in (2 * buffer.dtype.bytes, -buffer.dtype.bytes) and context.mask is None and lanes > 1
    ):
        ref = _load_shuffled(context, place, buffer, location, evaluate)
    else:
        ref = _gather(context, place, buffer, location, evaluate)
    return from_memory(context.function, ref, buffer.dtype, lanes)


def store(
    context: Context, buffer: Buffer, indices: Sequence[Expr], value: Value, evaluate: Evaluate
) -> None:
    """Writes a scalar, or all active lanes.

    A vector must not meet an index that is the same for all lanes.
    """
    place = _addressable(context, buffer)
    if isinstance(place, Registers):
        _store_register(context, place, buffer, indices, value)
        return
    function = context.function
    location = locate(context, buffer, indices)
    align = buffer.dtype.bytes
    if context.vector is None:
        pointer = element_pointer(context, place, location.base, evaluate)
        function.emit(
            f"store {memory_type(buffer.dtype)} {to_memory(function, value)}, ptr {pointer}, align {align}"
        )
        return
    if location.step == 0:
        raise CodegenError(f"all lanes of a vectorised loop write one element of '{buffer.name}'")
    value = arithmetic.widen(function, value, context.vector.lanes)
    stored, ref = vector_type(memory_type(buffer.dtype), value.lanes), to_memory(function, value)
    if location.step != buffer.dtype.bytes:
        _scatter(context, place, buffer, location, (stored, ref), evaluate)
        return
    pointer = element_pointer(context, place, location.base, evaluate)
    if context.mask is None:
        function.emit(f"store {stored} {ref}, ptr {pointer}, align {align}")
        return
    name = f"llvm.masked.store.{suffix(stored)}.p0"
    target = function.module.intrinsic(name, "void", (stored, "ptr", "i32", context.mask.type))
    function.emit(f"call void {target}({stored} {ref}, ptr {pointer}, i32 {align}, {context.mask})")


def _addressable(context: Context, buffer: Buffer) -> Pointer | Registers:
    """Where elements can be read and written one by one."""
    place = context.place(buffer)
    if isinstance(place, Tiles):
        raise CodegenError(
            f"buffer '{buffer.name}' in scope 'tile' is used by loops that are no instruction on tiles"
        )
    return place


def _any_lane(context: Context) -> str:
    assert context.mask is not None
    name = f"llvm.vector.reduce.or.{suffix(context.mask.type)}"
    return context.function.call(name, "i1", [(context.mask.type, context.mask.ref)])


def _is_inside(context: Context, buffer: Buffer, indices: Sequence[Expr]) -> bool:
    """Whether the indices are known to stay in the buffer, whatever lanes are active."""
    ranges = [context.bounds.of(index) for index in indices]
    return all(r[0] >= 0 and r[1] < extent for r, extent in zip(ranges, buffer.shape, strict=True))


def _load_uniform(
    context: Context,
    place: Pointer,
    buffer: Buffer,
    location: Location,
    evaluate: Evaluate,
    guarded: bool,
) -> Value:
    """One element for all lanes.

    guarded: when no lane is active the first element is read instead, because the index may be outside.
    """
    function = context.function
    pointer = element_pointer(context, place, location.base, evaluate)
    if guarded:
        pointer = function.op(f"select i1 {_any_lane(context)}, ptr {pointer}, ptr {place.ref}")
    text = f"load {memory_type(buffer.dtype)}, ptr {pointer}, align {buffer.dtype.bytes}"
    return from_memory(function, function.op(text, place.constant), buffer.dtype, 0)


def _load_contiguous(
    context: Context, place: Pointer, buffer: Buffer, location: Location, evaluate: Evaluate
) -> str:
    assert context.vector is not None
    function = context.function
    stored, align = vector_type(memory_type(buffer.dtype), context.vector.lanes), buffer.dtype.bytes
    pointer = element_pointer(context, place, location.base, evaluate)
    if context.mask is None:
        return function.op(f"load {stored}, ptr {pointer}, align {align}", place.constant)
    name = f"llvm.masked.load.{suffix(stored)}.p0"
    arguments = [("ptr", pointer), ("i32", str(align)), (context.mask.type, context.mask.ref)]
    arguments.append((stored, "zeroinitializer"))
    return function.call(name, stored, arguments, constant=place.constant)


def _load_shuffled(
    context: Context, place: Pointer, buffer: Buffer, location: Location, evaluate: Evaluate
) -> str:
    """Stride 2: two vectors that together end at the last element needed; stride -1: one vector, reversed."""
    assert context.vector is not None
    function, lanes, size = context.function, context.vector.lanes, buffer.dtype.bytes
    stored = vector_type(memory_type(buffer.dtype), lanes)

    def part(offset: int) -> str:
        pointer = element_pointer(context, place, location.base, evaluate, offset * size)
        return function.op(f"load {stored}, ptr {pointer}, align {size}", place.constant)

    if location.step == -size:
        first, second = part(1 - lanes), "poison"
        order = [lanes - 1 - lane for lane in range(lanes)]
    else:
        first, second = part(0), part(lanes - 1)
        order = [2 * lane if 2 * lane < lanes else 2 * lane + 1 for lane in range(lanes)]
    pattern = ", ".join(f"i32 {lane}" for lane in order)
    return function.op(f"shufflevector {stored} {first}, {stored} {second}, <{lanes} x i32> <{pattern}>")


def _lane_pointers(
    context: Context, place: Pointer, buffer: Buffer, location: Location, evaluate: Evaluate
) -> list[str]:
    """One pointer a lane; that of a lane switched off is the buffer's start."""
    assert context.vector is not None
    function, lanes = context.function, context.vector.lanes
    if location.step is not None:
        pointers = [
            element_pointer(context, place, location.base, evaluate, lane * location.step)
            for lane in range(lanes)
        ]
    else:
        offsets = arithmetic.widen(function, evaluate(context, location.offset), lanes)
        size = literal(buffer.dtype.bytes, I64, lanes)
        offsets = arithmetic.binary(function, "mul", offsets, size)
        pointers = []
        for lane in range(lanes):
            offset = function.op(f"extractelement {offsets}, i64 {lane}")
            pointers.append(function.op(f"getelementptr i8, ptr {place.ref}, i64 {offset}"))
    if context.mask is None:
        return pointers
    bits = [function.op(f"extractelement {context.mask}, i64 {lane}") for lane in range(lanes)]
    pairs = zip(bits, pointers, strict=True)
    return [function.op(f"select i1 {bit}, ptr {pointer}, ptr {place.ref}") for bit, pointer in pairs]


def _gather(context: Context, place: Pointer, buffer: Buffer, location: Location, evaluate: Evaluate) -> str:
    function, element = context.function, memory_type(buffer.dtype)
    pointers = _lane_pointers(context, place, buffer, location, evaluate)
    stored = vector_type(element, len(pointers))
    result = "poison"
    for lane, pointer in enumerate(pointers):
        item = function.op(f"load {element}, ptr {pointer}, align {buffer.dtype.bytes}", place.constant)
        result = function.op(f"insertelement {stored} {result}, {element} {item}, i64 {lane}")
    return result


def _scatter(
    context: Context,
    place: Pointer,
    buffer: Buffer,
    location: Location,
    stored: tuple[str, str],
    evaluate: Evaluate,
) -> None:
    """Lane by lane in order; a lane switched off writes to a dummy of its own."""
    function, element = context.function, memory_type(buffer.dtype)
    if context.mask is not None:
        dummy = Pointer(function.alloca(element))
        pointers = _lane_pointers(context, place, buffer, location, evaluate)
        bits = [function.op(f"extractelement {context.mask}, i64 {lane}") for lane in range(len(pointers))]
        pairs = zip(bits, pointers, strict=True)
        pointers = [function.op(f"select i1 {b}, ptr {p}, ptr {dummy.ref}") for b, p in pairs]
    else:
        pointers = _lane_pointers(context, place, buffer, location, evaluate)
    for lane, pointer in enumerate(pointers):
        item = function.op(f"extractelement {stored[0]} {stored[1]}, i64 {lane}")
        function.emit(f"store {element} {item}, ptr {pointer}, align {buffer.dtype.bytes}")


def _slot(
    context: Context, place: Registers, buffer: Buffer, indices: Sequence[Expr]
) -> tuple[str, int | None]:
    """The variable of an element, and the lane in it for an access to one element of a vector."""
    form = [locate_constant(context, index) for index in indices]
    constants = [constant for constant, _ in form]
    if not place.lanes:
        return place.slots[tuple(constants)], None
    chunk, lane = divmod(constants[-1], place.lanes)
    return place.slots[(*constants[:-1], chunk)], None if form[-1][1] else lane


def locate_constant(context: Context, index: Expr) -> tuple[int, bool]:
    """The constant part of a register index, and whether the vector variable is added to it."""
    if isinstance(index, Const):
        return int(index.value), False
    if context.is_lane(index):
        return 0, True
    a, b = index.a, index.b  # type: ignore[attr-defined]  # classify() admits only sums of the two
    constant = a if isinstance(a, Const) else b
    return int(constant.value), True


def _load_register(context: Context, place: Registers, buffer: Buffer, indices: Sequence[Expr]) -> Value:
    function = context.function
    slot, lane = _slot(context, place, buffer, indices)
    stored = vector_type(register_type(buffer.dtype), place.lanes)
    ref = function.load_slot(stored, slot)
    if not place.lanes or lane is None:
        return from_register(function, ref, buffer.dtype, place.lanes)
    item = function.op(f"extractelement {stored} {ref}, i64 {lane}")
    return from_register(function, item, buffer.dtype, 0)


def _store_register(
    context: Context, place: Registers, buffer: Buffer, indices: Sequence[Expr], value: Value
) -> None:
    function = context.function
    slot, lane = _slot(context, place, buffer, indices)
    stored = vector_type(register_type(buffer.dtype), place.lanes)
    if lane is None:
        value = arithmetic.widen(function, value, place.lanes)
    elif value.lanes:
        raise CodegenError(f"all lanes of a vectorised loop write one element of '{buffer.name}'")
    ref = to_register(function, value)
    if lane is not None:
        old = function.load_slot(stored, slot)
        ref = function.op(f"insertelement {stored} {old}, {register_type(buffer.dtype)} {ref}, i64 {lane}")
    elif context.mask is not None and place.lanes:
        old = function.load_slot(stored, slot)
        ref = function.op(f"select {context.mask}, {stored} {ref}, {stored} {old}")
    function.store_slot(stored, ref, slot)
