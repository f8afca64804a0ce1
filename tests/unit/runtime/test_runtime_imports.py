"""Loading and running an artefact imports nothing of the compiler: checked in a fresh process."""

import json
import os
import subprocess
import sys

from tilewright.runtime.artefact import write_artefact

SCRIPT = """
import sys
before = set(sys.modules)
import json
import numpy as np
import tilewright as tw
exe = tw.Executable.load(sys.argv[1])
y = exe(np.ones((2, 3), np.float32))
assert y.tolist() == [[3.0] * 3] * 2
print(json.dumps(sorted(set(sys.modules) - before)))
"""

OURS = {
    "tilewright",
    "tilewright.config",
    "tilewright.dtypes",
    "tilewright.errors",
    "tilewright.runtime",
    "tilewright.runtime.artefact",
    "tilewright.runtime.device",
    "tilewright.runtime.executable",
    "tilewright.runtime.package",
    "tilewright.runtime.registry",
    "tilewright.runtime.tracing",
    "tilewright.segment",
    "scaler_device",
}
EXTERNAL = {"numpy", "ml_dtypes", "platformdirs"}


def test_only_the_allow_list_is_imported(package, device_folder, tmp_path):
    file = tmp_path / "m.tw"
    write_artefact(package, file)
    environment = {**os.environ, "PYTHONPATH": str(device_folder)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(file)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    own = {name for name in loaded if name.partition(".")[0] in ("tilewright", "scaler_device")}
    assert own == OURS
    others = {name.partition(".")[0] for name in loaded} - {"tilewright", "scaler_device"}
    foreign = {name for name in others if name not in sys.stdlib_module_names and not name.startswith("_")}
    assert foreign <= EXTERNAL
