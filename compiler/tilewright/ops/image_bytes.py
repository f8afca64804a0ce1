"""Reading an encoded picture in a loop program: bytes and numbers of the file, pixels to the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright import faults
from tilewright.dtypes import BOOL, I64, U8, U32, U64
from tilewright.expr import (
    Const,
    Expr,
    ExprLike,
    add,
    binary,
    cast,
    const,
    floordiv,
    logical_and,
    mod,
    mul,
    read,
    select,
    sub,
    wrap,
)
from tilewright.loops.ir import Allocate, Buffer, If, Stmt, seq
from tilewright.ops.image_meaning import LUMA
from tilewright.ops.looping import cell, get, loop, put, store, with_cells

PIXEL_FORMATS = ("RGB", "BGR", "Grayscale")


def equal(a: Expr, b: ExprLike) -> Expr:
    return binary("eq", a, wrap(b))


def opposite(condition: Expr) -> Expr:
    return binary("eq", condition, const(False, BOOL))


def one_of(a: Expr, values: Sequence[int]) -> Expr:
    """Whether a number is one of a few."""
    found = equal(a, values[0])
    for value in values[1:]:
        found = binary("or", found, equal(a, value))
    return found


def shifted(a: Expr, bits: Expr) -> Expr:
    """a >> bits, of a number of up to 32 bits."""
    return cast(binary("shr", cast(a, U32), cast(bits, U32)), I64)


class Bytes:
    """Memory of bytes, read as i64 numbers. In the place of what lies outside stands the first byte."""

    def __init__(self, data: Buffer) -> None:
        self.data = data
        self.size = data.size

    def byte(self, at: Expr) -> Expr:
        if isinstance(at, Const):
            at = at if at.value < self.size else const(0)
            return cast(read(self.data, [at]), I64)
        inside = cast(at, U64) < self.size
        return cast(read(self.data, [select(inside, at, const(0))]), I64)

    def little(self, at: Expr, count: int) -> Expr:
        """The unsigned number of `count` bytes, the lowest first."""
        return self._number([add(at, const(k)) for k in range(count)])

    def big(self, at: Expr, count: int) -> Expr:
        """The unsigned number of `count` bytes, the highest first."""
        return self._number([add(at, const(k)) for k in reversed(range(count))])

    def _number(self, places: Sequence[Expr]) -> Expr:
        value: Expr = const(0)
        for power, place in enumerate(places):
            value = add(value, mul(self.byte(place), const(256**power)))
        return value

    def starts_with(self, text: bytes) -> Expr:
        return logical_and(*(equal(self.byte(const(k)), number) for k, number in enumerate(text)))


class Picture:
    """What is to be written, and how the pixels of a file lie: scalars that the reader of a format fills in.

    y: [height, width, channels] of u8; pixel_format: one of PIXEL_FORMATS.
    status: a number of `faults`. bits: of a sample, 1, 2, 4, 8 or 16; of 16 the first eight count. samples:
    of a pixel. kind: 0 grey, 1 colours, 2 places in a palette. flip: 255 where a grey of 0 is white, else 0.
    red: which of the samples 0 to 2 is red, 0 or 2; blue is the other. stride: bytes of a row. starts: where
    each row starts. table, entry, plane, entries: where the palette starts, bytes from entry to entry and
    from colour to colour, and how many entries it has.
    """

    def __init__(self, y: Buffer, height: int, width: int, pixel_format: str) -> None:
        self.y, self.height, self.width, self.pixel_format = y, height, width, pixel_format
        self.status, self.stride = cell("status"), cell("stride")
        self.starts = Buffer("starts", I64, (height,), "local")
        self.bits, self.samples, self.kind = cell("bits"), cell("samples"), cell("kind")
        self.flip, self.red = cell("flip"), cell("red")
        self.table, self.entry = cell("table"), cell("entry")
        self.plane, self.entries = cell("plane"), cell("entries")
        self.line, self.value = cell("line"), cell("value")
        self.colours = [cell("colour0"), cell("colour1"), cell("colour2")]

    def around(self, body: Stmt) -> Stmt:
        """The body with the memory of the picture's description."""
        layout = [self.stride, self.bits, self.samples, self.kind, self.flip, self.red]
        palette = [self.table, self.entry, self.plane, self.entries]
        cells = [self.status, *layout, *palette, self.line, self.value, *self.colours]
        return with_cells(cells, Allocate(self.starts, body))

    def fail(self, reason: int) -> Stmt:
        return put(self.status, reason)

    def checked(self, condition: Expr, reason: int, then: Stmt) -> Stmt:
        """`then` where the condition holds, else the reason why not."""
        return If(condition, then, self.fail(reason))

    def of_size(self, width: Expr, height: Expr, then: Stmt) -> Stmt:
        fits = logical_and(equal(width, self.width), equal(height, self.height))
        return self.checked(fits, faults.PICTURE_SIZE, then)

    def row_bytes(self) -> Stmt:
        """stride = the bytes that a row of such pixels fills."""
        bits = mul(mul(get(self.samples), get(self.bits)), const(self.width))
        return put(self.stride, floordiv(add(bits, const(7)), const(8)))

    def equal_rows(self, first: Expr, step: Expr) -> Stmt:
        """Rows that start `step` bytes apart."""
        return loop("start", self.height, lambda r: store(self.starts, r, add(first, mul(r, step))))

    def pixels(self, source: Bytes, colours: Bytes) -> Stmt:
        """Write all pixels. source: where the rows are; colours: where the palette is."""

        def write(r: Expr) -> Stmt:
            end = add(get(self.line), get(self.stride))
            whole = logical_and(get(self.line) >= 0, end <= source.size)
            pixels = loop("column", self.width, lambda c: self._pixel(source, colours, r, c))
            start = put(self.line, read(self.starts, [r]))
            return seq(start, self.checked(whole, faults.PICTURE_DAMAGE, pixels))

        last = add(mul(sub(get(self.entries), const(1)), get(self.entry)), mul(get(self.plane), const(2)))
        listed = add(get(self.table), last) < colours.size
        sound = binary("or", binary("ne", get(self.kind), const(2)), listed)
        return self.checked(sound, faults.PICTURE_DAMAGE, loop("row", self.height, write))

    def is_sound(self) -> Expr:
        return equal(get(self.status), faults.NOTHING)

    def _pixel(self, source: Bytes, colours: Bytes, r: Expr, c: Expr) -> Stmt:
        place, value = mul(c, get(self.samples)), get(self.value)
        single = put(self.value, self._small(source, place))
        grey = seq(*(put(target, value) for target in self.colours))
        listed = value < get(self.entries)
        chosen = self.checked(listed, faults.PICTURE_DAMAGE, self._of_palette(colours, value))
        stored = If(equal(get(self.kind), 2), chosen, seq(put(self.value, self._grey(value)), grey))
        return seq(
            If(equal(get(self.kind), 1), self._of_samples(source, place), seq(single, stored)),
            self._store(r, c),
        )

    def _small(self, source: Bytes, place: Expr) -> Expr:
        """A sample of any number of bits."""
        bits = get(self.bits)
        first = mul(place, bits)
        byte = source.byte(add(get(self.line), floordiv(first, const(8))))
        left = sub(sub(const(8), bits), mod(first, const(8)))
        power = cast(binary("shl", const(1, U32), cast(bits, U32)), I64)
        return select(bits < 8, mod(shifted(byte, left), power), byte)

    def _grey(self, value: Expr) -> Expr:
        """A sample of 1, 2, 4 or 8 bits as one of 8 bits: its bits repeated."""
        bits = get(self.bits)
        few = select(equal(bits, 1), const(255), select(equal(bits, 2), const(85), const(17)))
        wide = mul(value, select(bits < 8, few, const(1)))
        return select(equal(get(self.flip), 0), wide, sub(const(255), wide))

    def _of_samples(self, source: Bytes, place: Expr) -> Stmt:
        width = floordiv(get(self.bits), const(8))

        def sample(k: Expr) -> Expr:
            return source.byte(add(get(self.line), mul(add(place, k), width)))

        return self._three(sample)

    def _of_palette(self, source: Bytes, value: Expr) -> Stmt:
        first = add(get(self.table), mul(value, get(self.entry)))
        return self._three(lambda k: source.byte(add(first, mul(k, get(self.plane)))))

    def _three(self, colour: Callable[[Expr], Expr]) -> Stmt:
        red, green, blue = self.colours
        first = get(self.red)
        return seq(
            put(red, colour(first)), put(green, colour(const(1))), put(blue, colour(sub(const(2), first)))
        )

    def _store(self, r: Expr, c: Expr) -> Stmt:
        pixel, values = add(mul(r, const(self.width)), c), [get(colour) for colour in self.colours]
        if self.pixel_format == "Grayscale":
            luma: Expr = const(1 << 15)
            for weight, value in zip(LUMA, values, strict=True):
                luma = add(luma, mul(value, const(weight)))
            values = [floordiv(luma, const(1 << 16))]
        elif self.pixel_format == "BGR":
            values.reverse()
        first = mul(pixel, const(len(values)))
        return seq(*(store(self.y, add(first, const(k)), cast(v, U8)) for k, v in enumerate(values)))
