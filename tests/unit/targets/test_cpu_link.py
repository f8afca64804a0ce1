"""Objects into one image: what is refused, and that nothing outside is needed."""

from __future__ import annotations

import platform

import pytest

from tilewright.errors import CodegenError
from tilewright.machine import Machine
from tilewright.targets.cpu.detect import from_features
from tilewright.targets.cpu.link import Part, link
from tilewright.targets.cpu.objects import compile_text

MACHINE = from_features("plain", frozenset({"sse", "sse2"}))
ADD = "define i64 @f(i64 %a) { %r = add i64 %a, 41\n ret i64 %r }"
CALL = """declare i64 @g(i64)
define i64 @h(i64 %a) { %r = call i64 @g(i64 %a)\n %s = mul i64 %r, 2\n ret i64 %s }"""
TABLE = """@t = private constant [4 x double] [double 1.0, double 2.0, double 3.0, double 4.0], align 32
define double @f(i64 %i) {
  %p = getelementptr double, ptr @t, i64 %i
  %v = load double, ptr %p
  ret double %v
}"""


def compiled(text: str) -> bytes:
    return compile_text(f'target triple = "{MACHINE.triple}"\n{text}', MACHINE)


def test_calls_between_objects_are_resolved_by_exported_names() -> None:
    image = link([Part(compiled(CALL), {"h": "h"}), Part(compiled(ADD), {"f": "g"})], 64)
    assert set(image.symbols) == {"h", "g"}
    assert all(64 <= offset < len(image.data) for offset in image.symbols.values())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the image is x86-64 code")
def test_linked_code_runs_wherever_it_is_mapped() -> None:
    import ctypes
    import mmap

    image = link(
        [Part(compiled(CALL), {"h": "h"}), Part(compiled(ADD), {"f": "g"}), Part(compiled(TABLE), {"f": "t"})]
    )
    memory = mmap.mmap(-1, len(image.data), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory[:] = image.data
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    h = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address + image.symbols["h"])
    table = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(address + image.symbols["t"])
    assert h(1) == 84
    assert [table(n) for n in range(4)] == [1.0, 2.0, 3.0, 4.0]


def test_unresolved_symbols_are_all_named() -> None:
    other = CALL.replace("@g", "@memcpy").replace("@h", "@k")
    with pytest.raises(CodegenError, match="calls g, memcpy, which an image cannot reach"):
        link([Part(compiled(CALL), {"h": "h"}), Part(compiled(other), {"k": "k"})])


def test_two_definitions_of_a_name_are_refused() -> None:
    part = Part(compiled(ADD), {"f": "f"})
    with pytest.raises(CodegenError, match="two objects define 'f'"):
        link([part, part])


def test_writable_data_is_refused() -> None:
    text = "@state = global i64 7\ndefine ptr @f() { store i64 8, ptr @state\n ret ptr @state }"
    with pytest.raises(CodegenError, match=r"writable data in section \.data"):
        link([Part(compiled(text), {"f": "f"})])


def test_foreign_and_damaged_objects_are_refused() -> None:
    arm = Machine("arm", "aarch64-unknown-linux-gnu")
    text = ADD.replace("define", f'target triple = "{arm.triple}"\ndefine')
    with pytest.raises(CodegenError, match="only x86-64"):
        link([Part(compile_text(text, arm), {"f": "f"})])
    with pytest.raises(CodegenError, match=r"only x86-64|malformed"):
        link([Part(b"nonsense" * 20, {"f": "f"})])
    with pytest.raises(CodegenError, match="malformed"):
        link([Part(compiled(ADD)[:90], {"f": "f"})])


def test_llvm_errors_come_with_its_message() -> None:
    with pytest.raises(CodegenError, match="LLVM refuses the generated code"):
        compile_text("define i32 @f() { ret i32 %missing }", MACHINE)
    with pytest.raises(CodegenError, match="no code generator for 'vax-dec-vms'"):
        compile_text(ADD, Machine("vax", "vax-dec-vms"))
