"""One error class per stage, below one base.

Every message says what is wrong, where (an ONNX node or tensor name, a file, an option) and what to do.
The command line prints the message alone and exits with code 2.
"""

import re

_ENDLESS = re.compile(r"\S{300,}")  # a name that would bury the rest of the message


class TilewrightError(Exception):
    """Base of every error that the user can cause or mend. One line, whatever names the message holds."""

    def __init__(self, message: str = "") -> None:
        short = _ENDLESS.sub(lambda word: f"{word[0][:80]}…{word[0][-20:]}", message)
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in short))


class UsageError(TilewrightError):
    """An option, an engine or a model name that does not exist or does not fit."""


class ImportModelError(TilewrightError):
    """A model file that cannot be read: missing, truncated, not ONNX, or with unsupported operators."""


class VerifyError(TilewrightError):
    """Malformed IR: an operator's type rule does not hold, or a name dangles."""


class ParseError(TilewrightError):
    """A textual IR that does not follow the grammar."""


class ScheduleError(TilewrightError):
    """A schedule primitive that is not legal where it was applied."""


class LoweringError(TilewrightError):
    """An operator or expression that a target cannot turn into a kernel."""


class CodegenError(TilewrightError):
    """Generated code that the code generator below us refuses."""


class ArtefactError(TilewrightError):
    """A saved executable that is damaged, foreign, or needs features this machine lacks."""


class RunError(TilewrightError):
    """Inputs with wrong names, shapes or element types, or a device that failed."""


class CacheError(TilewrightError):
    """A cache directory that cannot be written."""


class DataError(TilewrightError):
    """A data set or a download that is missing, empty or does not match its checksum."""
