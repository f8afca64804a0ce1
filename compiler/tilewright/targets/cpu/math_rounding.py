"""floor, ceil, round half to even and trunc: one instruction from SSE4.1 on, arithmetic before it."""

from __future__ import annotations

from tilewright.targets.cpu.math_writer import MathWriter


def _has_instruction(m: MathWriter) -> bool:
    return m.machine.has("sse4.1") or not m.machine.triple.startswith("x86")


def round_even(m: MathWriter, x: str) -> str:
    if _has_instruction(m):
        return m.function.same_type("roundeven", m.type, x)
    # at 2**23 (f32) or 2**52 (f64) the last place is 1; larger numbers are whole already, NaN fails the
    # comparison
    edge = m.number(2.0 ** (52 if m.double else 23))
    size = m.abs(x)
    rounded = m.copysign(m.sub(m.add(size, edge), edge), x)
    return m.select(m.compare("olt", size, edge), rounded, x)


def _corrected(m: MathWriter, x: str, test: str, step: float) -> str:
    """The nearest whole number, moved by `step` where it lies on the wrong side of x."""
    near = round_even(m, x)
    wrong = m.compare(test, near, x)
    moved = m.select(wrong, m.add(near, m.number(step)), near)
    return m.copysign(moved, x)  # -0.0 stays, and 0 - 0.5 rounds to -0


def floor(m: MathWriter, x: str) -> str:
    if _has_instruction(m):
        return m.function.same_type("floor", m.type, x)
    return _corrected(m, x, "ogt", -1.0)


def ceil(m: MathWriter, x: str) -> str:
    if _has_instruction(m):
        return m.function.same_type("ceil", m.type, x)
    return _corrected(m, x, "olt", 1.0)


def trunc(m: MathWriter, x: str) -> str:
    if _has_instruction(m):
        return m.function.same_type("trunc", m.type, x)
    return m.copysign(_corrected(m, m.abs(x), "ogt", -1.0), x)
