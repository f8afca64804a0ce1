"""What the system refuses a command, in one line: a full disk, a read-only one, a missing permission."""

from __future__ import annotations

import errno
import os

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
_DENIED = (errno.EACCES, errno.EPERM)


def refusal(error: OSError) -> str:
    """The line for the user; empty for an error that users cannot cause, which is a mistake of ours."""
    if error.errno not in (*_FULL, *_DENIED):
        return ""
    where = error.filename or "the output"  # standard output has no name; files are named: see `files.py`
    what = "written" if error.errno in _FULL else "used"
    return f"{where} cannot be {what}: {os.strerror(error.errno)}"
