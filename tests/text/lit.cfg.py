"""Settings of lit for the textual tests: `lit tests/text` runs the `// RUN:` lines of every *.tw.txt file.

`tilewright` and `filecheck` are those of the environment that lit runs in; %s is the file, %t a scratch file.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import lit.formats

settings: Any = config  # type: ignore[name-defined]  # noqa: F821  (lit defines it)

settings.name = "tilewright"
settings.test_format = lit.formats.ShTest(execute_external=False)
settings.suffixes = [".tw.txt"]
settings.test_source_root = str(Path(__file__).parent)
settings.test_exec_root = str(Path(tempfile.gettempdir()) / f"tilewright-lit-{os.getuid()}")
settings.environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
