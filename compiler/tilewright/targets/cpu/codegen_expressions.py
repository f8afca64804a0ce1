"""Code for expressions.

One evaluation shares equal sub-expressions, so that a value used twice is computed once.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.dtypes import BF16, BOOL, F32, I64
from tilewright.errors import CodegenError
from tilewright.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var, children
from tilewright.faults import INDEX, NOTHING, fault_of
from tilewright.targets.cpu import codegen_arithmetic as arithmetic
from tilewright.targets.cpu import codegen_casts as casts
from tilewright.targets.cpu import codegen_memory as memory
from tilewright.targets.cpu import intrinsics
from tilewright.targets.cpu.codegen_address import scalar_index
from tilewright.targets.cpu.codegen_context import Context
from tilewright.targets.cpu.codegen_types import Value, literal, suffix
from tilewright.targets.cpu.device import ENV_FAULT

# what a branch of a Select remembers must not leak out of it: the outer layers are searched, the last one is
# filled
# (the expression is kept beside its value: identities of dead objects are used again)
Memo = list[dict[int, tuple[Expr, Value]]]


def evaluate(context: Context, e: Expr) -> Value:
    """The value of an expression: a scalar, or a vector where lanes differ."""
    return _Evaluation([{}]).value(context, e)


class _Evaluation:
    """One statement's expressions; values are remembered by identity of the expression object."""

    def __init__(self, memo: Memo) -> None:
        self.memo = memo

    def value(self, context: Context, e: Expr) -> Value:
        for layer in self.memo:
            if id(e) in layer:
                return layer[id(e)][1]
        result = self._compute(context, e)
        self.memo[-1][id(e)] = (e, result)
        return result

    def _compute(self, context: Context, e: Expr) -> Value:
        if isinstance(e, Const):
            return literal(e.value, e.dtype)
        if isinstance(e, Var):
            return self._variable(context, e)
        if isinstance(e, Read):
            return memory.load(context, e.source, e.indices, self.value)
        if isinstance(e, Binary):
            return self._binary(context, e)
        if isinstance(e, Select):
            return self._select(context, e)
        if isinstance(e, Cast):
            return self._cast(context, e)
        if isinstance(e, Call):
            arguments = [self.value(context, a) for a in e.args]
            if e.name == "within":
                return within(context, *arguments)
            if e.name == "report":
                return report(context, *arguments)
            return intrinsics.call(context.function, e.name, arguments, e.dtype)
        raise CodegenError(f"expression {e} has no code")

    def _variable(self, context: Context, e: Var) -> Value:
        if not context.is_lane(e):
            return context.binding(e.name).value
        assert context.vector is not None
        lanes = ", ".join(f"i64 {lane}" for lane in range(context.vector.lanes))
        return Value(f"<{lanes}>", I64, context.vector.lanes)

    def _cast(self, context: Context, e: Cast) -> Value:
        if e.dtype == BF16 and isinstance(e.a, Call) and e.a.name == "flush":
            narrow = casts.flushed_to_bf16(context.function, self.value(context, e.a.args[0]))
            if narrow is not None:
                return narrow
        value = self.value(context, e.a)
        exact = isinstance(e.a, Read) and e.a.dtype.bits == 16 and e.a.dtype.is_float
        if exact and e.dtype.is_float:  # nothing to round: the value comes from memory
            value = replace(value, dtype=F32)
        return casts.cast(context.function, value, e.dtype)

    def _binary(self, context: Context, e: Binary) -> Value:
        if e.a.dtype in (I64, BOOL) and context.depth(e) is not None:
            return Value(scalar_index(context, e), e.dtype)
        if e.op == "add" and e.dtype.is_float:
            fused = self._multiply_add(context, e)
            if fused is not None:
                return fused
        return arithmetic.binary(context.function, e.op, self.value(context, e.a), self.value(context, e.b))

    def _multiply_add(self, context: Context, e: Binary) -> Value | None:
        """a + b * c as one operation, which the machine fuses when it can."""
        product, other = (e.b, e.a) if _is_product(e.b) else (e.a, e.b)
        if not isinstance(product, Binary) or not _is_product(product):
            return None
        if any(id(product) in layer for layer in self.memo):
            return None
        parts = [self.value(context, part) for part in (product.a, product.b, other)]
        return intrinsics.multiply_add(context.function, *parts)

    def _select(self, context: Context, e: Select) -> Value:
        condition = self.value(context, e.condition)
        if not (_reads(e.a) or _reads(e.b)):
            a, b = self.value(context, e.a), self.value(context, e.b)
            return arithmetic.choose(context.function, condition, a, b)
        if condition.lanes:
            return self._select_by_lane(context, e, condition)
        return self._select_by_branch(context, e, condition)

    def _select_by_lane(self, context: Context, e: Select, condition: Value) -> Value:
        """Both sides are computed, each with only its lanes active."""
        function = context.function
        a = self._side(replace(context, mask=both(context, condition)), e.a)
        inverse = Value(function.op(f"xor {condition}, splat (i1 true)"), BOOL, condition.lanes)
        b = self._side(replace(context, mask=both(context, inverse)), e.b)
        return arithmetic.choose(function, condition, a, b)

    def _side(self, context: Context, e: Expr) -> Value:
        return _Evaluation([*self.memo, {}]).value(context, e)

    def _select_by_branch(self, context: Context, e: Select, condition: Value) -> Value:
        function = context.function
        then, orelse, join = (function.fresh(stem) for stem in ("then", "else", "join"))
        lanes = context.vector.lanes if context.vector and (context.varies(e.a) or context.varies(e.b)) else 0
        function.branch_if(condition.ref, then, orelse)
        function.label(then)
        a = self._wide_side(context, e.a, lanes)
        a_block = function.block
        function.branch(join)
        function.label(orelse)
        b = self._wide_side(context, e.b, lanes)
        b_block = function.block
        function.branch(join)
        function.label(join)
        phi = function.op(f"phi {a.type} [ {a.ref}, %{a_block} ], [ {b.ref}, %{b_block} ]")
        return Value(phi, e.dtype, a.lanes)

    def _wide_side(self, context: Context, e: Expr, lanes: int) -> Value:
        value = self._side(context, e)
        return arithmetic.widen(context.function, value, lanes) if lanes else value


def within(context: Context, position: Value, extent: Value) -> Value:
    """The position, limited to [0, extent). One outside is a fault, which env tells to the caller."""
    function = context.function
    zero, one = (literal(number, I64) for number in (0, 1))
    last = arithmetic.binary(function, "sub", extent, one)
    limited = arithmetic.binary(function, "min", position, last)
    limited = arithmetic.binary(function, "max", limited, zero)
    outside = arithmetic.binary(function, "ne", position, limited)
    if outside.lanes:
        outside = both(context, outside)
        name = f"llvm.vector.reduce.or.{suffix(outside.type)}"
        outside = Value(function.call(name, "i1", [(outside.type, outside.ref)]), BOOL)
    _fault(context, outside, str(fault_of(context.fault, INDEX)))
    return limited


def report(context: Context, reason: Value) -> Value:
    """The reason as it is; one other than that nothing is wrong is a fault, which env tells to the caller."""
    function = context.function
    wrong = arithmetic.binary(function, "ne", reason, literal(NOTHING, I64))
    numbered = function.op(f"mul i64 {reason.ref}, {fault_of(0, 1)}")
    _fault(context, wrong, function.op(f"add i64 {numbered}, {context.fault}"))
    return reason


def _fault(context: Context, condition: Value, number: str) -> None:
    """Where the condition holds, env gets the number."""
    function = context.function
    meet, done = function.fresh("fault"), function.fresh("sound")
    function.branch_if(condition.ref, meet, done)
    function.label(meet)
    slot = function.op(f"getelementptr i8, ptr %env, i64 {8 * ENV_FAULT}")
    function.emit(f"store i64 {number}, ptr {slot}, align 8")
    function.branch(done)
    function.label(done)


def both(context: Context, condition: Value) -> Value:
    """The lanes that are active and fulfil the condition."""
    if context.mask is None:
        return condition
    return arithmetic.binary(context.function, "and", context.mask, condition)


def _is_product(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op == "mul"


def _reads(e: Expr) -> bool:
    return isinstance(e, Read) or any(_reads(part) for part in children(e))
