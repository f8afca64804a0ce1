"""The compiler's own commands and their options. What they do is imported when they are called."""

# mypy and typer both read these annotations, so they are not postponed.

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import Json, Model, ModelOrArtefact, Quiet, with_compile_options
from tilewright.config import CompileOptions, usable_cpus

cache_app = typer.Typer(help="The folder of compiled models and kernels.", no_args_is_help=True)

CacheDir = Annotated[Path | None, typer.Option(metavar="D", help="another folder than the user's")]


def register(app: typer.Typer) -> None:
    """Add the compiler's commands to the application."""
    app.command("compile")(with_compile_options(compile_model))
    app.command("run")(with_compile_options(run, for_artefacts=("threads", "cache_dir")))
    app.command("inspect")(with_compile_options(inspect, for_artefacts=("cache_dir",)))
    app.command("conformance")(with_compile_options(conformance))
    app.command("opt")(opt)
    app.command("devices")(devices)
    app.command("show-versions")(show_versions)
    app.add_typer(cache_app, name="cache")


def compile_model(
    model: Model,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.tw", help="the artefact to write")],
    options: CompileOptions,
    dump_dir: Annotated[
        Path | None, typer.Option(metavar="D", help="write the text of every stage there")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Compile a model to an artefact that runs without the compiler."""
    from tilewright.cli.compile_command import compile_to_file

    compile_to_file(model, output, options, dump_dir, quiet)


def run(
    model: ModelOrArtefact,
    options: CompileOptions,
    input: Annotated[
        list[str] | None, typer.Option("--input", metavar="NAME=X.npy", help="repeat it; others are seeded")
    ] = None,
    output: Annotated[
        list[str] | None, typer.Option("--output", metavar="NAME", help="an output, or any node of a model")
    ] = None,
    output_dir: Annotated[
        Path | None, typer.Option(metavar="D", help="write each output as NAME.npy")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="T.json", help="write what ran when, for ui.perfetto.dev")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="of the inputs that are not given")] = 0,
    json_to: Json = None,
    quiet: Quiet = False,
) -> None:
    """Run a model once and describe its outputs."""
    from tilewright.cli.run_command import Request, run_model

    request = Request(model, tuple(input or ()), tuple(output or ()), output_dir, trace, seed, json_to, quiet)
    run_model(request, options)


def inspect(
    model: ModelOrArtefact, options: CompileOptions, json_to: Json = None, quiet: Quiet = False
) -> None:
    """Show what a compiled model is: segments, kernels, schedules, storages, memory, flops and bytes."""
    from tilewright.cli.inspect_command import inspect_model

    inspect_model(model, options, json_to, quiet)


def conformance(
    options: CompileOptions,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND", help="node (default), simple, pytorch-converted, pytorch-operator; repeat it"
        ),
    ] = None,
    pattern: Annotated[str, typer.Option("-k", metavar="PATTERN", help="cases whose names match")] = "",
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="processes; default: all CPUs")] = None,
    limit: Annotated[float, typer.Option(min=1, metavar="S", help="seconds that one case may take")] = 60,
    failures: Annotated[bool, typer.Option("--failures", help="list what did not pass, and why")] = False,
    write_docs: Annotated[
        Path | None,
        typer.Option(metavar="OPERATORS.md", help="put the counts into the table of this document"),
    ] = None,
    json_to: Json = None,
    quiet: Quiet = False,
) -> None:
    """Run the public ONNX backend suite and count what passed, failed and was refused."""
    from tilewright.cli.conformance_command import Request, run_conformance

    request = Request(
        kinds=tuple(kind or ()),
        pattern=pattern,
        jobs=jobs or usable_cpus(),
        limit=limit,
        failures=failures,
        docs=write_docs,
        json_to=json_to,
        quiet=quiet,
    )
    run_conformance(request, options)


def opt(
    file: Annotated[Path, typer.Argument(metavar="FILE.tw.txt", help="a graph as text")],
    passes: Annotated[
        str, typer.Option("-p", "--passes", metavar="PASSES", help="e.g. fold{max_bytes=64},fuse")
    ],
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.tw.txt")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="whom passes ask that depend on one")
    ] = None,
    machine: Annotated[
        Path | None, typer.Option(metavar="PROFILE", help="the target's machine; default: this one")
    ] = None,
    precision: Annotated[
        str, typer.Option(metavar="MODE", help="the mode in which the target answers")
    ] = "fp32",
) -> None:
    """Run passes on the text of a graph and print the text of the result."""
    from tilewright.cli.opt_command import optimise_text

    optimise_text(file, passes, output, target, machine, precision)


def devices(
    json_to: Json = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="print this host alone, as --machine takes it")
    ] = False,
) -> None:
    """List the devices of this machine by the name that --target takes."""
    from tilewright.cli.devices_command import show_devices, show_profile

    if profile:
        show_profile(json_to)
    else:
        show_devices(json_to)


def show_versions(json_to: Json = None) -> None:
    """Print the versions of everything that results depend on."""
    from tilewright.cli.versions_command import show

    show(json_to)


@cache_app.command("info")
def cache_info(cache_dir: CacheDir = None, json_to: Json = None) -> None:
    """Show where the caches are and what they hold."""
    from tilewright.cli.cache_command import show_caches

    show_caches(cache_dir, json_to)


@cache_app.command("clear")
def cache_clear(cache_dir: CacheDir = None) -> None:
    """Remove compiled models and kernels; downloaded models and images stay."""
    from tilewright.cli.cache_command import clear_caches

    clear_caches(cache_dir)
