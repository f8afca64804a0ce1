"""AMX without the hardware: the tile instructions in LLVM text become calls of functions that do the same.

Written after Intel's Software Developer's Manual, volume 2 (LDTILECFG, TILELOADD, TDPBF16PS, ...). A thread's
state is one a function here, which is stricter: tiles are configured neither by the caller nor after tasks
have run. What the hardware answers with #UD or #GP stops the run with a RunError. bf16 denormals count as 0;
denormal sums are kept, which hardware flushes.
"""

from __future__ import annotations

import re

NAMES = ("ldtilecfg", "tilerelease", "tilezero", "tileloadd64", "tilestored64", "tdpbf16ps", "tdpbusd")
STATE_BYTES = 64 + 8 * 1024  # the configuration, then 8 tiles of 16 rows of 64 bytes
FAULT_OFFSET = 4 * 8  # of `fault` in env, see device.py


def emulated(text: str) -> str:
    """The module with its tile instructions replaced. Functions that use them have the parameter %env."""
    if not re.search(r"@llvm\.x86\.(" + "|".join(NAMES) + r")\(", text):
        return text
    text = re.sub(r"^declare void @llvm\.x86\.(?:" + "|".join(NAMES) + r")\(.*\n", "", text, flags=re.M)
    for name in NAMES:
        text = re.sub(
            rf"@llvm\.x86\.{name}\((.?)",
            lambda m, name=name: (
                f"@emulated.{name}(ptr %tiles, ptr %env" + (", " if m[1] != ")" else "") + m[1]
            ),
            text,
        )
    # tasks run on this thread too, and leave it unconfigured
    fork = r"^(  call void %\w+\(ptr %env, ptr @kernel\.task.*\n)"
    text = re.sub(fork, r"\1  call void @emulated.tilerelease(ptr %tiles, ptr %env)" + "\n", text, flags=re.M)
    begin = f"\\1  %tiles = alloca [{STATE_BYTES} x i8], align 64\n  store i8 0, ptr %tiles\n"
    text = re.sub(r"^(define .*%env.*\{\nentry:\n)", begin, text, flags=re.M)
    text += _FUNCTIONS
    return text if _FMA in text else f"{text}{_FMA}\n"


def _shape(tile: str) -> str:
    """%{tile}.rows and %{tile}.bytes, 0 when it is not configured, and %{tile}.data."""
    return f"""
  %{tile}.on = icmp eq i8 %palette, 1
  %{tile}.number = zext i8 %{tile} to i64
  %{tile}.at0 = shl i64 %{tile}.number, 1
  %{tile}.at1 = add i64 %{tile}.at0, 16
  %{tile}.at2 = getelementptr i8, ptr %state, i64 %{tile}.at1
  %{tile}.bytes16 = load i16, ptr %{tile}.at2
  %{tile}.at3 = add i64 %{tile}.number, 48
  %{tile}.at4 = getelementptr i8, ptr %state, i64 %{tile}.at3
  %{tile}.rows8 = load i8, ptr %{tile}.at4
  %{tile}.bytes64 = zext i16 %{tile}.bytes16 to i64
  %{tile}.rows64 = zext i8 %{tile}.rows8 to i64
  %{tile}.bytes = select i1 %{tile}.on, i64 %{tile}.bytes64, i64 0
  %{tile}.rows = select i1 %{tile}.on, i64 %{tile}.rows64, i64 0
  %{tile}.at5 = shl i64 %{tile}.number, 10
  %{tile}.at6 = add i64 %{tile}.at5, 64
  %{tile}.data = getelementptr i8, ptr %state, i64 %{tile}.at6
"""


def _function(name: str, arguments: str, checks: list[tuple[str, str]], body: str, tiles: str = "") -> str:
    """checks: (lines, i1 that must hold); body: lines from label `good:` on, with blocks of its own."""
    lines = [
        f"define internal void @emulated.{name}(ptr %state, ptr %env{arguments}) noinline #0 {{",
        "entry:",
    ]
    lines.append("  %palette = load i8, ptr %state")
    lines += [_shape(tile) for tile in tiles]
    for number, (text, condition) in enumerate(checks):
        lines.append(text)
        lines.append(f"  br i1 {condition}, label %check{number}, label %fault\ncheck{number}:")
    lines.append(f"  br label %good\ngood:\n{body}")
    lines.append(
        f"""fault:
  %where = getelementptr i8, ptr %env, i64 {FAULT_OFFSET}
  store i64 1, ptr %where
  ret void
}}
"""
    )
    return "\n".join(lines)


def _configured(tile: str) -> tuple[str, str]:
    return (f"  %{tile}.ok = icmp ne i64 %{tile}.rows, 0", f"%{tile}.ok")


def _rows(copy: str) -> str:
    """For each row, and each byte of it, `copy`; %t is the tile."""
    return f"""
  br label %row
row:
  %i = phi i64 [ 0, %good ], [ %i.next, %row.next ]
  %i.offset = mul i64 %i, %stride
  %memory = getelementptr i8, ptr %base, i64 %i.offset
  %i.in = shl i64 %i, 6
  %line = getelementptr i8, ptr %t.data, i64 %i.in
  br label %byte
byte:
  %j = phi i64 [ 0, %row ], [ %j.next, %byte ]
  %outside = getelementptr i8, ptr %memory, i64 %j
  %inside = getelementptr i8, ptr %line, i64 %j
{copy}
  %j.next = add i64 %j, 1
  %j.more = icmp ult i64 %j.next, %t.bytes
  br i1 %j.more, label %byte, label %row.next
row.next:
  %i.next = add i64 %i, 1
  %i.more = icmp ult i64 %i.next, %t.rows
  br i1 %i.more, label %row, label %end
end:
  ret void
"""


def _zeroed(place: str, size: int) -> str:
    """Stores, as a call of memset would need a C library."""
    lines = []
    for offset in range(0, size, 64):
        lines.append(f"  %z{offset} = getelementptr i8, ptr {place}, i64 {offset}")
        lines.append(f"  store <64 x i8> zeroinitializer, ptr %z{offset}, align 64")
    return "\n".join(lines)


def _ldtilecfg() -> str:
    """Palette 1; reserved bytes, and those of tiles that there are not, 0; rows and bytes within limits."""
    checks = [
        ("  %p = load i8, ptr %config\n  %p.ok = icmp eq i8 %p, 1", "%p.ok"),
    ]
    for number, (start, bits) in enumerate(((1, 15 * 8), (32, 16 * 8), (56, 8 * 8))):
        text = f"""  %r{number}.at = getelementptr i8, ptr %config, i64 {start}
  %r{number} = load i{bits}, ptr %r{number}.at, align 1
  %r{number}.ok = icmp eq i{bits} %r{number}, 0"""
        checks.append((text, f"%r{number}.ok"))
    for tile in range(8):
        text = f"""  %c{tile}.at = getelementptr i8, ptr %config, i64 {16 + 2 * tile}
  %c{tile} = load i16, ptr %c{tile}.at
  %n{tile}.at = getelementptr i8, ptr %config, i64 {48 + tile}
  %n{tile} = load i8, ptr %n{tile}.at
  %c{tile}.few = icmp ule i16 %c{tile}, 64
  %n{tile}.few = icmp ule i8 %n{tile}, 16
  %c{tile}.none = icmp eq i16 %c{tile}, 0
  %n{tile}.none = icmp eq i8 %n{tile}, 0
  %both{tile} = icmp eq i1 %c{tile}.none, %n{tile}.none
  %few{tile} = and i1 %c{tile}.few, %n{tile}.few
  %ok{tile} = and i1 %few{tile}, %both{tile}"""
        checks.append((text, f"%ok{tile}"))
    body = f"""{_zeroed("%state", STATE_BYTES)}
  %whole = load <64 x i8>, ptr %config, align 1
  store <64 x i8> %whole, ptr %state, align 64
  ret void"""
    return _function("ldtilecfg", ", ptr %config", checks, body)


def _product(name: str, sums: str, step: str, total: str) -> str:
    """Three tiles, of shapes that fit. sums: declares what the loop over %k, 4 bytes of a row, carries on;
    step: adds %left and %right; total: adds the result to %d.row.
    """
    checks = [_configured(tile) for tile in "dab"]
    pairs = [("%d", "%a", "ne", "i8"), ("%d", "%b", "ne", "i8"), ("%a", "%b", "ne", "i8")]
    pairs += [("%d.rows", "%a.rows", "eq", "i64"), ("%d.bytes", "%b.bytes", "eq", "i64")]
    checks += [
        (f"  %x{n} = icmp {op} {kind} {left}, {right}", f"%x{n}")
        for n, (left, right, op, kind) in enumerate(pairs)
    ]
    checks.append(("  %a.pairs = lshr i64 %a.bytes, 2\n  %k.ok = icmp eq i64 %a.pairs, %b.rows", "%k.ok"))
    checks.append(("  %all = or i64 %a.bytes, %d.bytes\n  %rest = and i64 %all, 3", "%rest.ok"))
    checks[-1] = (checks[-1][0] + "\n  %rest.ok = icmp eq i64 %rest, 0", "%rest.ok")
    body = f"""  br label %row
row:
  %m = phi i64 [ 0, %good ], [ %m.next, %row.next ]
  %m.at = shl i64 %m, 6
  %a.row = getelementptr i8, ptr %a.data, i64 %m.at
  %d.row = getelementptr i8, ptr %d.data, i64 %m.at
  br label %pair
pair:
  %k = phi i64 [ 0, %row ], [ %k.next, %pair ]
{sums}
  %left = getelementptr i32, ptr %a.row, i64 %k
  %k.at = shl i64 %k, 6
  %right = getelementptr i8, ptr %b.data, i64 %k.at
{step}
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, %b.rows
  br i1 %k.more, label %pair, label %row.next
row.next:
{total}
  %m.next = add i64 %m, 1
  %m.more = icmp ult i64 %m.next, %d.rows
  br i1 %m.more, label %row, label %end
end:
  ret void"""
    return _function(name, ", i8 %d, i8 %a, i8 %b", checks, body, "dab")


def _tdpbf16ps() -> str:
    """Even and odd terms are summed apart, then added to the result."""
    even = ", ".join(f"i32 {2 * lane}" for lane in range(16))
    odd = ", ".join(f"i32 {2 * lane + 1}" for lane in range(16))

    def widened(name: str, source: str) -> str:
        """Floats of bf16 bits, <16 x i16>; denormals become 0."""
        return f"""  %{name}.e = and <16 x i16> {source}, splat (i16 32640)
  %{name}.d = icmp eq <16 x i16> %{name}.e, zeroinitializer
  %{name}.n = select <16 x i1> %{name}.d, <16 x i16> zeroinitializer, <16 x i16> {source}
  %{name}.w = zext <16 x i16> %{name}.n to <16 x i32>
  %{name}.s = shl <16 x i32> %{name}.w, splat (i32 16)
  %{name} = bitcast <16 x i32> %{name}.s to <16 x float>"""

    def term(part: int, order: str) -> str:
        factors = f"<16 x float> %x{part}.f, <16 x float> %w{part}.f"
        return f"""  %x{part}.at = getelementptr i16, ptr %left, i64 {part}
  %x{part}.1 = load i16, ptr %x{part}.at
  %x{part}.2 = insertelement <16 x i16> poison, i16 %x{part}.1, i64 0
  %x{part}.3 = shufflevector <16 x i16> %x{part}.2, <16 x i16> poison, <16 x i32> zeroinitializer
{widened(f"x{part}.f", f"%x{part}.3")}
  %w{part}.1 = shufflevector <32 x i16> %columns, <32 x i16> poison, <16 x i32> <{order}>
{widened(f"w{part}.f", f"%w{part}.1")}
  %s{part}.next = call <16 x float> @llvm.fma.v16f32({factors}, <16 x float> %s{part})"""

    first = "[ zeroinitializer, %row ]"
    sums = "\n".join(f"  %s{part} = phi <16 x float> {first}, [ %s{part}.next, %pair ]" for part in (0, 1))
    load = "  %columns = load <32 x i16>, ptr %right, align 64"
    total = """  %old = load <16 x float>, ptr %d.row, align 64
  %sum = fadd <16 x float> %s0.next, %s1.next
  %new = fadd <16 x float> %old, %sum
  store <16 x float> %new, ptr %d.row, align 64"""
    return _product("tdpbf16ps", sums, "\n".join((load, term(0, even), term(1, odd))), total)


def _tdpbusd() -> str:
    """Bytes of rows have no sign, those of columns have one; sums wrap."""

    def term(byte: int) -> str:
        return f"""  %x{byte}.s = lshr <16 x i32> %rows, splat (i32 {8 * byte})
  %x{byte}.b = and <16 x i32> %x{byte}.s, splat (i32 255)
  %w{byte}.s = shl <16 x i32> %columns, splat (i32 {24 - 8 * byte})
  %w{byte}.b = ashr <16 x i32> %w{byte}.s, splat (i32 24)
  %p{byte} = mul <16 x i32> %x{byte}.b, %w{byte}.b
  %s{byte + 1} = add <16 x i32> %s{byte}, %p{byte}"""

    load = """  %left.1 = load i32, ptr %left
  %left.2 = insertelement <16 x i32> poison, i32 %left.1, i64 0
  %rows = shufflevector <16 x i32> %left.2, <16 x i32> poison, <16 x i32> zeroinitializer
  %columns = load <16 x i32>, ptr %right, align 64"""
    total = """  %old = load <16 x i32>, ptr %d.row, align 64
  %new = add <16 x i32> %old, %s4
  store <16 x i32> %new, ptr %d.row, align 64"""
    sums = "  %s0 = phi <16 x i32> [ zeroinitializer, %row ], [ %s4, %pair ]"
    return _product("tdpbusd", sums, "\n".join((load, *map(term, range(4)))), total)


_FMA = "declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)"
_LOAD = "  %value = load i8, ptr %outside\n  store i8 %value, ptr %inside"
_STORE = "  %value = load i8, ptr %inside\n  store i8 %value, ptr %outside"
_FUNCTIONS = "\n".join(
    [
        _ldtilecfg(),
        _function("tilerelease", "", [], "  store i8 0, ptr %state\n  ret void"),
        _function("tilezero", ", i8 %t", [_configured("t")], _zeroed("%t.data", 1024) + "\n  ret void", "t"),
        _function(
            "tileloadd64",
            ", i8 %t, ptr %base, i64 %stride",
            [_configured("t")],
            _zeroed("%t.data", 1024) + _rows(_LOAD),
            "t",
        ),
        _function("tilestored64", ", i8 %t, ptr %base, i64 %stride", [_configured("t")], _rows(_STORE), "t"),
        _tdpbf16ps(),
        _tdpbusd(),
    ]
)
