"""Inflate (RFC 1951) in the envelope of zlib (RFC 1950), as a loop program."""

from __future__ import annotations

from tilewright import faults
from tilewright.dtypes import I64, U8, U32
from tilewright.expr import Expr, add, binary, cast, const, floordiv, logical_and, mod, mul, read, select, sub
from tilewright.loops.ir import Allocate, Buffer, If, Stmt, While, seq
from tilewright.ops.image_bytes import Bytes, equal, opposite, shifted
from tilewright.ops.looping import cell, get, loop, put, store, with_cells

_LITERALS, _DISTANCES = 0, 1  # tables of codes; code lengths have theirs in the place of the literals
_SYMBOLS, _LENGTHS = 288, 16  # of a table; a code has 1 to 15 bits
_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)  # of code lengths in a block
_END = 256
_ADLER = 65521


def _two_to(bits: Expr) -> Expr:
    return cast(binary("shl", const(1, U32), cast(bits, U32)), I64)


class Inflate:
    """Unpacks `packed` (its first `length` bytes) into `out`, which must become `expected` bytes.

    packed, out: buffers of u8; length, expected: cells. status: a cell that holds faults.NOTHING at first
    and the reason when the stream is damaged; then `out` is filled in part. at: a position in bits.
    """

    def __init__(self, packed: Buffer, length: Buffer, out: Buffer, expected: Buffer, status: Buffer) -> None:
        self.packed, self.length, self.out, self.expected = Bytes(packed), length, out, expected
        self.status = status
        self.counts = Buffer("counts", I64, (2 * _LENGTHS,), "local")  # codes of each length
        self.symbols = Buffer("symbols", I64, (2 * _SYMBOLS,), "local")  # in the order of their codes
        self.lengths = Buffer("lengths", I64, (_SYMBOLS + 32,), "local")  # of literals, then of distances
        self.offsets = Buffer("offsets", I64, (_LENGTHS,), "local")
        self.order = Buffer("order", I64, (len(_ORDER),), "local")
        self.at, self.done, self.last = cell("at"), cell("done"), cell("last")
        self.block, self.literals, self.distances = cell("block"), cell("literals"), cell("distances")
        self.symbol, self.code, self.first = cell("symbol"), cell("code"), cell("first")
        self.index, self.bits, self.left = cell("index"), cell("code_bits"), cell("left")
        self.count, self.known, self.again = cell("count"), cell("known"), cell("again")
        self.distance, self.low, self.high = cell("distance"), cell("low"), cell("high")

    def _cells(self) -> list[Buffer]:
        blocks = [self.at, self.done, self.last, self.block, self.literals, self.distances, self.symbol]
        codes = [self.code, self.first, self.index, self.bits, self.left, self.count, self.known, self.again]
        return [*blocks, *codes, self.distance, self.low, self.high]

    def run(self) -> Stmt:
        head = self.packed.big(const(0), 2)
        proper = logical_and(
            equal(mod(head, const(31)), 0),
            equal(mod(floordiv(head, const(256)), const(16)), 8),
            equal(mod(floordiv(head, const(32)), const(2)), 0),  # no preset dictionary
        )
        body = seq(
            *(store(self.order, const(k), const(symbol)) for k, symbol in enumerate(_ORDER)),
            put(self.at, 16),
            put(self.done, 0),
            put(self.last, 0),
            self._require(proper),
            While(logical_and(equal(get(self.last), 0), self._going()), self._block()),
            self._checksum(),
        )
        for buffer in (self.counts, self.symbols, self.lengths, self.offsets, self.order):
            body = Allocate(buffer, body)
        return with_cells(self._cells(), body)

    # Bits.

    def _word(self) -> Expr:
        """At least 17 bits from the position on."""
        byte = floordiv(get(self.at), const(8))
        return shifted(self.packed.little(byte, 3), mod(get(self.at), const(8)))

    def _bit(self) -> Expr:
        byte = self.packed.byte(floordiv(get(self.at), const(8)))
        return mod(shifted(byte, mod(get(self.at), const(8))), const(2))

    def _advance(self, bits: Expr) -> Stmt:
        return put(self.at, add(get(self.at), bits))

    def _take(self, target: Buffer, bits: Expr, base: Expr) -> Stmt:
        """target = base + the next bits, at most 16."""
        return seq(put(target, add(base, mod(self._word(), _two_to(bits)))), self._advance(bits))

    def _going(self) -> Expr:
        return equal(get(self.status), faults.NOTHING)

    def _unless(self, condition: Expr, then: Stmt) -> Stmt:
        """`then` where the condition holds, as it does in every proper stream."""
        return If(condition, then, put(self.status, faults.PICTURE_DAMAGE))

    def _require(self, condition: Expr) -> Stmt:
        return If(opposite(condition), put(self.status, faults.PICTURE_DAMAGE))

    # Blocks.

    def _block(self) -> Stmt:
        kind = get(self.block)
        coded = seq(If(equal(kind, 1), self._fixed(), self._dynamic()), self._tables(), self._codes())
        return seq(
            self._take(self.count, const(3), const(0)),
            put(self.last, mod(get(self.count), const(2))),
            put(self.block, floordiv(get(self.count), const(2))),
            self._unless(logical_and(kind < 3, self._inside()), If(equal(kind, 0), self._stored(), coded)),
        )

    def _inside(self) -> Expr:
        return get(self.at) <= mul(get(self.length), const(8))

    def _stored(self) -> Stmt:
        """A block of bytes as they are, behind their number and its complement."""
        start = add(floordiv(get(self.at), const(8)), const(4))
        count = get(self.count)
        fits = logical_and(
            equal(add(count, get(self.known)), 0xFFFF),
            add(start, count) <= get(self.length),
            add(get(self.done), count) <= get(self.expected),
        )

        def copy(k: Expr) -> Stmt:
            return self._write(self.packed.byte(add(floordiv(get(self.at), const(8)), k)))

        return seq(
            put(self.at, mul(floordiv(add(get(self.at), const(7)), const(8)), const(8))),
            put(self.count, self.packed.little(floordiv(get(self.at), const(8)), 2)),
            put(self.known, self.packed.little(add(floordiv(get(self.at), const(8)), const(2)), 2)),
            self._unless(
                fits,
                seq(self._advance(const(32)), loop("k", count, copy), self._advance(mul(count, const(8)))),
            ),
        )

    def _write(self, byte: Expr) -> Stmt:
        done = get(self.done)
        return seq(store(self.out, done, cast(byte, U8)), put(self.done, add(done, const(1))))

    def _fixed(self) -> Stmt:
        def length(s: Expr) -> Expr:
            return select(s < 144, const(8), select(s < 256, const(9), select(s < 280, const(7), const(8))))

        return seq(
            put(self.literals, _SYMBOLS),
            put(self.distances, 32),
            loop("s", _SYMBOLS, lambda s: store(self.lengths, s, length(s))),
            loop("d", 32, lambda d: store(self.lengths, add(d, const(_SYMBOLS)), const(5))),
        )

    def _dynamic(self) -> Stmt:
        """The lengths of the codes, coded themselves."""
        total, known = add(get(self.literals), get(self.distances)), get(self.known)

        def one(k: Expr) -> Stmt:
            return seq(
                self._take(self.again, const(3), const(0)),
                store(self.lengths, read(self.order, [k]), get(self.again)),
            )

        return seq(
            self._take(self.count, const(14), const(0)),
            put(self.literals, add(mod(get(self.count), const(32)), const(257))),
            put(self.distances, add(mod(floordiv(get(self.count), const(32)), const(32)), const(1))),
            put(self.count, add(floordiv(get(self.count), const(1024)), const(4))),
            loop("z", len(_ORDER), lambda z: store(self.lengths, z, const(0))),
            loop("k", get(self.count), one),
            self._table(const(_LITERALS), const(0), const(len(_ORDER))),
            put(self.known, 0),
            While(logical_and(known < total, self._going()), self._length(total)),
        )

    def _length(self, total: Expr) -> Stmt:
        """One symbol of the lengths: a length, or how often the last one or zero comes again."""
        symbol, known = get(self.symbol), get(self.known)
        last = read(self.lengths, [select(known > 0, sub(known, const(1)), const(0))])
        of_last, few = equal(symbol, 16), symbol < 18
        repeat = seq(
            self._require(binary("or", known > 0, symbol > 16)),
            put(self.low, select(of_last, last, const(0))),
            put(self.code, select(of_last, const(2), select(few, const(3), const(7)))),
            self._take(self.again, get(self.code), select(few, const(3), const(11))),
        )
        fill = loop("f", get(self.again), lambda f: store(self.lengths, add(known, f), get(self.low)))
        enter = self._unless(
            add(known, get(self.again)) <= total, seq(fill, put(self.known, add(known, get(self.again))))
        )
        plain = seq(put(self.low, symbol), put(self.again, 1))
        known_symbol = seq(If(symbol < 16, plain, repeat), If(self._going(), enter))
        return seq(self._decode(_LITERALS), If(self._going(), known_symbol))

    # Codes.

    def _tables(self) -> Stmt:
        def table(t: Expr) -> Stmt:
            literals = equal(t, _LITERALS)
            start = select(literals, const(0), get(self.literals))
            return self._table(t, start, select(literals, get(self.literals), get(self.distances)))

        return If(self._going(), loop("table", 2, table))

    def _table(self, table: Expr, start: Expr, number: Expr) -> Stmt:
        """A table from the lengths of its codes. More codes than there is room for are damage."""
        counts, symbols = mul(table, const(_LENGTHS)), mul(table, const(_SYMBOLS))

        def length(s: Expr) -> Expr:
            return read(self.lengths, [add(start, s)])

        def count(s: Expr) -> Stmt:
            place = add(counts, length(s))
            return store(self.counts, place, add(read(self.counts, [place]), const(1)))

        def room(b: Expr) -> Stmt:
            """Where the next length's symbols start, and how many codes are left for longer ones."""
            bits = add(b, const(1))
            here = read(self.counts, [add(counts, bits)])
            following = If(
                bits < _LENGTHS - 1,
                store(self.offsets, add(bits, const(1)), add(read(self.offsets, [bits]), here)),
            )
            left = put(self.left, sub(mul(get(self.left), const(2)), here))
            return seq(left, self._require(get(self.left) >= 0), following)

        def place(s: Expr) -> Stmt:
            offset = read(self.offsets, [length(s)])
            here = seq(
                store(self.symbols, add(symbols, offset), s),
                store(self.offsets, length(s), add(offset, const(1))),
            )
            return If(length(s) > 0, here)

        return seq(
            loop("c", _LENGTHS, lambda c: store(self.counts, add(counts, c), const(0))),
            loop("n", number, count),
            put(self.left, 1),
            store(self.offsets, const(1), const(0)),
            loop("b", _LENGTHS - 1, room),
            loop("p", number, place),
        )

    def _decode(self, table: int) -> Stmt:
        """symbol = the next one of a table: bit by bit, by the first code of each length."""
        counts, symbols = const(table * _LENGTHS), const(table * _SYMBOLS)
        code, first, index, bits = map(get, (self.code, self.first, self.index, self.bits))
        here = read(self.counts, [add(counts, bits)])
        found = put(self.symbol, read(self.symbols, [add(symbols, add(index, sub(code, first)))]))
        longer = seq(
            put(self.index, add(index, here)),
            put(self.first, mul(add(first, here), const(2))),
            put(self.code, mul(code, const(2))),
            put(self.bits, add(bits, const(1))),
        )
        turn = seq(
            put(self.code, add(code, self._bit())),
            self._advance(const(1)),
            If(sub(code, here) < first, found, longer),
        )
        start = (put(self.symbol, -1), put(self.code, 0), put(self.first, 0), put(self.index, 0))
        pending = logical_and(get(self.symbol) < 0, bits < _LENGTHS)
        valid = logical_and(get(self.symbol) >= 0, self._inside())
        return seq(*start, put(self.bits, 1), While(pending, turn), self._require(valid))

    def _codes(self) -> Stmt:
        symbol = get(self.symbol)
        room = get(self.done) < get(self.expected)
        literal = self._unless(room, self._write(symbol))
        chosen = If(symbol < _END, literal, If(symbol > _END, self._match()))
        turn = seq(self._decode(_LITERALS), If(self._going(), chosen))
        pending = logical_and(binary("ne", symbol, const(_END)), self._going())
        return seq(put(self.symbol, 0), While(pending, turn))

    def _match(self) -> Stmt:
        """A length, a distance, and a copy of what stands so far back."""
        symbol = get(self.symbol)
        extra = select(symbol < 265, const(0), floordiv(sub(symbol, const(261)), const(4)))
        quarter = mul(add(mod(sub(symbol, const(261)), const(4)), const(4)), _two_to(get(self.low)))
        base = select(
            symbol < 265,
            sub(symbol, const(254)),
            select(equal(symbol, 285), const(258), add(quarter, const(3))),
        )
        length = seq(
            put(self.low, select(equal(symbol, 285), const(0), extra)),
            put(self.high, base),
            self._take(self.count, get(self.low), get(self.high)),
        )
        far = sub(floordiv(symbol, const(2)), const(1))
        half = mul(add(mod(symbol, const(2)), const(2)), _two_to(get(self.low)))
        distance = seq(
            put(self.low, select(symbol < 4, const(0), far)),
            put(self.high, add(select(symbol < 4, symbol, half), const(1))),
            self._take(self.distance, get(self.low), get(self.high)),
        )
        fits = logical_and(
            get(self.distance) <= get(self.done),
            add(get(self.done), get(self.count)) <= get(self.expected),
        )
        source = sub(get(self.done), get(self.distance))
        copy = loop("m", get(self.count), lambda _: self._write(cast(read(self.out, [source]), I64)))
        back = self._unless(symbol < 30, seq(distance, self._unless(fits, copy)))
        return self._unless(symbol <= 285, seq(length, self._decode(_DISTANCES), If(self._going(), back)))

    def _checksum(self) -> Stmt:
        """The sum behind the blocks (Adler-32), and the number of bytes."""
        low, high = get(self.low), get(self.high)

        def turn(k: Expr) -> Stmt:
            byte = cast(read(self.out, [k]), I64)
            return seq(
                put(self.low, mod(add(low, byte), const(_ADLER))),
                put(self.high, mod(add(high, low), const(_ADLER))),
            )

        stored = self.packed.big(floordiv(add(get(self.at), const(7)), const(8)), 4)
        right = logical_and(
            equal(get(self.done), get(self.expected)), equal(stored, add(mul(high, const(1 << 16)), low))
        )
        body = seq(put(self.low, 1), put(self.high, 0), loop("a", get(self.done), turn))
        return If(self._going(), seq(body, self._require(right)))
