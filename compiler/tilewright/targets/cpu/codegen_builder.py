"""Writing LLVM text: a module that collects functions, and functions with places to hoist code to.

Every loop body starts with an open place, its head. Index arithmetic goes to the head of the innermost loop
it depends on, so that the inner loops stay free of it without any help from the optimiser.

Inside a basic block equal instructions are written once, and variables of registers are not read back: the
optimiser would find out, but the text of unrolled loops would be several times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilewright.errors import CodegenError
from tilewright.machine import Machine
from tilewright.targets.cpu.codegen_types import suffix
from tilewright.targets.cpu.tile_file import TileFile

Lines = list["str | Lines"]

# Instructions whose result depends on their operands alone.
_PURE = frozenset(
    (
        *("add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr", "icmp", "fcmp", "select"),
        *("fadd", "fsub", "fmul", "fdiv", "fneg", "getelementptr", "bitcast", "trunc", "zext", "sext"),
        *("fptrunc", "fpext", "sitofp", "uitofp", "insertelement", "extractelement", "shufflevector"),
    )
)


@dataclass
class Module:
    """An LLVM module in the making for one machine."""

    machine: Machine
    functions: list[str] = field(default_factory=list)
    globals: list[str] = field(default_factory=list)
    declarations: dict[str, str] = field(default_factory=dict)
    helpers: dict[str, str] = field(default_factory=dict)

    def intrinsic(self, name: str, result: str, arguments: Sequence[str]) -> str:
        """`@name`, declared once. name is complete, with its type suffix."""
        self.declarations.setdefault(name, f"declare {result} @{name}({', '.join(arguments)})")
        return f"@{name}"

    def helper(self, name: str, write: Callable[[], str]) -> str:
        """`@name`, a function of our own that `write` renders when it is first asked for."""
        if name not in self.helpers:
            self.helpers[name] = ""  # a helper that asks for itself would otherwise never end
            self.helpers[name] = write()
        return f"@{name}"

    def text(self) -> str:
        parts = [
            f'target triple = "{self.machine.triple}"',
            *self.globals,
            *self.functions,
            *self.helpers.values(),
            *self.declarations.values(),
            # without "stackrealign" LLVM spills vectors to slots that cross cache lines
            'attributes #0 = { nounwind "no-builtins" "frame-pointer"="none" "stackrealign" }',
            'attributes #1 = { nounwind alwaysinline "no-builtins" }',
        ]
        return "\n".join(parts) + "\n"


@dataclass
class Scope:
    """A place for hoisted code, with what was computed there. depth: 0 for the function's entry."""

    depth: int
    head: Lines
    known: dict[object, str] = field(default_factory=dict)


@dataclass
class Slot:
    """What a variable of registers holds at this point of a basic block.

    stored: the line that stored it, which goes when the variable is overwritten before it is read back.
    """

    type: str
    ref: str
    stored: Lines


class Function:
    """The body of one function, written line by line.

    `block` is the label of the basic block being written; `numbers` the instructions and `slots` the
    variables known in it. `tile_starts`: places before which no tile is configured.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.allocas: Lines = []
        self.lines: Lines = [self.allocas]
        self.body = self.lines  # `lines` may stand for a head meanwhile
        self.numbers: dict[str, str] = {}
        self.slots: dict[str, Slot] = {}
        self.block = "entry"
        self.count = 0
        head: Lines = []
        self.lines.append(head)
        self.scopes = [Scope(0, head)]
        self.tiles = TileFile()
        self.tile_starts: list[Lines] = []
        self.start_tiles()

    def fresh(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def emit(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def op(self, text: str, constant: bool = False) -> str:
        """Writes `%new = text` and returns %new, or what the block has for the same instruction.

        constant: it reads memory that nothing writes to.
        """
        numbered = self.lines is self.body and (constant or text.split(" ", 1)[0] in _PURE)
        if numbered and text in self.numbers:
            return self.numbers[text]
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        if numbered:
            self.numbers[text] = name
        return name

    def load_slot(self, type_text: str, slot: str) -> str:
        """The value of a variable of registers."""
        known = self.slots.get(slot)
        if known is not None and known.type == type_text:
            return known.ref
        ref = self.op(f"load {type_text}, ptr {slot}, align 1")
        self.slots[slot] = Slot(type_text, ref, [])
        return ref

    def store_slot(self, type_text: str, ref: str, slot: str) -> None:
        """Overwrites a variable of registers; what was stored in the same block is never read back."""
        if slot in self.slots:
            self.slots[slot].stored.clear()
        line: Lines = [f"  store {type_text} {ref}, ptr {slot}, align 1"]
        self.lines.append(line)
        self.slots[slot] = Slot(type_text, ref, line)

    def hoisted(self, depth: int, key: object, text: Callable[[], str]) -> str:
        """The result of an instruction without side effects, written once at the head of the scope."""
        scope = self.scopes[depth]
        if key not in scope.known:
            rendered = text()
            name = f"%{self.fresh('h')}"
            scope.head.append(f"  {name} = {rendered}")
            scope.known[key] = name
        return scope.known[key]

    def call(
        self,
        name: str,
        result: str,
        arguments: Sequence[tuple[str, str]],
        flags: str = "",
        constant: bool = False,
    ) -> str:
        """A call of an LLVM intrinsic; arguments are (type, operand)."""
        target = self.module.intrinsic(name, result, [t for t, _ in arguments])
        given = ", ".join(f"{t} {v}" for t, v in arguments)
        return self.op(f"call {flags}{result} {target}({given})", constant)

    def same_type(self, name: str, type_text: str, *operands: str, flags: str = "") -> str:
        """A call of an intrinsic whose result and operands share one type, which is its suffix."""
        return self.call(
            f"llvm.{name}.{suffix(type_text)}", type_text, [(type_text, o) for o in operands], flags
        )

    def resized(self, type_text: str, ref: str, lanes: int, wanted: int) -> str:
        """The first lanes of a vector of `lanes` elements, or all of them and more of no meaning."""
        if lanes == wanted:
            return ref
        order = ", ".join(f"i32 {lane}" if lane < lanes else "i32 poison" for lane in range(wanted))
        return self.op(f"shufflevector {type_text} {ref}, {type_text} poison, <{wanted} x i32> <{order}>")

    def alloca(self, type_text: str, count: int = 1) -> str:
        name = f"%{self.fresh('m')}"
        self.allocas.append(f"  {name} = alloca {type_text}, i64 {count}, align 64")
        return name

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name
        self.numbers.clear()
        self.slots.clear()
        self.tiles.forget()

    def start_tiles(self) -> None:
        """A place to configure tiles at, should the function use any."""
        place: Lines = []
        self.lines.append(place)
        self.tile_starts.append(place)

    def branch(self, target: str) -> None:
        self.emit(f"br label %{target}")

    def branch_if(self, condition: str, then: str, orelse: str) -> None:
        self.emit(f"br i1 {condition}, label %{then}, label %{orelse}")

    def push_scope(self) -> Scope:
        head: Lines = []
        self.lines.append(head)
        scope = Scope(len(self.scopes), head)
        self.scopes.append(scope)
        return scope

    def pop_scope(self) -> None:
        self.scopes.pop()

    def text(self, header: str, attributes: str = "#0") -> str:
        if len(self.scopes) != 1:
            raise CodegenError(f"{header}: {len(self.scopes) - 1} scopes were left open")
        return "\n".join([f"define {header} {attributes} {{", "entry:", *_flat(self.lines), "}"])


def _flat(lines: Lines) -> list[str]:
    result: list[str] = []
    for line in lines:
        if isinstance(line, str):
            result.append(line)
        else:
            result += _flat(line)
    return result
