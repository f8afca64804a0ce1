"""From a planned program to a segment."""

import numpy as np
from program_machine import WIDTH, program, rows

from tilewright.program.ir import Space
from tilewright.program.planner import ALIGNMENT, plan
from tilewright.program.segment_of import segment_of


def test_constants_lie_where_the_plan_says_and_aligned_for_devices():
    """Memory of the system is aligned by chance only: several segments are made, and all are kept."""
    memories = [rows(name, Space.CONSTANT) for name in ("v", "w")]
    values = [np.full(memory.shape, n, np.float32) for n, memory in enumerate(memories)]
    made = program((), constants=list(zip(memories, values, strict=True)))
    placed = plan(made)
    segments = [segment_of(made, placed, "cpu", b"", {}) for _ in range(16)]
    for segment in segments:
        assert segment.constants.ctypes.data % ALIGNMENT == 0
        assert segment.constants.nbytes == placed.constant_bytes
        for memory, value in zip(memories, values, strict=True):
            found = segment.constants[placed.offsets[memory.name] :][: memory.bytes].view(np.float32)
            np.testing.assert_array_equal(found.reshape(-1, WIDTH), value)
