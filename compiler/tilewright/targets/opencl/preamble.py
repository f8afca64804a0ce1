"""Helper functions that generated OpenCL C calls: what the language lacks or defines differently.

Each helper is emitted only when the text of a program calls it.
"""

from __future__ import annotations

import re

from tilewright.faults import NOTHING, fault_of

_INTEGERS = ("char", "short", "int", "long")
_UNSIGNED = ("uchar", "ushort", "uint", "ulong")


def _floored(c_type: str) -> dict[str, str]:
    """Division and remainder that round towards minus infinity; a zero divisor gives zero, no trap."""
    head = f"inline {c_type}"
    arguments = f"({c_type} a, {c_type} b)"
    return {
        f"tw_floordiv_{c_type}": f"{head} tw_floordiv_{c_type}{arguments} "
        "{ if (b == 0) return 0; if (b == -1) return 0 - a; "
        f"{c_type} q = a / b; return q - ((a % b != 0) && ((a < 0) != (b < 0))); }}",
        f"tw_mod_{c_type}": f"{head} tw_mod_{c_type}{arguments} "
        "{ if (b == 0 || b == -1) return 0; "
        f"{c_type} r = a % b; return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r; }}",
        f"tw_div_{c_type}": f"{head} tw_div_{c_type}{arguments} "
        "{ if (b == 0) return 0; return (b == -1) ? 0 - a : a / b; }",
        f"tw_rem_{c_type}": f"{head} tw_rem_{c_type}{arguments} "
        "{ return (b == 0 || b == -1) ? 0 : a % b; }",
    }


def _unsigned(c_type: str) -> dict[str, str]:
    head, arguments = f"inline {c_type}", f"({c_type} a, {c_type} b)"
    divide = "{ return b == 0 ? 0 : a / b; }"
    return {
        f"tw_floordiv_{c_type}": f"{head} tw_floordiv_{c_type}{arguments} {divide}",
        f"tw_div_{c_type}": f"{head} tw_div_{c_type}{arguments} {divide}",
        f"tw_mod_{c_type}": f"{head} tw_mod_{c_type}{arguments} {{ return b == 0 ? 0 : a % b; }}",
        f"tw_rem_{c_type}": f"{head} tw_rem_{c_type}{arguments} {{ return b == 0 ? 0 : a % b; }}",
    }


def _floats(c_type: str) -> dict[str, str]:
    """Minimum and maximum that hand NaN on, whichever side it is on; floored remainder."""
    head, arguments = f"inline {c_type}", f"({c_type} a, {c_type} b)"
    return {
        f"tw_max_{c_type}": f"{head} tw_max_{c_type}{arguments} {{ return (a > b || a != a) ? a : b; }}",
        f"tw_min_{c_type}": f"{head} tw_min_{c_type}{arguments} {{ return (a < b || a != a) ? a : b; }}",
        f"tw_floordiv_{c_type}": f"{head} tw_floordiv_{c_type}{arguments} {{ return floor(a / b); }}",
        f"tw_mod_{c_type}": f"{head} tw_mod_{c_type}{arguments} "
        "{ "
        f"{c_type} r = fmod(a, b); return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r; }}",
    }


def _truncated(c_type: str) -> dict[str, str]:
    """Real numbers to integers; what does not fit becomes the smallest number (of ulong: 2**63)."""
    suffix = "f" if c_type == "float" else ""
    edge, end = f"0x1p63{suffix}", f"0x1p64{suffix}"
    to_int, to_long, to_ulong = (f"tw_to_{whole}_{c_type}" for whole in ("int", "long", "ulong"))
    return {
        to_int: f"inline int {to_int}({c_type} x) "
        f"{{ return fabs(x) < 0x1p31{suffix} ? (int)x : (-2147483647-1); }}",
        to_long: f"inline long {to_long}({c_type} x) "
        f"{{ return fabs(x) < {edge} ? (long)x : (-9223372036854775807L-1); }}",
        to_ulong: f"inline ulong {to_ulong}({c_type} x) "
        f"{{ return (x >= {edge} && x < {end}) ? (ulong)x : (ulong){to_long}(x); }}",
    }


_HALVES = {
    "tw_round_half": "inline float tw_round_half(float x) "
    # no variable may be a half without cl_khr_fp16; a pointer to one may
    "{ ushort h; vstore_half_rte(x, 0, (half *)&h); return vload_half(0, (const half *)&h); }",
    "tw_half_bits": "inline ushort tw_half_bits(float x) "
    "{ ushort h; vstore_half_rte(x, 0, (half *)&h); return h; }",
    "tw_half_value": "inline float tw_half_value(ushort b) { return vload_half(0, (const half *)&b); }",
    "tw_bf16_bits": "inline ushort tw_bf16_bits(float x) { uint u = as_uint(x); "
    "return (x != x) ? (ushort)((u >> 16) | 0x40) : (ushort)((u + 0x7fff + ((u >> 16) & 1)) >> 16); }",
    "tw_bf16_value": "inline float tw_bf16_value(ushort b) { return as_float((uint)b << 16); }",
    "tw_round_bf16": "inline float tw_round_bf16(float x) { return tw_bf16_value(tw_bf16_bits(x)); }",
}

# An index is limited to its axis; one outside, or a reason of `faults`, is what the host finds after the run.
_FAULTS = {
    "tw_within": "inline long tw_within(long at, long extent, __global long *fault, long number) "
    "{ if (at < 0 || at >= extent) *fault = number; return max(min(at, extent - 1L), 0L); }",
    "tw_report": "inline long tw_report(long reason, __global long *fault, long number) "
    f"{{ if (reason != {NOTHING}) *fault = number + reason * {fault_of(0, 1)}L; return reason; }}",
}

HELPERS: dict[str, str] = {}
for _type in _INTEGERS:
    HELPERS |= _floored(_type)
for _type in _UNSIGNED:
    HELPERS |= _unsigned(_type)
for _type in ("float", "double"):
    HELPERS |= _floats(_type)
    HELPERS |= _truncated(_type)
HELPERS |= _HALVES
HELPERS |= _FAULTS

_CALLED = re.compile(r"\btw_[a-z0-9_]+(?=\()")


def preamble_for(text: str) -> str:
    """The helpers that the text calls, directly or through another, each before its first use."""
    needed = {name for name in _CALLED.findall(text) if name in HELPERS}
    pending = list(needed)
    while pending:
        further = set(_CALLED.findall(HELPERS[pending.pop()])) & HELPERS.keys() - needed
        needed |= further
        pending += further
    lines = [HELPERS[name] for name in HELPERS if name in needed]
    if "double" in text or any("double" in line for line in lines):
        lines.insert(0, "#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
    return "".join(f"{line}\n" for line in lines)
