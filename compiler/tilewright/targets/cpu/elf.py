"""Reading ELF64 relocatable objects for x86-64.

Sections, symbols and relocations, as far as generated code has them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tilewright.errors import CodegenError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_MAGIC = b"\x7fELF\x02\x01\x01"
_RELOCATABLE, _X86_64 = 1, 62
_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_ALLOC, _EXEC = 2, 4
_SECTION_SYMBOL = 3


@dataclass(frozen=True)
class Section:
    """A section that becomes part of the image."""

    name: str
    data: bytes
    alignment: int
    executable: bool


@dataclass(frozen=True)
class Symbol:
    """section: None when the symbol is not defined in this object."""

    name: str
    section: int | None
    value: int


@dataclass(frozen=True)
class Relocation:
    """A place in a section that the address of a symbol goes into."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True)
class ElfObject:
    """sections: by their number in the file."""

    sections: dict[int, Section]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]


def read_object(data: bytes) -> ElfObject:
    """Raises CodegenError when this is no x86-64 object."""
    try:
        return _read(data)
    except (struct.error, IndexError, ValueError) as error:
        raise CodegenError(f"malformed object file: {error}") from error


def _read(data: bytes) -> ElfObject:
    identity, kind, machine, *_rest = _HEADER.unpack_from(data)
    if not identity.startswith(_MAGIC) or kind != _RELOCATABLE or machine != _X86_64:
        raise CodegenError("only x86-64 ELF objects can be linked to an image; choose an x86-64 machine")
    table, entry, count, names = _rest[3], _rest[8], _rest[9], _rest[10]
    headers = [_SECTION.unpack_from(data, table + i * entry) for i in range(count)]
    strings = headers[names][4]
    sections = {
        i: Section(
            _string(data, strings + h[0]),
            bytes(h[5]) if h[1] == _NOBITS else data[h[4] : h[4] + h[5]],
            max(h[8], 1),
            bool(h[2] & _EXEC),
        )
        for i, h in enumerate(headers)
        if h[2] & _ALLOC and not _string(data, strings + h[0]).startswith((".eh_frame", ".note"))
    }
    symbols: tuple[Symbol, ...] = ()
    relocations: list[Relocation] = []
    for h in headers:
        if h[1] == _SYMTAB:
            symbols = _symbols(data, h, headers)
        elif h[1] == _RELA and h[7] in sections:
            relocations += _relocations(data, h)
    return ElfObject(sections, symbols, tuple(relocations))


def _string(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()


def _symbols(data: bytes, header: tuple[int, ...], headers: list[tuple[int, ...]]) -> tuple[Symbol, ...]:
    strings = headers[header[6]][4]
    found = []
    for offset in range(header[4], header[4] + header[5], _SYMBOL.size):
        name, info, _other, section, value, _size = _SYMBOL.unpack_from(data, offset)
        defined = 0 < section < 0xFF00
        text = "" if info & 15 == _SECTION_SYMBOL else _string(data, strings + name)
        found.append(Symbol(text, section if defined else None, value))
    return tuple(found)


def _relocations(data: bytes, header: tuple[int, ...]) -> list[Relocation]:
    found = []
    for offset in range(header[4], header[4] + header[5], _RELOCATION.size):
        place, info, addend = _RELOCATION.unpack_from(data, offset)
        found.append(Relocation(header[7], place, info & 0xFFFFFFFF, info >> 32, addend))
    return found
