"""The command `tilewright`: one typer application that every room adds its commands to."""

import sys
from collections.abc import Callable
from importlib.metadata import entry_points

import typer

from tilewright.errors import TilewrightError

app = typer.Typer(
    name="tilewright",
    help="Compile neural networks to generated kernels and measure them against vendor libraries.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def load_commands() -> None:
    """Register the compiler's own commands, then those of every installed room."""
    from tilewright.cli import commands

    commands.register(app)
    for point in sorted(entry_points(group="tilewright.commands"), key=lambda point: point.name):
        register: Callable[[typer.Typer], None] = point.load()
        register(app)


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 a comparison or run failed, 2 bad usage or bad input."""
    load_commands()
    try:
        app()
    except TilewrightError as error:
        print(f"tilewright: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
