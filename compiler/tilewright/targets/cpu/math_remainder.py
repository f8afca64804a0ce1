"""fmod: the exact remainder of a truncated quotient, by long division of the mantissas.

A quotient of floats can have more bits than a float, so that subtracting its multiple would not be exact.
"""

from __future__ import annotations

from tilewright.dtypes import F32, F64
from tilewright.targets.cpu.codegen_builder import Module
from tilewright.targets.cpu.codegen_types import float_text, suffix, vector_type


def fmod(module: Module, element: str, lanes: int) -> str:
    """`@name` of fmod(x, y) on `lanes` floats (0: a scalar); each lane divides on its own."""
    symbol = f"tilewright.fmod.{suffix(vector_type(element, lanes))}"
    write = _scalar if lanes == 0 else _by_lane
    return module.helper(symbol, lambda: write(module, symbol, element, lanes))


def _by_lane(module: Module, symbol: str, element: str, lanes: int) -> str:
    one = fmod(module, element, 0)
    vector = vector_type(element, lanes)
    lines = [f"define internal {vector} @{symbol}({vector} %x, {vector} %y) #0 {{"]
    result = "poison"
    for lane in range(lanes):
        lines += [
            f"  %x{lane} = extractelement {vector} %x, i64 {lane}",
            f"  %y{lane} = extractelement {vector} %y, i64 {lane}",
            f"  %r{lane} = call {element} {one}({element} %x{lane}, {element} %y{lane})",
            f"  %v{lane} = insertelement {vector} {result}, {element} %r{lane}, i64 {lane}",
        ]
        result = f"%v{lane}"
    return "\n".join([*lines, f"  ret {vector} {result}", "}"])


def _scalar(module: Module, symbol: str, element: str, lanes: int) -> str:
    """x = a 2**m and y = b 2**n with whole a, b: (a 2**(m - n) mod b) 2**n, some bits at a time."""
    double = element == "double"
    mantissa, bias, word = (52, 1023, "i64") if double else (23, 127, "i32")
    step = 63 - mantissa - 1  # bits that a remainder can be moved by without leaving 64 bits
    nan, infinity = (float_text(float(text), F64 if double else F32) for text in ("nan", "inf"))
    abs_ = module.intrinsic(f"llvm.fabs.{suffix(element)}", element, [element])
    sign = module.intrinsic(f"llvm.copysign.{suffix(element)}", element, [element, element])
    least = module.intrinsic("llvm.umin.i64", "i64", ["i64", "i64"])
    convert = "bitcast double {} to i64" if double else "zext i32 {} to i64"

    def parts(name: str) -> list[str]:
        """Mantissa and exponent of |name|; denormals have the exponent of the smallest normal number."""
        bits = [f"  %{name}w = bitcast {element} %{name}a to {word}"] if not double else []
        source = f"%{name}a" if double else f"%{name}w"
        return [
            *bits,
            f"  %{name}b = {convert.format(source)}",
            f"  %{name}f = lshr i64 %{name}b, {mantissa}",
            f"  %{name}t = and i64 %{name}b, {(1 << mantissa) - 1}",
            f"  %{name}d = icmp eq i64 %{name}f, 0",
            f"  %{name}i = select i1 %{name}d, i64 0, i64 {1 << mantissa}",
            f"  %{name}m = or i64 %{name}t, %{name}i",
            f"  %{name}e = select i1 %{name}d, i64 1, i64 %{name}f",
        ]

    def power(name: str, exponent: str) -> list[str]:
        """2**exponent, for exponents of normal numbers."""
        narrow = [] if double else [f"  %{name}n = trunc i64 %{name}s to i32"]
        return [
            f"  %{name}p = add i64 {exponent}, {bias}",
            f"  %{name}s = shl i64 %{name}p, {mantissa}",
            *narrow,
            f"  %{name} = bitcast {word} %{name}{'s' if double else 'n'} to {element}",
        ]

    lines = [
        f"define internal {element} @{symbol}({element} %x, {element} %y) #0 {{",
        "entry:",
        f"  %xa = call {element} {abs_}({element} %x)",
        f"  %ya = call {element} {abs_}({element} %y)",
        f"  %usable = fcmp olt {element} %xa, {infinity}",
        f"  %divides = fcmp ogt {element} %ya, {float_text(0.0, F64)}",  # false for NaN
        "  %defined = and i1 %usable, %divides",
        "  br i1 %defined, label %compare, label %undefined",
        "undefined:",
        f"  ret {element} {nan}",
        "compare:",
        f"  %smaller = fcmp olt {element} %xa, %ya",
        "  br i1 %smaller, label %same, label %divide",
        "same:",
        f"  ret {element} %x",
        "divide:",
        *parts("x"),
        *parts("y"),
        "  %first = urem i64 %xm, %ym",
        "  %distance = sub i64 %xe, %ye",
        "  br label %head",
        "head:",
        "  %rest = phi i64 [ %first, %divide ], [ %next, %move ]",
        "  %left = phi i64 [ %distance, %divide ], [ %after, %move ]",
        "  %more = icmp ugt i64 %left, 0",
        "  br i1 %more, label %move, label %done",
        "move:",
        f"  %by = call i64 {least}(i64 %left, i64 {step})",
        "  %moved = shl i64 %rest, %by",
        "  %next = urem i64 %moved, %ym",
        "  %after = sub i64 %left, %by",
        "  br label %head",
        "done:",
        f"  %number = uitofp i64 %rest to {element}",
        f"  %scale = sub i64 %ye, {bias + mantissa}",
        "  %half = ashr i64 %scale, 1",
        "  %other = sub i64 %scale, %half",
        *power("low", "%half"),
        *power("high", "%other"),
        f"  %once = fmul {element} %number, %low",
        f"  %size = fmul {element} %once, %high",
        f"  %result = call {element} {sign}({element} %size, {element} %x)",
        f"  ret {element} %result",
        "}",
    ]
    return "\n".join(lines)
