"""Pictures whose pixels stand in the file as they are: BMP, PNM and TIFF, as loop programs.

Each function gives the statement that reads the header of its format: where the rows start, and how their
pixels lie.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import faults
from tilewright.dtypes import I64
from tilewright.expr import Expr, add, binary, const, floordiv, logical_and, mod, mul, read, select, sub
from tilewright.loops.ir import Allocate, Buffer, If, Stmt, While, seq
from tilewright.ops.image_bytes import Bytes, Picture, equal, one_of
from tilewright.ops.looping import cell, get, loop, put, store, with_cells

_MASKS = (0xFF0000, 0xFF00, 0xFF)  # blue first in memory


def bmp(file: Bytes, picture: Picture) -> Stmt:
    """Windows bitmaps of 1, 4, 8, 24 and 32 bits, rows from either end, without compression.

    Fields: https://learn.microsoft.com/windows/win32/api/wingdi/ns-wingdi-bitmapinfoheader.
    """

    def number(at: int, count: int) -> Expr:
        return file.little(const(at), count)

    depth, compression, header = number(28, 2), number(30, 4), number(14, 4)
    height = number(22, 4)
    downwards = height >= (1 << 31)  # negative
    height = select(downwards, sub(const(1 << 32), height), height)
    masked = [equal(number(54 + 4 * k, 4), mask) for k, mask in enumerate(_MASKS)]
    plain = binary("or", equal(compression, 0), logical_and(equal(compression, 3), equal(depth, 32), *masked))
    known = logical_and(header >= 40, one_of(depth, (1, 4, 8, 24, 32)), plain)
    colours = depth >= 24
    stride, first = get(picture.stride), number(10, 4)
    last = add(first, mul(stride, const(picture.height - 1)))
    words = floordiv(add(mul(depth, const(picture.width)), const(31)), const(32))
    rows = If(
        downwards,
        picture.equal_rows(first, stride),
        picture.equal_rows(last, sub(const(0), stride)),
    )
    layout = seq(
        picture.fail(faults.NOTHING),
        put(picture.bits, select(colours, const(8), depth)),
        put(picture.samples, select(colours, floordiv(depth, const(8)), const(1))),
        put(picture.kind, select(colours, const(1), const(2))),
        put(picture.red, 2),
        put(picture.table, add(header, const(14))),
        put(picture.entry, 4),
        put(picture.plane, 1),
        put(picture.entries, floordiv(sub(first, get(picture.table)), const(4))),
        put(picture.stride, mul(words, const(4))),
        rows,
    )
    return picture.checked(known, faults.PICTURE_KIND, picture.of_size(number(18, 4), height, layout))


def pnm(file: Bytes, picture: Picture) -> Stmt:
    """Portable bit, grey and pixel maps in binary: P4, P5 and P6, the latter two of 255 levels.

    https://netpbm.sourceforge.net/doc/ppm.html
    """
    kind = file.byte(const(1))
    numbers, at = Buffer("numbers", I64, (3,), "local"), cell("text_at")
    bitmap = equal(kind, ord("4"))
    levels = select(bitmap, const(255), read(numbers, [2]))
    layout = seq(
        picture.fail(faults.NOTHING),
        put(picture.bits, select(bitmap, const(1), const(8))),
        put(picture.samples, select(equal(kind, ord("6")), const(3), const(1))),
        put(picture.kind, select(equal(kind, ord("6")), const(1), const(0))),
        put(picture.flip, select(bitmap, const(255), const(0))),
        put(picture.red, 0),
        picture.row_bytes(),
        picture.equal_rows(add(get(at), const(1)), get(picture.stride)),
    )
    sized = picture.of_size(read(numbers, [0]), read(numbers, [1]), layout)
    body = seq(
        put(at, 2),
        _decimals(file, at, numbers, select(bitmap, const(2), const(3))),
        picture.checked(equal(levels, 255), faults.PICTURE_KIND, sized),
    )
    known = picture.checked(one_of(kind, tuple(b"456")), faults.PICTURE_KIND, Allocate(numbers, body))
    return with_cells([at], known)


def _decimals(file: Bytes, at: Buffer, numbers: Buffer, wanted: Expr) -> Stmt:
    """Decimal numbers between white space and comments; `at` ends behind the last digit."""
    more, value, digits = cell("more"), cell("number"), cell("digits")
    byte, advance = file.byte(get(at)), put(at, add(get(at), const(1)))
    inside = get(at) < file.size
    comment = While(logical_and(inside, binary("ne", byte, const(ord("\n")))), advance)
    blank = logical_and(inside, one_of(byte, tuple(b" \t\n\v\f\r")))
    skip = If(equal(byte, ord("#")), comment, If(blank, advance, put(more, 0)))
    digit = logical_and(byte >= ord("0"), byte <= ord("9"), get(digits) < 9)
    take = seq(
        put(value, add(mul(get(value), const(10)), sub(byte, const(ord("0"))))),
        put(digits, add(get(digits), const(1))),
        advance,
    )

    def one(k: Expr) -> Stmt:
        return seq(
            put(more, 1),
            While(equal(get(more), 1), skip),
            put(value, 0),
            put(digits, 0),
            While(digit, take),
            store(numbers, k, get(value)),
        )

    return with_cells([more, value, digits], loop("k", 3, lambda k: If(k < wanted, one(k))))


# Tags of TIFF 6.0 (section 8, baseline) with what they mean when they are absent; the rest decides nothing.
_TAGS = {
    "width": (256, 0),
    "height": (257, 0),
    "bits": (258, 1),
    "compression": (259, 1),
    "photometric": (262, 0),
    "fill_order": (266, 1),
    "strips": (273, 0),
    "orientation": (274, 1),
    "samples": (277, 1),
    "rows": (278, (1 << 32) - 1),
    "planar": (284, 1),
    "palette": (320, 0),
    "tiles": (322, 0),
}
_SHORT = 3


class _Directory:
    """The first image file directory of a TIFF file: of each tag its first value, place and type."""

    def __init__(self, file: Bytes) -> None:
        self.file = file
        self.little = equal(file.byte(const(0)), ord("I"))
        self.values = Buffer("values", I64, (len(_TAGS),), "local")
        self.places = Buffer("places", I64, (len(_TAGS),), "local")
        self.types = Buffer("types", I64, (len(_TAGS),), "local")
        self.first, self.place, self.entries = cell("directory"), cell("place"), cell("tags")
        self.tag, self.type, self.count, self.number = (
            cell("tag"),
            cell("type"),
            cell("count"),
            cell("tag_value"),
        )

    def around(self, body: Stmt) -> Stmt:
        cells = [self.first, self.place, self.entries, self.tag, self.type, self.count, self.number]
        return with_cells(cells, Allocate(self.values, Allocate(self.places, Allocate(self.types, body))))

    def value(self, name: str) -> Expr:
        return read(self.values, [list(_TAGS).index(name)])

    def place_of(self, name: str) -> Expr:
        return read(self.places, [list(_TAGS).index(name)])

    def read(self, target: Buffer, at: Expr, bytes: Expr) -> Stmt:
        """target = a number in the file's order of bytes."""

        def digit(k: Expr) -> Stmt:
            place = select(self.little, sub(sub(bytes, const(1)), k), k)
            return put(target, add(mul(get(target), const(256)), self.file.byte(add(at, place))))

        return seq(put(target, 0), loop("byte", bytes, digit))

    def element(self, target: Buffer, name: str, index: Expr) -> Stmt:
        """target = a later value of a tag."""
        size = _bytes(read(self.types, [list(_TAGS).index(name)]))
        return self.read(target, add(self.place_of(name), mul(index, size)), size)

    def find(self) -> Stmt:
        """Where the directory starts, and how many fields it has."""
        first = self.read(self.first, const(4), const(4))
        return seq(first, self.read(self.entries, get(self.first), const(2)))

    def is_inside(self) -> Expr:
        end = add(add(get(self.first), const(2)), mul(get(self.entries), const(12)))
        return end <= self.file.size

    def parse(self) -> Stmt:
        defaults = [store(self.values, const(k), const(d)) for k, (_, d) in enumerate(_TAGS.values())]
        size = _bytes(get(self.type))

        def field(k: Expr) -> Stmt:
            at = add(add(get(self.first), const(2)), mul(k, const(12)))
            return seq(
                self.read(self.tag, at, const(2)),
                self.read(self.type, add(at, const(2)), const(2)),
                self.read(self.count, add(at, const(4)), const(4)),
                put(self.place, add(at, const(8))),
                If(mul(get(self.count), size) > 4, self.read(self.place, add(at, const(8)), const(4))),
                self.read(self.number, get(self.place), size),
                *(
                    If(equal(get(self.tag), code), self._keep(n))
                    for n, (code, _) in enumerate(_TAGS.values())
                ),
            )

        return seq(*defaults, loop("tag", get(self.entries), field))

    def _keep(self, number: int) -> Stmt:
        return seq(
            store(self.values, const(number), get(self.number)),
            store(self.places, const(number), get(self.place)),
            store(self.types, const(number), get(self.type)),
        )


def _bytes(type: Expr) -> Expr:
    return select(equal(type, _SHORT), const(2), const(4))


def tiff(file: Bytes, picture: Picture) -> Stmt:
    """Bilevel, grey, palette and RGB pictures in strips without compression, in either order of bytes."""
    tags = _Directory(file)
    bits, photometric, samples = (tags.value(name) for name in ("bits", "photometric", "samples"))
    single = logical_and(photometric <= 1, one_of(bits, (1, 4, 8)))
    colours = logical_and(equal(photometric, 2), equal(bits, 8), samples >= 3)
    palette = logical_and(equal(photometric, 3), one_of(bits, (1, 2, 4, 8)), equal(samples, 1))
    known = logical_and(
        _ones(tags, ("compression", "fill_order", "orientation", "planar")),
        equal(tags.value("tiles"), 0),
        tags.value("rows") >= 1,
        samples <= 8,
        binary("or", binary("or", single, colours), palette),
    )
    high_byte = select(tags.little, const(1), const(0))  # a palette's colours have 16 bits
    entries = select(equal(bits, 8), const(256), select(equal(bits, 4), const(16), mul(bits, const(2))))
    strip = tags.number

    def start(r: Expr) -> Stmt:
        inside = mul(mod(r, tags.value("rows")), get(picture.stride))
        first = tags.element(strip, "strips", floordiv(r, tags.value("rows")))
        return seq(first, store(picture.starts, r, add(get(strip), inside)))

    layout = seq(
        picture.fail(faults.NOTHING),
        put(picture.bits, bits),
        put(picture.samples, samples),
        put(picture.kind, select(photometric < 2, const(0), sub(photometric, const(1)))),
        put(picture.flip, select(equal(photometric, 0), const(255), const(0))),
        put(picture.red, 0),
        put(picture.table, add(tags.place_of("palette"), high_byte)),
        put(picture.entry, 2),
        put(picture.plane, mul(entries, const(2))),
        put(picture.entries, entries),
        picture.row_bytes(),
        loop("start", picture.height, start),
    )
    sized = picture.of_size(tags.value("width"), tags.value("height"), layout)
    body = seq(tags.parse(), picture.checked(known, faults.PICTURE_KIND, sized))
    return tags.around(seq(tags.find(), picture.checked(tags.is_inside(), faults.PICTURE_DAMAGE, body)))


def _ones(tags: _Directory, names: Sequence[str]) -> Expr:
    return logical_and(*(equal(tags.value(name), 1) for name in names))
