"""Writing math functions: straight-line code on one float type, scalar or vector, by names of operations."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dtypes import F32, F64, I32, I64, DType
from tilewright.machine import Machine
from tilewright.targets.cpu.codegen_builder import Function, Module
from tilewright.targets.cpu.codegen_types import literal, vector_type


class MathWriter:
    """One function from `lanes` floats (0: a scalar) to as many; operands are LLVM's, without their types.

    element: `float` or `double`. Comparisons give masks; integers have the float's width.
    """

    def __init__(self, module: Module, element: str, lanes: int) -> None:
        self.module, self.element, self.lanes = module, element, lanes
        self.double = element == "double"
        self.function = Function(module)
        self.dtype: DType = F64 if self.double else F32
        self.integer: DType = I64 if self.double else I32
        self.type = vector_type(element, lanes)
        self.bits_type = vector_type("i64" if self.double else "i32", lanes)
        self.mask_type = vector_type("i1", lanes)

    @property
    def machine(self) -> Machine:
        return self.module.machine

    def number(self, value: float) -> str:
        return literal(value, self.dtype, self.lanes).ref

    def whole(self, value: int) -> str:
        return literal(value, self.integer, self.lanes).ref

    def add(self, a: str, b: str) -> str:
        return self.function.op(f"fadd {self.type} {a}, {b}")

    def sub(self, a: str, b: str) -> str:
        return self.function.op(f"fsub {self.type} {a}, {b}")

    def mul(self, a: str, b: str) -> str:
        return self.function.op(f"fmul {self.type} {a}, {b}")

    def div(self, a: str, b: str) -> str:
        return self.function.op(f"fdiv {self.type} {a}, {b}")

    def muladd(self, a: str, b: str, c: str) -> str:
        """a * b + c, fused where the machine can."""
        return self.function.same_type("fmuladd", self.type, a, b, c)

    def neg(self, a: str) -> str:
        return self.function.op(f"fneg {self.type} {a}")

    def abs(self, a: str) -> str:
        return self.function.same_type("fabs", self.type, a)

    def copysign(self, size: str, sign: str) -> str:
        return self.function.same_type("copysign", self.type, size, sign)

    def compare(self, test: str, a: str, b: str) -> str:
        return self.function.op(f"fcmp {test} {self.type} {a}, {b}")

    def select(self, mask: str, a: str, b: str) -> str:
        return self.function.op(f"select {self.mask_type} {mask}, {self.type} {a}, {self.type} {b}")

    def either(self, a: str, b: str) -> str:
        return self.function.op(f"or {self.mask_type} {a}, {b}")

    def each(self, a: str, b: str) -> str:
        return self.function.op(f"and {self.mask_type} {a}, {b}")

    def least(self, bound: float, a: str) -> str:
        """min(bound, a), NaN stays NaN: one machine instruction."""
        limit = self.number(bound)
        return self.select(self.compare("olt", limit, a), limit, a)

    def most(self, bound: float, a: str) -> str:
        """max(bound, a), NaN stays NaN: one machine instruction."""
        limit = self.number(bound)
        return self.select(self.compare("ogt", limit, a), limit, a)

    def bits(self, a: str) -> str:
        return self.function.op(f"bitcast {self.type} {a} to {self.bits_type}")

    def from_bits(self, a: str) -> str:
        return self.function.op(f"bitcast {self.bits_type} {a} to {self.type}")

    def int_op(self, op: str, a: str, b: str) -> str:
        return self.function.op(f"{op} {self.bits_type} {a}, {b}")

    def int_compare(self, test: str, a: str, b: str) -> str:
        return self.function.op(f"icmp {test} {self.bits_type} {a}, {b}")

    def to_float(self, a: str) -> str:
        return self.function.op(f"sitofp {self.bits_type} {a} to {self.type}")

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """Horner's rule; coefficients from the constant upwards."""
        result = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.muladd(result, x, self.number(coefficient))
        return result

    def nearest(self, x: str) -> tuple[str, str]:
        """(x rounded to a whole number, the same as an integer) for |x| < 2**21 (f32) or 2**50 (f64).

        Adding 1.5 * 2**(mantissa bits) leaves the whole number in the low bits.
        """
        magic = self.number(1.5 * 2.0 ** (52 if self.double else 23))
        shifted = self.add(x, magic)
        return self.sub(shifted, magic), self.int_op("sub", self.bits(shifted), self.bits(magic))

    def power_of_two(self, exponent: str) -> str:
        """2**exponent for exponents of normal numbers."""
        bias, shift = (1023, 52) if self.double else (127, 23)
        return self.from_bits(
            self.int_op("shl", self.int_op("add", exponent, self.whole(bias)), self.whole(shift))
        )

    def call(self, name: str, *operands: str) -> str:
        """Another math function of this target, on the same lanes."""
        from tilewright.targets.cpu import intrinsics  # the table of functions, which lists this one too

        target = intrinsics.function(self.module, name, self.element, self.lanes)
        arguments = ", ".join(f"{self.type} {operand}" for operand in operands)
        return self.function.op(f"call {self.type} {target}({arguments})")

    def render(self, name: str, parameters: Sequence[str], result: str) -> str:
        self.function.emit(f"ret {self.type} {result}")
        arguments = ", ".join(f"{self.type} {p}" for p in parameters)
        return self.function.text(f"internal {self.type} @{name}({arguments})", "#1")
