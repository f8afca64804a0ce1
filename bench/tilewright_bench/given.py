"""The command as the user gave it, kept in a result so that a report can print what measures it again."""

from typing import Any

import typer

# Options that say where results go and what is shown; they change nothing of what is measured.
OUTPUTS = ("json_to", "csv_to", "md_to", "quiet", "verbose")


def given_command(context: typer.Context) -> list[str]:
    """`tilewright`, the command, its arguments, and the options that the user gave, each with its value and
    in the order of `--help`, as words of a shell; without `OUTPUTS`. Paths stay as they were written.
    """
    words = ["tilewright", str(context.info_name)]
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or name in OUTPUTS:
            continue
        value = context.params[name]
        values = value if isinstance(value, list | tuple) else [value]
        option = [] if parameter.param_type_name == "argument" else [parameter.opts[0]]
        for one in values:
            words += option if one is True else [*option, _word(one)]
    return words


def _word(value: Any) -> str:
    """A value as a word; 20.0 is what the user wrote as 20."""
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)
