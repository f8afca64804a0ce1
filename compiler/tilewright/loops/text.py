"""Loop programs as text. Two kernels with equal text are equal; `loops/parse.py` reads it back."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.dtypes import I64
from tilewright.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from tilewright.loops.ir import Allocate, Block, Buffer, Evaluate, For, If, Kernel, Stmt, Store, While

SYMBOLS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "mod": "%",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
}


def format_kernel(kernel: Kernel) -> str:
    """The kernel's text, ending in a newline."""
    params = ", ".join(
        f"@{role} {_buffer(buffer)}" for buffer, role in zip(kernel.params, kernel.roles, strict=True)
    )
    inplace = "".join(f" inplace({a},{b})" for a, b in kernel.inplace)
    return "\n".join([f"kernel {kernel.name}({params}){inplace} {{", *_lines(kernel.body, "  "), "}", ""])


def _buffer(buffer: Buffer) -> str:
    scope = "" if buffer.scope == "global" else f" in {buffer.scope}"
    return f"{buffer.name}: {buffer.dtype}[{','.join(map(str, buffer.shape))}]{scope}"


def _lines(stmt: Stmt, indent: str) -> Iterator[str]:
    deeper = indent + "  "
    if isinstance(stmt, Block):
        for part in stmt.body:
            yield from _lines(part, indent)
    elif isinstance(stmt, For):
        kind = f"bound({stmt.thread})" if stmt.thread else stmt.kind
        kind += f" tensorized({stmt.intrinsic})" if stmt.intrinsic else ""
        span = f"{format_expr(stmt.start)} .. +{format_expr(stmt.extent)}"
        yield f"{indent}{kind} for {stmt.var.name} in {span} {{"
        yield from _lines(stmt.body, deeper)
        yield indent + "}"
    elif isinstance(stmt, If):
        yield f"{indent}if {format_expr(stmt.condition)} {{"
        yield from _lines(stmt.then, deeper)
        if stmt.orelse is not None:
            yield indent + "} else {"
            yield from _lines(stmt.orelse, deeper)
        yield indent + "}"
    elif isinstance(stmt, While):
        yield f"{indent}while {format_expr(stmt.condition)} {{"
        yield from _lines(stmt.body, deeper)
        yield indent + "}"
    elif isinstance(stmt, Allocate):
        yield f"{indent}alloc {_buffer(stmt.buffer)} {{"
        yield from _lines(stmt.body, deeper)
        yield indent + "}"
    elif isinstance(stmt, Store):
        indices = ", ".join(map(format_expr, stmt.indices))
        yield f"{indent}{stmt.buffer.name}[{indices}] = {format_expr(stmt.value)}"
    elif isinstance(stmt, Evaluate):
        yield f"{indent}eval {format_expr(stmt.value)}"


def format_expr(e: Expr) -> str:
    """An expression, fully parenthesised; constants other than i64 carry their type."""
    if isinstance(e, Const):
        return str(e.value) if e.dtype == I64 else f"{e.value}:{e.dtype}"
    if isinstance(e, Var):
        return e.name if e.dtype == I64 else f"{e.name}:{e.dtype}"
    if isinstance(e, Binary):
        if e.op in SYMBOLS:
            return f"({format_expr(e.a)} {SYMBOLS[e.op]} {format_expr(e.b)})"
        return f"{e.op}({format_expr(e.a)}, {format_expr(e.b)})"
    if isinstance(e, Read):
        return f"{e.source.name}[{', '.join(map(format_expr, e.indices))}]"
    if isinstance(e, Call):
        return f"{e.name}:{e.dtype}({', '.join(map(format_expr, e.args))})"
    if isinstance(e, Select):
        return f"select({format_expr(e.condition)}, {format_expr(e.a)}, {format_expr(e.b)})"
    if isinstance(e, Cast):
        return f"cast:{e.dtype}({format_expr(e.a)})"
    raise TypeError(f"no text for {type(e).__name__}")
