"""A digest of the compiler's own files: an edited compiler must not meet its own past in a cache."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

_ROOT = Path(__file__).parent


@cache
def digest_of_sources(*patterns: str) -> str:
    """Of the files that the patterns name, relative to the package, by name and content; `**/*.py` are all.

    Reading all of them takes some milliseconds.
    """
    digest = sha256()
    for path in sorted({path for pattern in patterns for path in _ROOT.glob(pattern)}):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_ROOT)} {len(content)}\0".encode() + content)
    return digest.hexdigest()[:32]
