"""Portable network graphics as a loop program: chunks, the packed rows, and the filters that undo themselves.

https://www.w3.org/TR/png-3: sections 5.3 (chunks), 9.2 (filters), 11.2.1 (kinds of pixels).
"""

from __future__ import annotations

from tilewright import faults
from tilewright.dtypes import I64, U8
from tilewright.expr import (
    Expr,
    add,
    binary,
    cast,
    const,
    floordiv,
    logical_and,
    minimum,
    mod,
    mul,
    read,
    select,
    sub,
)
from tilewright.loops.ir import Allocate, Buffer, If, Stmt, While, seq
from tilewright.ops.image_bytes import Bytes, Picture, equal, one_of, opposite
from tilewright.ops.image_inflate import Inflate
from tilewright.ops.looping import cell, get, loop, put, store, with_cells

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_WIDEST = 8  # bytes of a pixel: four samples of 16 bits
_GREY, _COLOURS, _PALETTE, _GREY_ALPHA, _COLOURS_ALPHA = 0, 2, 3, 4, 6


def _name(text: bytes) -> int:
    return int.from_bytes(text, "big")


def png(file: Bytes, picture: Picture) -> Stmt:
    """Pictures of all kinds of pixels that are not interlaced; what is transparent shows its own colour."""
    depth, kind = file.byte(const(24)), file.byte(const(25))
    packed = Buffer("packed", U8, (file.size,), "local")
    rows = Buffer("rows", U8, (picture.height * (1 + _WIDEST * picture.width),), "local")
    length, expected = cell("packed_bytes"), cell("row_bytes")
    coloured = one_of(kind, (_COLOURS, _COLOURS_ALPHA))
    samples = select(
        equal(kind, _COLOURS),
        const(3),
        select(equal(kind, _COLOURS_ALPHA), const(4), select(equal(kind, _GREY_ALPHA), const(2), const(1))),
    )
    few = logical_and(equal(kind, _PALETTE), one_of(depth, (1, 2, 4, 8)))
    grey = logical_and(equal(kind, _GREY), one_of(depth, (1, 2, 4, 8, 16)))
    wide = logical_and(one_of(kind, (_COLOURS, _GREY_ALPHA, _COLOURS_ALPHA)), one_of(depth, (8, 16)))
    proper = logical_and(
        equal(file.big(const(12), 4), _name(b"IHDR")), binary("or", binary("or", few, grey), wide)
    )
    layout = seq(
        put(picture.bits, depth),
        put(picture.samples, samples),
        put(picture.kind, select(coloured, const(1), select(equal(kind, _PALETTE), const(2), const(0)))),
        put(picture.flip, 0),
        put(picture.red, 0),
        put(picture.table, -1),
        put(picture.entry, 3),
        put(picture.plane, 1),
        picture.row_bytes(),
        put(expected, mul(add(get(picture.stride), const(1)), const(picture.height))),
    )
    pitch = add(get(picture.stride), const(1))
    pixels = seq(picture.equal_rows(const(1), pitch), picture.pixels(Bytes(rows), file))
    body = seq(
        picture.fail(faults.NOTHING),
        layout,
        _gathered(file, picture, packed, length),
        If(picture.is_sound(), Inflate(packed, length, rows, expected, picture.status).run()),
        If(picture.is_sound(), _unfiltered(rows, picture)),
        If(picture.is_sound(), pixels),
    )
    whole = with_cells([length, expected], Allocate(packed, Allocate(rows, body)))
    sized = picture.of_size(file.big(const(16), 4), file.big(const(20), 4), whole)
    plain = picture.checked(equal(file.byte(const(28)), 0), faults.PICTURE_KIND, sized)
    return picture.checked(proper, faults.PICTURE_DAMAGE, plain)


def _gathered(file: Bytes, picture: Picture, packed: Buffer, length: Buffer) -> Stmt:
    """The bytes of all IDAT chunks one after the other; where the palette is."""
    at, ended = cell("chunk"), cell("ended")
    size, name, data = file.big(get(at), 4), file.big(add(get(at), const(4)), 4), add(get(at), const(8))

    def copy(k: Expr) -> Stmt:
        byte = cast(file.byte(add(data, k)), U8)
        return seq(store(packed, get(length), byte), put(length, add(get(length), const(1))))

    chunk = If(
        equal(name, _name(b"IDAT")),
        loop("k", minimum(size, sub(const(file.size), data)), copy),
        If(
            equal(name, _name(b"PLTE")),
            seq(put(picture.table, data), put(picture.entries, floordiv(size, const(3)))),
            If(equal(name, _name(b"IEND")), put(ended, 1)),
        ),
    )
    turn = seq(chunk, put(at, add(data, add(size, const(4)))))
    inside = logical_and(data <= file.size, equal(get(ended), 0))
    colours = binary("or", get(picture.table) >= 0, binary("ne", get(picture.kind), const(2)))
    sound = logical_and(equal(get(ended), 1), colours)
    return with_cells(
        [at, ended],
        seq(
            put(at, len(SIGNATURE)),
            put(ended, 0),
            put(length, 0),
            While(inside, turn),
            If(opposite(sound), picture.fail(faults.PICTURE_DAMAGE)),
        ),
    )


def _unfiltered(rows: Buffer, picture: Picture) -> Stmt:
    """Each byte with its prediction from the bytes to the left, above, and above to the left added."""
    pixel, pitch, filter_, start = cell("pixel_bytes"), cell("pitch"), cell("filter"), cell("row_start")
    left, above, corner = cell("left_byte"), cell("above_byte"), cell("corner_byte")

    def byte(at: Expr) -> Expr:
        return cast(read(rows, [at]), I64)

    def undo(r: Expr, k: Expr) -> Stmt:
        here = add(get(start), k)
        inner, lower = k >= get(pixel), r > 0
        back = sub(here, get(pixel))
        value = add(byte(here), _prediction(get(filter_), get(left), get(above), get(corner)))
        return seq(
            put(left, select(inner, byte(back), const(0))),
            put(above, select(lower, byte(sub(here, get(pitch))), const(0))),
            put(corner, select(logical_and(inner, lower), byte(sub(back, get(pitch))), const(0))),
            store(rows, here, cast(mod(value, const(256)), U8)),
        )

    def row(r: Expr) -> Stmt:
        return seq(
            put(filter_, byte(mul(r, get(pitch)))),
            put(start, add(mul(r, get(pitch)), const(1))),
            picture.checked(
                get(filter_) <= 4, faults.PICTURE_DAMAGE, loop("k", get(picture.stride), lambda k: undo(r, k))
            ),
        )

    bits = mul(get(picture.samples), get(picture.bits))
    body = seq(
        put(pixel, floordiv(add(bits, const(7)), const(8))),
        put(pitch, add(get(picture.stride), const(1))),
        loop("r", picture.height, row),
    )
    return with_cells([pixel, pitch, filter_, start, left, above, corner], body)


def _prediction(filter_: Expr, left: Expr, above: Expr, corner: Expr) -> Expr:
    """By the filter's number: nothing, left, above, their mean, or Paeth's choice."""
    estimate = sub(add(left, above), corner)
    by_left, by_above, by_corner = (_distance(estimate, value) for value in (left, above, corner))
    nearest = select(
        logical_and(by_left <= by_above, by_left <= by_corner),
        left,
        select(by_above <= by_corner, above, corner),
    )
    mean = floordiv(add(left, above), const(2))
    chosen = select(equal(filter_, 3), mean, nearest)
    simple = select(equal(filter_, 1), left, select(equal(filter_, 2), above, chosen))
    return select(equal(filter_, 0), const(0), simple)


def _distance(a: Expr, b: Expr) -> Expr:
    return select(a < b, sub(b, a), sub(a, b))
