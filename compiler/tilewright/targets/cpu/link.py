"""A linker for one purpose: many x86-64 objects into one flat image that runs wherever it is mapped.

All references inside the image are relative to the instruction, so nothing is patched at load time. Code
cannot name anything outside: what it needs from the process arrives as pointers in `env`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.errors import CodegenError
from tilewright.targets.cpu.elf import ElfObject, Relocation, read_object

_PC32, _PLT32, _GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX, _PC64 = 2, 4, 9, 41, 42, 24
_RELATIVE = (_PC32, _PLT32)
_INDIRECT = (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX)


@dataclass(frozen=True)
class Part:
    """An object, and what its symbols are called in the image: {symbol in the object: name in the image}."""

    data: bytes
    exports: Mapping[str, str]


@dataclass(frozen=True)
class Image:
    """data: to be mapped readable and executable, page-aligned; symbols: byte offsets of exported names."""

    data: bytes
    symbols: Mapping[str, int]


def link(parts: list[Part], header_bytes: int = 0) -> Image:
    """Code, then constants, after `header_bytes` zeros. Raises CodegenError naming unresolved symbols."""
    objects = [read_object(part.data) for part in parts]
    image, places = _layout(objects, header_bytes)
    symbols = _exported(parts, objects, places)
    missing = sorted(set(_undefined(objects)) - set(symbols))
    if missing:
        raise CodegenError(f"generated code calls {', '.join(missing)}, which an image cannot reach")
    for index, obj in enumerate(objects):
        for relocation in obj.relocations:
            _relocate(image, places, symbols, index, obj, relocation)
    return Image(bytes(image), symbols)


def _layout(objects: list[ElfObject], header_bytes: int) -> tuple[bytearray, dict[tuple[int, int], int]]:
    """The image without relocations, and the offset of each (object, section)."""
    image = bytearray(header_bytes)
    places: dict[tuple[int, int], int] = {}
    order = [(i, n, s) for i, obj in enumerate(objects) for n, s in obj.sections.items()]
    for index, number, section in sorted(order, key=lambda item: not item[2].executable):
        if section.name.startswith((".data", ".bss", ".tdata", ".tbss")) and section.data:
            raise CodegenError(f"generated code has writable data in section {section.name}")
        image += bytes(-len(image) % section.alignment)
        places[index, number] = len(image)
        image += section.data
    return image, places


def _exported(
    parts: list[Part], objects: list[ElfObject], places: Mapping[tuple[int, int], int]
) -> dict[str, int]:
    symbols: dict[str, int] = {}
    for index, (part, obj) in enumerate(zip(parts, objects, strict=True)):
        for symbol in obj.symbols:
            name = part.exports.get(symbol.name)
            if name is None or symbol.section is None:
                continue
            if name in symbols:
                raise CodegenError(f"two objects define '{name}'")
            symbols[name] = places[index, symbol.section] + symbol.value
    return symbols


def _undefined(objects: list[ElfObject]) -> Iterator[str]:
    for obj in objects:
        for relocation in obj.relocations:
            symbol = obj.symbols[relocation.symbol]
            if symbol.section is None:
                yield symbol.name


def _relocate(
    image: bytearray,
    places: Mapping[tuple[int, int], int],
    symbols: Mapping[str, int],
    index: int,
    obj: ElfObject,
    relocation: Relocation,
) -> None:
    symbol = obj.symbols[relocation.symbol]
    if symbol.section is None:
        target = symbols[symbol.name]
    else:
        target = places[index, symbol.section] + symbol.value
    place = places[index, relocation.section] + relocation.offset
    value = target + relocation.addend - place
    if relocation.kind in _RELATIVE:
        struct.pack_into("<i", image, place, value)
    elif relocation.kind == _PC64:
        struct.pack_into("<q", image, place, value)
    elif relocation.kind in _INDIRECT:
        _relax(image, place)
        struct.pack_into("<i", image, place, value)
    else:
        raise CodegenError(
            f"relocation type {relocation.kind} cannot be resolved in a position-independent image"
        )


def _relax(image: bytearray, place: int) -> None:
    """A load of an address from a table, `mov sym@GOTPCREL(%rip), reg`, becomes `lea sym(%rip), reg`."""
    if image[place - 2] == 0x8B:
        image[place - 2] = 0x8D
    elif image[place - 2 : place] == b"\xff\x15":  # call *sym@GOTPCREL(%rip) -> addr32 call sym
        image[place - 2 : place] = b"\x67\xe8"
    else:
        raise CodegenError("a reference through an address table cannot be made direct")
