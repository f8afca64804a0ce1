"""The options of every command that compiles, in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.cli.models import artefact_file
from tilewright.config import PRECISIONS, CompileOptions, parts_left_out, usable_cpus
from tilewright.errors import UsageError

Model = Annotated[str, typer.Argument(metavar="MODEL", help="an ONNX file or a zoo name")]
ModelOrArtefact = Annotated[
    str, typer.Argument(metavar="MODEL|FILE.tw", help="an ONNX file, a zoo name or a saved artefact")
]
Json = Annotated[str | None, typer.Option("--json", metavar="FILE|-", help="write JSON; - is stdout alone")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="no progress on stderr")]


def _common(
    target: Annotated[str, typer.Option(metavar="NAME", help="cpu, opencl[:DEVICE] or numpy")] = "cpu",
    machine: Annotated[
        Path | None, typer.Option(metavar="PROFILE", help="compile for the machine of this JSON file")
    ] = None,
    precision: Annotated[
        str, typer.Option(metavar="MODE", help=f"the contract for accuracy: {', '.join(PRECISIONS)}")
    ] = "fp32",
    threads: Annotated[int | None, typer.Option(metavar="N", help="default: all usable CPUs")] = None,
    dim: Annotated[
        list[str] | None, typer.Option("--dim", metavar="NAME=N", help="bind a named dimension; repeat it")
    ] = None,
    opt_level: Annotated[int, typer.Option("-O", metavar="0..3", help="optimisation level")] = 3,
    without: Annotated[str, typer.Option(metavar="A,B,…", help="optimisations to leave out")] = "",
    cache_dir: Annotated[
        Path | None, typer.Option(metavar="D", help="where compiled models are kept")
    ] = None,
    verify_each: Annotated[
        bool, typer.Option("--verify-each", help="check the graph after every pass")
    ] = False,
) -> CompileOptions:
    if threads is not None and threads > usable_cpus():
        raise UsageError(f"--threads {threads}: there are {usable_cpus()} usable CPUs; give at most as many")
    return CompileOptions(
        target=target,
        precision=precision,
        threads=threads,
        level=opt_level,
        without=parts_left_out(without),
        dims=dict(_dimension(text) for text in dim or ()),
        machine=machine,
        cache_dir=cache_dir,
        verify_each=verify_each,
    )


def with_compile_options(
    command: Callable[..., None], for_artefacts: Collection[str] | None = None
) -> Callable[..., None]:
    """Gives a command all common options; it receives them as its parameter `options`.

    for_artefacts: of a command whose `model` may be an artefact, the common options that mean something then;
    others are refused. Typer reads the options of a command from its signature, so the common ones are added
    there.
    """
    own = inspect.signature(command, eval_str=True)
    common = inspect.signature(_common, eval_str=True)
    kept = [parameter for name, parameter in own.parameters.items() if name != "options"]

    @wraps(command)
    def wrapped(context: typer.Context, **values: Any) -> None:
        if for_artefacts is not None:
            _check_artefact(values["model"], context, set(common.parameters) - set(for_artefacts))
        given = {name: values.pop(name) for name in common.parameters}
        command(**values, options=_common(**given))

    parameters = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*kept, *common.parameters.values())
    ]
    own_context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters.append(own_context)
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def _check_artefact(model: str, context: typer.Context, unfit: Collection[str]) -> None:
    """Raise UsageError for options on the command line that cannot change a compiled model any more."""
    if artefact_file(model) is None:
        return
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in unfit and source is not None and source.name != "DEFAULT":
            raise UsageError(
                f"{model} is compiled already: {parameter.opts[0]} is for models; give it to "
                "`tilewright compile`"
            )


def _dimension(text: str) -> tuple[str, int]:
    name, equals, extent = text.rpartition("=")
    if not equals or not name or not extent.isdecimal():
        raise UsageError(f"--dim {text}: expected NAME=N with a number N, e.g. --dim batch=1")
    return name, int(extent)
