"""What `-v` shows: the tracebacks behind the one-line errors of rows, and nothing of other libraries."""

import logging

LOGGER = logging.getLogger("tilewright_bench")


def show_tracebacks(wanted: bool) -> None:
    """Let this room's debug messages through to stderr, or stop all of them."""
    LOGGER.setLevel(logging.DEBUG if wanted else logging.CRITICAL)
    LOGGER.propagate = False
    if wanted and not LOGGER.handlers:
        LOGGER.addHandler(logging.StreamHandler())
