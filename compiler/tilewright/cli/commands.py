"""The compiler's own commands: compile, run, inspect, opt, devices, cache, show-versions."""

import typer


def register(app: typer.Typer) -> None:
    """Add the compiler's commands to the application."""
