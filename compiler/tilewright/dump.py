"""The text of every stage of a compilation, for people who look for what went wrong."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from tilewright.errors import UsageError
from tilewright.files import naming
from tilewright.graph.ir import Function, Module
from tilewright.graph.text import print_function, write_text
from tilewright.program.ir import Program
from tilewright.program.plan import Plan
from tilewright.program.text import print_program


class Dump:
    """Writes numbered files into a folder; without one it does nothing.

    `00-read.tw.txt` comes with its constants and can be given to `tilewright opt`; later ones name theirs
    by sha256 only.
    """

    def __init__(self, folder: Path | None) -> None:
        """Raises UsageError when the folder cannot be made."""
        self._folder = folder
        self._count = 0
        if folder is None:
            return
        try:
            (folder / "kernels").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--dump-dir {folder} cannot be made: {error.strerror}") from error

    def graph(self, stage: str, function: Function) -> None:
        if self._folder is None:
            return
        path = self._next(f"{stage}.tw.txt")
        if self._count == 1:
            write_text(Module({function.name: function}, function.name), path)
        else:
            _write(path, print_function(function))

    def program(self, stage: str, program: Program) -> None:
        if self._folder is None:
            return
        _write(self._next(f"{stage}.program.txt"), print_program(program))
        for name, kernel in program.kernels.items():
            _write(self._folder / "kernels" / f"{_file_name(name)}.txt", kernel.text)

    def planned(self, program: Program, plan: Plan) -> None:
        """The program as it is assembled, with its memory plan."""
        if self._folder is None:
            return
        self.program("planned", program)
        _write(self._folder / "plan.json", json.dumps(asdict(plan), indent=2))

    def _next(self, name: str) -> Path:
        assert self._folder is not None
        self._count += 1
        return self._folder / f"{self._count - 1:02}-{name}"


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with naming(path), ExitStack() as undo:
        undo.callback(draft.unlink, missing_ok=True)  # there only if it was not renamed
        draft.write_text(text)
        os.replace(draft, path)
