"""`tilewright compile`."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tilewright.binding import UnboundExecutable
from tilewright.cli.models import model_file
from tilewright.cli.output import byte_text, check_writable, compile_progress, is_device
from tilewright.config import CompileOptions
from tilewright.driver import compile_with
from tilewright.errors import UsageError
from tilewright.runtime.executable import Executable
from tilewright.source import Source


def compile_named(name: str, options: CompileOptions, quiet: bool) -> Executable:
    """The executable of a model by file or zoo name, with progress on stderr."""
    source = Source.of(model_file(name))
    with compile_progress(Path(name).stem, quiet) as progress:
        return compile_with(source, options, progress)


def compile_to_file(
    name: str, output: Path, options: CompileOptions, dump_dir: Path | None, quiet: bool
) -> None:
    """Compiles, saves, and says on stderr how long it took, and whether this machine can run the result.

    Raises UsageError for an unwritable output, and for one that is the model or the profile.
    """
    check_writable(output, Path(name), options.machine)
    if is_device(output):
        raise UsageError(f"{output} is no file, as an artefact is; give the name of one")
    start = time.perf_counter()
    executable = compile_named(name, replace(options, dump_dir=dump_dir), quiet)
    if isinstance(executable, UnboundExecutable):
        executable.require_bound(f"{output} is not written")
    executable.save(output)
    if quiet:
        return
    seconds = time.perf_counter() - start
    size = byte_text(output.stat().st_size)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"{output}: {size}, compiled in {seconds:.2f} s")
    if executable.unrunnable:
        console.print(f"{output} cannot run here: {executable.unrunnable}")
