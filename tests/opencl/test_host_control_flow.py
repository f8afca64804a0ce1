"""If, Loop and sizes that depend on data on the embedded device: the host takes branches and ends loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import tilewright as tw
from tilewright.targets.opencl.target import OpenClTarget

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[3] x, float limit, int64 m, bool c) => (float[3] y, float[n,3] s, float[3] z, int64[1,k] at)
<int64 most = {5}, bool yes = {1}>
{
  y, s = Loop (most, yes, x) <
    body = b (int64 i, bool go, float[3] h) => (bool again, float[3] h2, float[3] out) {
      h2 = Add(h, h) top = ReduceMax <keepdims = 0> (h2) again = Less(top, limit)
      f = Cast <to = 1> (i) out = Sub(h2, f) }>
  z = Loop (m, , x) <
    body = b2 (int64 j, bool go2, float[3] k) => (bool again2, float[3] k2) {
      again2 = Identity(go2)
      k2 = If (c) <
        then_branch = t () => (float[3] p) { p = Neg(k) },
        else_branch = e () => (float[3] q) { q = Mul(k, y) }> }>
  far = Less(limit, z)
  at = NonZero(far)
}"""


@pytest.mark.usefixtures("target")
@pytest.mark.parametrize("level", [0, 3])
def test_control_flow_agrees_with_numpy(level: int, tmp_path: Path) -> None:
    data = onnx.parser.parse_model(TEXT).SerializeToString()
    engine = tw.compile(data, target="opencl", opt_level=level, cache_dir=tmp_path)
    oracle = tw.compile(data, target="numpy")
    shapes = set()
    for limit, m, c in ((3, 0, True), (10, 3, True), (1e9, 2, False), (-9, 1, False)):
        inputs = {
            "x": np.array([1, -2, 3], np.float32),
            "limit": np.array(limit, np.float32),
            "m": np.array(m),
            "c": np.array(c),
        }
        found, expected = engine.run(inputs), oracle.run(inputs)
        shapes.add((found["s"].shape, found["at"].shape))
        for name, wanted in expected.items():
            assert found[name].shape == wanted.shape
            np.testing.assert_allclose(found[name], wanted, rtol=1e-6)
    assert len(shapes) > 2


def test_slices_of_a_loop_that_memory_ends_are_written_out(target: OpenClTarget) -> None:
    from tilewright.graph.parse import parse_function
    from tilewright.lower.build import build_program
    from tilewright.pipeline import program_passes_for
    from tilewright.program.planner import plan
    from tilewright.targets.opencl.launches import launches_of

    function = parse_function("""
    func @main(%c: bool[], %x: f32[2]) -> (%h as "h", %s as "s") {
      %h: f32[2], %s: f32[3,2] = Loop(_, %c, %x) {num_states=1, max_trips=3} @loop bodies {
        func @body(%a: f32[2]) -> (%b, %b) {
          %b: f32[2] = Neg(%a) @neg
        }
      }
    }""")
    program = build_program(function, target)
    for step in program_passes_for(3):
        program = step(program)
    (loop, *_) = [
        launch
        for launch in launches_of(program.body, plan(program), _Launched(), target.machine)
        if launch["kind"] == "loop"
    ]
    assert len(loop["turns"]) == 3
    assert loop["limit"] is None
    assert loop["condition"] is not None


class _Launched(dict):
    """No launches for any kernel: only the structure matters here."""

    def __missing__(self, key: str) -> tuple[()]:
        return ()
