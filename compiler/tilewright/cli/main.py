"""The command `tilewright`: one typer application that every room adds its commands to."""

import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points

import typer

from tilewright.cli.system_errors import refusal
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


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code: 0 done, 1 a comparison or run failed, 2 bad usage or bad input."""
    try:
        # without its standalone mode, typer leaves it to us to say in one line what was wrong
        result = app(arguments, standalone_mode=False)
        sys.stdout.flush()
    except TilewrightError as error:
        return _refuse(str(error))
    except OSError as error:
        if message := refusal(error):
            return _refuse(message)
        raise
    except (KeyboardInterrupt, typer.Abort):
        print("tilewright: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
            return 2
        if not hasattr(error, "format_message"):  # not a usage error of typer's: a mistake of ours
            raise
        message = error.format_message().rstrip(".")
        return _refuse(f"{message}; see `tilewright {_command(error)}--help`")
    return result if isinstance(result, int) else 0


def _refuse(message: str) -> int:
    print(f"tilewright: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _command(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    name = getattr(context, "info_name", None) if getattr(context, "parent", None) else None
    return f"{name} " if name else ""


def main() -> None:
    """Entry point of the console script."""
    load_commands()
    code = run()
    try:
        sys.stdout.flush()
    except OSError:  # `run` has said so; Python would write what is left once more when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


if __name__ == "__main__":
    main()
