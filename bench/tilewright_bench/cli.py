"""The commands `bench`, `layers`, `accuracy`, `debug` and `engines`: their options. What they do is imported
when they are called.
"""

from pathlib import Path
from typing import Annotated

import typer

Models = Annotated[list[str] | None, typer.Argument(metavar="[MODEL]...", help="ONNX files or zoo names")]
Engines = Annotated[
    list[str] | None,
    typer.Option("--engine", help="name[:target][,key=value…]; repeat it. Default: tilewright:cpu and ort"),
]
Threads = Annotated[int | None, typer.Option(help="threads of every engine (default: all usable CPUs)")]
Precision = Annotated[str, typer.Option(help="fp32, fp32-fast or bf16")]
Dims = Annotated[list[str] | None, typer.Option("--dim", metavar="NAME=N", help="bind a named dimension")]
Level = Annotated[int, typer.Option("-O", min=0, max=3, help="optimisation level of Tilewright")]
Without = Annotated[str, typer.Option(metavar="A,B,…", help="parts of Tilewright to leave out")]
CacheDir = Annotated[Path | None, typer.Option(help="where compiled kernels and partial results are kept")]
Json = Annotated[str | None, typer.Option("--json", metavar="FILE|-", help="write JSON; - is stdout alone")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="no progress on stderr")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="tracebacks of failing engines on stderr")]


def register(app: typer.Typer) -> None:
    """Add this room's commands to the application."""
    app.command("bench")(bench)
    app.command("layers")(layers)
    app.command("accuracy")(accuracy)
    app.command("debug")(debug)
    app.command("engines")(engines)


def bench(
    context: typer.Context,
    models: Models = None,
    suite: Annotated[str | None, typer.Option(help="all models of a suite, e.g. zoo")] = None,
    engine: Engines = None,
    threads: Threads = None,
    precision: Precision = "fp32",
    dim: Dims = None,
    opt_level: Level = 3,
    without: Without = "",
    cache_dir: CacheDir = None,
    duration: Annotated[
        float | None, typer.Option(min=0.1, metavar="S", help="cap per pair of engines, seconds (default 20)")
    ] = None,
    json_to: Json = None,
    csv_to: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="write CSV")] = None,
    md_to: Annotated[Path | None, typer.Option("--md", metavar="FILE", help="write a Markdown table")] = None,
    batch: Annotated[
        str | None, typer.Option(metavar="N[,N…]", help="throughput at these batch sizes, images per second")
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, metavar="N", help="throughput of N runs at a time, --threads each")
    ] = 1,
    selftest: Annotated[bool, typer.Option("--selftest", help="can it tell 5 % from nothing, here?")] = False,
    runs: Annotated[int, typer.Option(min=1, help="self-test: runs of each kind")] = 20,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Time engines side by side: equal threads, interleaved blocks, a verdict with its interval.

    Exit code 1 when a row carries an error, when it was interrupted, or when the self-test fails.
    """
    from tilewright_bench import bench_command as command
    from tilewright_bench.given import given_command
    from tilewright_bench.options import integers, settings_of
    from tilewright_bench.outputs import Outputs

    settings = settings_of(threads, precision, dim or [], opt_level, without, cache_dir, concurrency)
    batches = integers("--batch", batch) if batch else ()
    outputs = Outputs(json_to, csv_to, md_to, quiet, verbose)
    if selftest:
        done = command.run_selftest(models or [], engine or [], settings, threads, runs, duration, outputs)
    else:
        given = given_command(context)
        done = command.run_bench(
            models or [], suite, engine or [], settings, duration, outputs, given, batches
        )
    raise typer.Exit(0 if done else 1)


def layers(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="an ONNX file or a zoo name")],
    engine: Engines = None,
    threads: Threads = None,
    precision: Precision = "fp32",
    dim: Dims = None,
    opt_level: Level = 3,
    without: Without = "",
    cache_dir: CacheDir = None,
    duration: Annotated[
        float | None,
        typer.Option(min=0.1, metavar="S", help="cap per layer and pair of engines, seconds (default 1.5)"),
    ] = None,
    json_to: Json = None,
    csv_to: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="write CSV")] = None,
    md_to: Annotated[Path | None, typer.Option("--md", metavar="FILE", help="write a Markdown table")] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Time a network layer by layer: against what the machine can do, and beside other engines.

    The first engine reports its layers; every engine is timed on each as a model of its own.
    Exit code 1 when an engine failed on a layer or it was interrupted.
    """
    from tilewright_bench.given import given_command
    from tilewright_bench.layers import command
    from tilewright_bench.options import settings_of
    from tilewright_bench.outputs import Outputs

    settings = settings_of(threads, precision, dim or [], opt_level, without, cache_dir)
    outputs = Outputs(json_to, csv_to, md_to, quiet, verbose)
    done = command.run_layers(model, engine or [], settings, duration, outputs, given_command(context))
    raise typer.Exit(0 if done else 1)


def accuracy(
    context: typer.Context,
    models: Models = None,
    dataset: Annotated[
        str, typer.Option(help="a data set's name, or a folder of labelled images")
    ] = "foolbox",
    engine: Engines = None,
    topk: Annotated[str, typer.Option(help="which k to report; top-1 and top-5 are always there")] = "1,5",
    limit: Annotated[int | None, typer.Option(min=1, help="only N images, evenly spread")] = None,
    preprocess: Annotated[
        str | None, typer.Option(metavar="ZOO-NAME", help="use the preprocessing of this zoo model")
    ] = None,
    label_offset: Annotated[
        int | None, typer.Option(help="output index of class 0 (1 when index 0 is a background class)")
    ] = None,
    threads: Threads = None,
    precision: Precision = "fp32",
    dim: Dims = None,
    opt_level: Level = 3,
    without: Without = "",
    cache_dir: CacheDir = None,
    json_to: Json = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Top-k accuracy of engines on the same images, with every image on which they disagree.

    Exit code 1 when an engine failed or it was interrupted; an interrupted run resumes where it stopped.
    """
    from tilewright_bench.accuracy import command
    from tilewright_bench.given import given_command
    from tilewright_bench.options import integers, settings_of
    from tilewright_bench.outputs import Outputs

    settings = settings_of(threads, precision, dim or [], opt_level, without, cache_dir)
    images = command.Images(dataset, integers("--topk", topk), limit, preprocess, label_offset)
    outputs = Outputs(json_to, quiet=quiet, verbose=verbose)
    done = command.run_accuracy(models or [], engine or [], settings, images, outputs, given_command(context))
    raise typer.Exit(0 if done else 1)


def debug(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="an ONNX file or a zoo name")],
    engine: Annotated[
        list[str] | None,
        typer.Option("--engine", help="name[:target][,key=value…], twice. Default: tilewright:cpu and ort"),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=FILE.npy", help="an input; others are seeded"),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(metavar="T", help="relative L2 error above which a tensor diverges")
    ] = 1e-4,
    mode: Annotated[
        str, typer.Option(help="all: every tensor at once; bisect: one at a time, so that kernels stay fused")
    ] = "all",
    output_dir: Annotated[Path, typer.Option(metavar="D", help="where both values of the tensor go")] = Path(
        "."
    ),
    threads: Threads = None,
    precision: Precision = "fp32",
    dim: Dims = None,
    opt_level: Level = 3,
    without: Without = "",
    cache_dir: CacheDir = None,
    json_to: Json = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Find the first tensor on which two engines differ, and save both its values.

    The second engine counts as right. Exit code 1 when a tensor diverges.
    """
    from tilewright_bench.debug import command
    from tilewright_bench.options import DEFAULT_ENGINES, settings_of

    settings = settings_of(threads, precision, dim or [], opt_level, without, cache_dir)
    request = command.Request(
        *(
            model,
            engine or DEFAULT_ENGINES,
            inputs or [],
            tolerance,
            mode,
            output_dir,
            json_to,
            quiet,
            verbose,
        )
    )
    raise typer.Exit(0 if command.run_debug(request, settings) else 1)


def engines(json_to: Json = None) -> None:
    """List the engines: targets, options, whether each can run here, and why not."""
    from tilewright_bench import engines_command

    engines_command.run_engines(json_to)
