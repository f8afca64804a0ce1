"""Scalar expressions -> OpenCL C, one value or the lanes of a vector at a time.

Index arithmetic (i64) is written in `int` wherever ranges prove that it fits. A vector expression that has
no vector form is written lane by lane, so every expression has a translation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilewright.arithmetic import SMALLEST_NORMAL
from tilewright.dtypes import BF16, BOOL, F16, F32, I64, U32, U64, DType
from tilewright.errors import CodegenError
from tilewright.expr import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    Var,
    const,
    free_vars,
    reads_of,
    substitute,
)
from tilewright.faults import INDEX, NOTHING, fault_of
from tilewright.loops.affine import Bounds
from tilewright.loops.ir import Buffer
from tilewright.targets.opencl.c_types import index_literal, literal, value_type
from tilewright.targets.opencl.ranges import fits_int32, step_of

FAULT = "tw_fault"  # the parameter to which kernels report
_INFIX = {"add": "+", "sub": "-", "mul": "*", "xor": "^", "and": "&", "or": "|", "shl": "<<", "shr": ">>"}
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_MATH = {
    "exp": "exp",
    "expm1": "expm1",
    "log": "log",
    "tanh": "tanh",
    "sqrt": "sqrt",
    "erf": "erf",
    "floor": "floor",
    "ceil": "ceil",
    "round": "rint",  # halves to even
    "sin": "sin",
    "cos": "cos",
    "atan": "atan",
    "trunc": "trunc",
    "fmod": "fmod",
    "abs": "fabs",
    "pow": "pow",
}


@dataclass(frozen=True)
class Lane:
    """The variable of a vectorised loop and its number of lanes."""

    name: str
    count: int


@dataclass(frozen=True)
class Home:
    """Where a buffer's elements are.

    form: `memory` (text is a pointer or an array), `scalars` (one variable an element) or `vectors` (one
    vector variable for each index prefix, whose lanes are the last axis).
    fixed: vectors stand alone, not in an array; private: the buffer belongs to one work-item.
    """

    buffer: Buffer
    text: str
    form: str = "memory"
    fixed: bool = True
    private: bool = False


@dataclass
class Scope:
    """What names mean where code is generated: variables' identifiers and ranges, buffers' homes."""

    names: dict[str, str] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=Bounds)
    wide: set[str] = field(default_factory=set)  # variables declared `long`
    homes: dict[str, Home] = field(default_factory=dict)

    def home(self, buffer: Buffer) -> Home:
        if buffer.name not in self.homes:
            raise CodegenError(f"buffer '{buffer.name}' is used outside the allocation that declares it")
        return self.homes[buffer.name]


def flat_index(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """Row-major element number."""
    if len(indices) != len(buffer.shape):
        raise CodegenError(
            f"buffer '{buffer.name}' has rank {len(buffer.shape)} but is used with {len(indices)} indices"
        )
    total: Expr = const(0, I64)
    for index, extent in zip(indices, buffer.shape, strict=True):
        total = total * extent + index
    return total


class Expressions:
    """Translates expressions inside one scope.

    fault: stands for the kernel in what it reports; reports: whether some expression does.
    """

    def __init__(self, scope: Scope, fault: int = 0) -> None:
        self.scope = scope
        self.fault = fault
        self.reports = False

    # -- one value ---------------------------------------------------------------------------------

    def scalar(self, e: Expr) -> str:
        """C text of the value. Raises CodegenError for intrinsics that OpenCL lacks."""
        if isinstance(e, Const):
            return index_literal(int(e.value)) if e.dtype == I64 else literal(e.value, e.dtype)
        if isinstance(e, Var):
            return self._variable(e)
        if isinstance(e, Read):
            return self._read(e)
        if isinstance(e, Select):
            return f"({self.scalar(e.condition)} ? {self.scalar(e.a)} : {self.scalar(e.b)})"
        if isinstance(e, Cast):
            return self._cast(e)
        if isinstance(e, Call):
            return self._call(e)
        if isinstance(e, Binary):
            return self._binary(e)
        raise CodegenError(f"OpenCL has no translation of the expression {type(e).__name__}: {e}")

    def address(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        return self.scalar(flat_index(buffer, indices))

    def _variable(self, e: Var) -> str:
        if e.name not in self.scope.names:
            raise CodegenError(f"variable '{e.name}' is not defined where it is used")
        return self.scope.names[e.name]

    def _read(self, e: Read) -> str:
        home = self.scope.home(e.source)
        if home.form != "memory":
            return self.element(home, e.indices)
        index = self.address(e.source, e.indices)
        return load(home, index)

    def element(self, home: Home, indices: tuple[Expr, ...]) -> str:
        """The variable of one element of a buffer kept in variables; its last index is a constant."""
        if home.form == "scalars":
            return f"{home.text}_{constant(flat_index(home.buffer, indices))}"
        return f"{self.vector_variable(home, indices)}.s{constant(indices[-1]):x}"

    def vector_variable(self, home: Home, indices: tuple[Expr, ...]) -> str:
        """The vector of the elements that share an index prefix."""
        prefix = Buffer(home.buffer.name, home.buffer.dtype, home.buffer.shape[:-1])
        position = flat_index(prefix, indices[:-1])
        if home.fixed:
            return f"{home.text}_{constant(position)}"
        return f"{home.text}[{self.scalar(position)}]"

    def _cast(self, e: Cast) -> str:
        value = self.scalar(e.a)
        if e.dtype == BOOL:
            return f"({value} != 0)"
        if e.dtype in (F16, BF16):
            return f"tw_round_{'half' if e.dtype == F16 else 'bf16'}((float){value})"
        target = value_type(e.dtype)
        if e.a.dtype.is_float and e.dtype.is_integer:
            return f"(({target})tw_to_{_middle(e.dtype)}_{value_type(e.a.dtype)}({value}))"
        return f"(({target}){value})"

    def _call(self, e: Call) -> str:
        values = [self.scalar(a) for a in e.args]
        if e.name == "abs" and not e.dtype.is_float:
            return f"(({value_type(e.dtype)})abs({values[0]}))"
        if e.name == "fmod" and not e.dtype.is_float:
            return f"(({value_type(e.dtype)})tw_rem_{value_type(e.dtype)}({values[0]}, {values[1]}))"
        if e.name in ("within", "report"):
            return self._fault(e, values)
        if e.name == "bitcast":
            return _same_bits(e, values[0])
        if e.name == "isnan":
            return f"({values[0]} != {values[0]})"
        if e.name == "flush":
            normal = f"fabs({values[0]}) < {literal(SMALLEST_NORMAL, e.dtype)}"
            return f"({normal} ? copysign({literal(0, e.dtype)}, {values[0]}) : {values[0]})"
        if e.name == "fma":
            return f"({values[0]} * {values[1]} + {values[2]})"
        if e.name == "rsqrt":
            return f"({literal(1, e.dtype)} / sqrt({values[0]}))"
        if e.name == "popcount":
            return f"popcount({values[0]})"
        if e.name not in _MATH:
            raise CodegenError(f"OpenCL has no code rule for the intrinsic '{e.name}'")
        return f"{_MATH[e.name]}({', '.join(values)})"

    def _fault(self, e: Call, values: Sequence[str]) -> str:
        """What the host finds in the kernel's last parameter when the data are wrong."""
        self.reports = True
        number = fault_of(self.fault, INDEX if e.name == "within" else NOTHING)
        arguments = [*(f"(long){value}" for value in values), FAULT, f"{number}L"]
        return f"tw_{e.name}({', '.join(arguments)})"

    def _binary(self, e: Binary) -> str:
        if e.op in COMPARISONS:
            return f"({self.scalar(e.a)} {_COMPARE[e.op]} {self.scalar(e.b)})"
        if e.dtype == BOOL:
            return self._boolean(e)
        if e.dtype == I64:
            return self._index(e)
        a, b = self.scalar(e.a), self.scalar(e.b)
        if e.dtype.is_float:
            return self._float(e, a, b)
        target = value_type(e.dtype)
        if e.op in ("min", "max"):
            return f"{e.op}(({target}){a}, ({target}){b})"  # the built-in wants one type
        if e.op in ("div", "floordiv", "mod"):
            return f"tw_{e.op}_{target}({a}, {b})"
        if e.op in ("shl", "shr"):
            return _shift(e, a, b)
        if e.op not in _INFIX:
            raise CodegenError(f"OpenCL has no code rule for '{e.op}' on {e.dtype}")
        text = f"({a} {_INFIX[e.op]} {b})"
        return text if e.dtype.bits >= 32 else f"(({target}){text})"  # C widens narrow operands

    def _boolean(self, e: Binary) -> str:
        symbols = {"and": "&&", "or": "||", "xor": "!=", "min": "&&", "max": "||"}
        if e.op not in symbols:
            raise CodegenError(f"OpenCL has no code rule for '{e.op}' on bool")
        return f"({self.scalar(e.a)} {symbols[e.op]} {self.scalar(e.b)})"

    def _float(self, e: Binary, a: str, b: str) -> str:
        if e.op in ("min", "max"):
            return _float_extreme(e, a, b, f"tw_{e.op}_{value_type(e.dtype)}")
        if e.op == "div":
            return f"({a} / {b})"
        if e.op == "pow":
            return f"pow({a}, {b})"
        if e.op in ("floordiv", "mod"):
            return f"tw_{e.op}_{value_type(e.dtype)}({a}, {b})"
        if e.op not in ("add", "sub", "mul"):
            raise CodegenError(f"OpenCL has no code rule for '{e.op}' on {e.dtype}")
        return f"({a} {_INFIX[e.op]} {b})"

    # -- index arithmetic --------------------------------------------------------------------------

    def is_narrow(self, e: Expr) -> bool:
        """Whether an i64 expression is written as an `int`."""
        if isinstance(e, Var):
            return e.name not in self.scope.wide
        if isinstance(e, Select):
            return self.is_narrow(e.a) and self.is_narrow(e.b)
        fits = fits_int32(self.scope.bounds.of(e))
        if isinstance(e, Binary):
            return fits and self.is_narrow(e.a) and self.is_narrow(e.b)
        return fits and isinstance(e, Const)

    def _index(self, e: Binary) -> str:
        narrow = self.is_narrow(e)
        a, b = (self.scalar(x) if narrow else self._wide(x) for x in (e.a, e.b))
        c_type = "int" if narrow else "long"
        if e.op in ("floordiv", "mod"):
            if self.scope.bounds.of(e.a)[0] >= 0 and self.scope.bounds.of(e.b)[0] > 0:
                return f"({a} {'/' if e.op == 'floordiv' else '%'} {b})"
            return f"tw_{e.op}_{c_type}({a}, {b})"
        if e.op in ("min", "max"):
            return f"{e.op}(({c_type}){a}, ({c_type}){b})"
        if e.op == "div":
            return f"tw_div_{c_type}({a}, {b})"
        if e.op in ("shl", "shr"):
            return _shift(e, self._wide(e.a), self._wide(e.b))
        if e.op not in _INFIX:
            raise CodegenError(f"OpenCL has no code rule for '{e.op}' on i64")
        return f"({a} {_INFIX[e.op]} {b})"

    def _wide(self, e: Expr) -> str:
        text = self.scalar(e)
        return f"((long){text})" if self.is_narrow(e) else text

    # -- the lanes of a vector ---------------------------------------------------------------------

    def vector(self, e: Expr, lane: Lane) -> str:
        """C text of all lanes as a `typeN` value (masks aside, N = lane.count)."""
        if lane.name not in free_vars(e):
            return f"(({value_type(e.dtype)}{lane.count})({self.scalar(e)}))"
        text = self._vector_form(e, lane) if e.dtype == F32 else None
        return self._by_lane(e, lane) if text is None else text

    def _vector_form(self, e: Expr, lane: Lane) -> str | None:
        if isinstance(e, Read):
            return self._vector_read(e, lane)
        if isinstance(e, Select):
            return self._vector_select(e, lane)
        if isinstance(e, Call):
            return self._vector_call(e, lane)
        if not isinstance(e, Binary) or e.op not in ("add", "sub", "mul", "div", "min", "max", "pow"):
            return None
        a, b = self.vector(e.a, lane), self.vector(e.b, lane)
        if e.op in ("add", "sub", "mul", "div"):
            return f"({a} {_INFIX.get(e.op, '/')} {b})"
        if e.op == "pow":
            return f"pow({a}, {b})"
        less = "<" if e.op == "min" else ">"
        return f"select({b}, {a}, ({a} {less} {b}) | ({a} != {a}))"

    def _vector_read(self, e: Read, lane: Lane) -> str | None:
        home = self.scope.home(e.source)
        if home.form == "vectors":
            return self.vector_variable(home, e.indices)
        index = flat_index(e.source, e.indices)
        step = step_of(index, lane.name)
        if step == 0:
            first = self.scalar(_at_lane(e, lane, 0))
            return f"(({value_type(e.dtype)}{lane.count})({first}))"
        if step != 1 or home.form != "memory":
            return None
        return f"vload{lane.count}(0, {home.text} + {self.scalar(_at_lane(index, lane, 0))})"

    def _vector_select(self, e: Select, lane: Lane) -> str | None:
        if lane.name not in free_vars(e.condition):
            return f"({self.scalar(e.condition)} ? {self.vector(e.a, lane)} : {self.vector(e.b, lane)})"
        if reads_of(e.a) or reads_of(e.b):
            return None  # only the chosen side may be read
        return f"select({self.vector(e.b, lane)}, {self.vector(e.a, lane)}, {self._mask(e.condition, lane)})"

    def _mask(self, e: Expr, lane: Lane) -> str:
        """An intN that is -1 where the condition holds."""
        if isinstance(e, Binary) and e.op in COMPARISONS and e.a.dtype == F32:
            return f"({self.vector(e.a, lane)} {_COMPARE[e.op]} {self.vector(e.b, lane)})"
        if isinstance(e, Binary) and e.op in ("and", "or"):
            return f"({self._mask(e.a, lane)} {_INFIX[e.op]} {self._mask(e.b, lane)})"
        return self._each(lane, "int", lambda k: f"({self.scalar(_at_lane(e, lane, k))} ? -1 : 0)")

    def _vector_call(self, e: Call, lane: Lane) -> str | None:
        values = [self.vector(a, lane) for a in e.args if a.dtype == F32]
        if len(values) != len(e.args):
            return None
        if e.name == "fma":
            return f"({values[0]} * {values[1]} + {values[2]})"
        if e.name == "rsqrt":
            return f"({literal(1, e.dtype)} / sqrt({values[0]}))"
        return f"{_MATH[e.name]}({', '.join(values)})" if e.name in _MATH else None

    def _by_lane(self, e: Expr, lane: Lane) -> str:
        return self._each(lane, value_type(e.dtype), lambda k: self.scalar(_at_lane(e, lane, k)))

    def _each(self, lane: Lane, c_type: str, text_of: Callable[[int], str]) -> str:
        return f"(({c_type}{lane.count})({', '.join(text_of(k) for k in range(lane.count))}))"


def _middle(dtype: DType) -> str:
    """The C type that real numbers pass on their way to an integer type; see DType.cast."""
    if dtype == U64:
        return "ulong"
    return "long" if dtype.bits == 64 or dtype == U32 else "int"


def _shift(e: Binary, a: str, b: str) -> str:
    """Moved by its width or more, or by a negative number, only the sign is left; C leaves that open."""
    c_type, last = value_type(e.dtype), e.dtype.bits - 1
    inside = f"((ulong){b} <= {last}u)"
    if e.op == "shl":
        return f"({inside} ? ({c_type})({a} << {b}) : ({c_type})0)"
    return (
        f"(({c_type})({a} >> ({inside} ? (int){b} : {last})))"
        if e.dtype.kind == "int"
        else (f"({inside} ? ({c_type})({a} >> {b}) : ({c_type})0)")
    )


def _same_bits(e: Call, value: str) -> str:
    """What memory would hold of a value, read as another type of the same width."""
    source, target = e.args[0].dtype, e.dtype
    if source.bits != target.bits:
        raise CodegenError(f"bitcast from {source} to {target}, which have different widths")
    held = {F16: f"tw_half_bits({value})", BF16: f"tw_bf16_bits({value})", BOOL: f"((uchar){value})"}
    bits = held.get(source, f"(({value_type(source)}){value})")
    raw = {F16: "ushort", BF16: "ushort", BOOL: "uchar"}.get(target, value_type(target))
    same = f"as_{raw}({bits})"
    return {
        F16: f"tw_half_value({same})",
        BF16: f"tw_bf16_value({same})",
        BOOL: f"({same} != 0)",
    }.get(target, same)


def load(home: Home, index: str) -> str:
    """The element of a buffer in memory, as the type that expressions compute in."""
    dtype: DType = home.buffer.dtype
    if dtype == BOOL:
        return f"({home.text}[{index}] != 0)"
    if home.private or dtype not in (F16, BF16):
        return f"{home.text}[{index}]"
    if dtype == F16:
        return f"vload_half({index}, {home.text})"
    return f"tw_bf16_value({home.text}[{index}])"


def constant(e: Expr) -> int:
    """The value of an index that must be known, because the element lives in a variable."""
    if not isinstance(e, Const):
        raise CodegenError(f"an element kept in a register has an index that is not constant: {e}")
    return int(e.value)


def _at_lane(e: Expr, lane: Lane, number: int) -> Expr:
    return substitute(e, {lane.name: const(number, I64)})


def _float_extreme(e: Binary, a: str, b: str, helper: str) -> str:
    """min or max that hands NaN on; beside a constant one comparison is enough."""
    worse = "<" if e.op == "max" else ">"
    if isinstance(e.b, Const) and e.b.value == e.b.value and isinstance(e.a, (Read, Var)):
        return f"(({a} {worse} {b}) ? {b} : {a})"
    return f"{helper}({a}, {b})"
