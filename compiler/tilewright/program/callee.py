"""A kernel as a program knows it: signature and amount of work. Its loops are text until somebody asks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

from tilewright.loops.ir import Buffer, Kernel, Role
from tilewright.loops.parse import parse_kernel, parse_signature
from tilewright.loops.text import format_kernel
from tilewright.program.count import Work, count_work


@dataclass(frozen=True)
class Callee:
    """name, params, roles, inplace: as in `loops.ir.Kernel`; text: the kernel as `loops/text.py` writes it.

    work: operations of one call; code: what the target made of this kernel alone, empty
    when it made nothing yet.
    """

    name: str
    params: tuple[Buffer, ...]
    roles: tuple[Role, ...]
    inplace: tuple[tuple[int, int], ...]
    text: str
    work: Work
    code: bytes = b""

    @staticmethod
    def of(kernel: Kernel) -> Callee:
        text, work = format_kernel(kernel), count_work(kernel.body)
        callee = Callee(kernel.name, kernel.params, kernel.roles, kernel.inplace, text, work)
        callee.__dict__["kernel"] = kernel  # known already: nothing to read
        return callee

    @staticmethod
    def named_by_loops(kernel: Kernel) -> Callee:
        """As `of`, the name followed by a part of the digest: other loops, another name."""
        plain = Callee.of(kernel)
        name = f"{kernel.name}_{plain.digest[:12]}"
        callee = replace(plain, name=name, text=f"kernel {name}({plain.text.partition('(')[2]}")
        callee.__dict__.update(kernel=replace(kernel, name=name), digest=plain.digest)
        return callee

    @staticmethod
    def from_text(text: str, work: Work) -> Callee:
        """Reads the signature only. Raises ParseError when there is none."""
        head = parse_signature(text)
        return Callee(head.name, head.params, head.roles, head.inplace, text, work)

    @cached_property
    def kernel(self) -> Kernel:
        """The loop program. Raises ParseError when the text is none."""
        return parse_kernel(self.text)

    @cached_property
    def digest(self) -> str:
        """Of the text without the name: equal for kernels that differ in their names alone."""
        return sha256(self.text.partition("(")[2].encode()).hexdigest()
