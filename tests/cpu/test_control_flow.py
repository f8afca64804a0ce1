"""If, Loop and Scan on NumPy and the CPU, optimised and not, against known values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import tilewright as tw
from tilewright.errors import ImportModelError, TilewrightError

Arrays = Mapping[str, np.ndarray]
ENGINES = (("numpy", 3), ("cpu", 0), ("cpu", 3))


def model(text: str, opset: int = 17) -> bytes:
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    return onnx.parser.parse_model(head + text).SerializeToString()


def compiled(text: str, tmp_path: Path, opset: int = 17) -> list[tw.Executable]:
    data = model(text, opset)
    return [
        tw.compile(data, target=target, opt_level=level, cache_dir=tmp_path, verify_each=True, threads=1)
        for target, level in ENGINES
    ]


def check(engines: list[tw.Executable], inputs: Arrays, expected: Arrays) -> None:
    for engine in engines:
        found = engine.run(inputs)
        assert found.keys() == expected.keys()
        for name, wanted in expected.items():
            assert found[name].shape == wanted.shape, name
            assert found[name].dtype == wanted.dtype, name
            np.testing.assert_allclose(found[name], wanted, rtol=1e-5, err_msg=name)


def f32(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def true_false() -> tuple[np.ndarray, np.ndarray]:
    return np.array(True), np.array(False)


IF_OF_CONSTANTS = """
g (bool c) => (float[n] y) {
  y = If (c) <
    then_branch = a () => (float[3] p) { p = Constant <value = float[3] {1, 2, 3}> () },
    else_branch = b () => (float[1] q) { q = Constant <value = float[1] {9}> () }>
}"""


def test_cf1_branches_of_constants_with_different_shapes(tmp_path: Path) -> None:
    engines = compiled(IF_OF_CONSTANTS, tmp_path)
    for condition, expected in zip(true_false(), (f32(1, 2, 3), f32(9)), strict=True):
        check(engines, {"c": condition}, {"y": expected})


def test_an_array_of_the_bound_takes_a_result_of_unknown_size(tmp_path: Path) -> None:
    (*_, engine) = compiled(IF_OF_CONSTANTS, tmp_path)
    mine = np.full(3, -1, np.float32)
    found = engine.run({"c": np.array(False)}, out={"y": mine})["y"]
    assert found.tolist() == [9]
    assert np.shares_memory(found, mine)
    with pytest.raises(tw.errors.RunError, match="expected float32"):
        engine.run({"c": np.array(True)}, out={"y": np.zeros(1, np.float32)})


def test_counts_survive_saving(tmp_path: Path) -> None:
    (*_, engine) = compiled(IF_OF_CONSTANTS, tmp_path)
    engine.save(tmp_path / "model.tw")
    again = tw.Executable.load(tmp_path / "model.tw")
    assert [a.name for a in again.outputs] == ["y"]
    assert again(np.array(False)).tolist() == [9]
    assert again(np.array(True)).tolist() == [1, 2, 3]


def test_a_result_of_unknown_size_goes_through_arithmetic(tmp_path: Path) -> None:
    text = """
    g (bool c, float[2,4] x) => (float[a, b] y, int64[2] s, float[a] r) {
      one = Constant <value = float[1] {1}> ()
      axes = Constant <value_ints = [1]> ()
      z = If (c) <
        then_branch = a () => (float[2,4] p) { p = Neg(x) },
        else_branch = b () => (float[1,4] q) {
          starts = Constant <value_ints = [1]> () ends = Constant <value_ints = [2]> ()
          q = Slice(x, starts, ends) }>
      t = Add(z, one)
      u = Exp(t)
      y = Transpose(u)
      s = Shape(y)
      r = ReduceSum <keepdims = 0> (t, axes)
    }"""
    engines = compiled(text, tmp_path)
    x = np.arange(8, dtype=np.float32).reshape(2, 4) / 8
    for condition, z in zip(true_false(), (-x, x[1:]), strict=True):
        expected = {"y": np.exp(z + 1).T, "s": np.array([4, len(z)]), "r": (z + 1).sum(1)}
        check(engines, {"c": condition, "x": x}, expected)


def test_branches_capture_values_and_weights(tmp_path: Path) -> None:
    text = """
    g (bool c, float[1,3,6,6] x, float[4,3,3,3] w) => (float[1,4,4,4] y, float y2) {
      k = Constant <value = float {2}> ()
      h = Mul(x, k)
      y, y2 = If (c) <
        then_branch = a () => (float[1,4,4,4] p, float p2) { p = Conv(h, w) p2 = Identity(k) },
        else_branch = b () => (float[1,4,4,4] q, float q2) {
          n = Neg(x) m = Conv(n, w) q = Relu(m) q2 = Neg(k) }>
    }"""
    engines = compiled(text, tmp_path)
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 3, 6, 6), (4, 3, 3, 3)))
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), (1, 2))
    conv = np.einsum("cyxij,ocij->oyx", windows, w)[None]
    check(engines, {"c": np.array(True), "x": x, "w": w}, {"y": 2 * conv, "y2": np.float32(2)[None][0]})
    check(engines, {"c": np.array(False), "x": x, "w": w}, {"y": np.maximum(-conv, 0), "y2": -np.float32(2)})


def test_one_value_may_be_captured_under_two_names(tmp_path: Path) -> None:
    text = """
    g (bool c, float[2] x) => (float[2] y) {
      a = Neg(x) b = Identity(a)
      y = If (c) <
        then_branch = t () => (float[2] p) { p = Mul(a, b) },
        else_branch = e () => (float[2] q) { q = Add(b, a) }>
    }"""
    engines = compiled(text, tmp_path)
    for condition, expected in zip(true_false(), (f32(1, 9), f32(-2, -6)), strict=True):
        check(engines, {"c": condition, "x": f32(1, 3)}, {"y": expected})


def test_a_branch_that_is_known_is_read_alone(tmp_path: Path) -> None:
    text = """
    g (float[2,3] x) => (float[m, n] y) {
      rank = Shape(x) two = Constant <value_ints = [2]> () size = Size(rank) c = Equal(size, two)
      y = If (c) <
        then_branch = a () => (float[3,2] p) { p = Transpose(x) },
        else_branch = b () => (float[2] q) { axes = Constant <value_ints = [1]> () q = ReduceSum(x, axes) }>
    }"""
    (engine, *_) = engines = compiled(text, tmp_path)
    assert engine.outputs[0].shape == (3, 2)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    check(engines, {"x": x}, {"y": x.T})


def test_branches_of_different_ranks_are_refused() -> None:
    text = """
    g (bool c) => (float y) {
      y = If (c) <
        then_branch = a () => (float[3] p) { p = Constant <value = float[3] {1, 2, 3}> () },
        else_branch = b () => (float q) { q = Constant <value = float {9}> () }>
    }"""
    with pytest.raises(
        ImportModelError, match=r"result 0 is f32\[3\] in one branch and f32\[\] in the other"
    ):
        tw.compile(model(text), target="numpy")


LOOP = """
g (int64 m, bool c, float[1] x) => (float[1] y, float[n,1] s)
<int64 trips = {TRIPS}>
{
  one = Constant <value = float[1] {1}> ()
  y, s = Loop (trips, c, x) <
    body = b (int64 i, bool go, float[1] h) => (bool again, float[1] h2, float[1] old) {
      again = Identity(go) h2 = Add(h, one) old = Identity(h) }>
  unused = Identity(m)
}"""


@pytest.mark.parametrize("trips", [0, 3])
def test_cf3_and_cf5_stacked_values_of_no_and_of_three_turns(trips: int, tmp_path: Path) -> None:
    text = LOOP.replace("{TRIPS}", f"{{{trips}}}")
    engines = compiled(text, tmp_path)
    inputs = {"m": np.array(0), "x": f32(10)}
    ran = {"y": f32(10 + trips), "s": np.arange(10, 10 + trips, dtype=np.float32).reshape(trips, 1)}
    check(engines, inputs | {"c": np.array(True)}, ran)
    check(engines, inputs | {"c": np.array(False)}, {"y": f32(10), "s": np.zeros((0, 1), np.float32)})


def test_a_loop_ends_by_its_trip_count_or_its_condition(tmp_path: Path) -> None:
    text = """
    g (int64 m, bool c, float[2] x, float limit) => (float[2] y, int64 turns) {
      zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> ()
      y, turns = Loop (m, c, x, zero) <
        body = b (int64 i, bool go, float[2] h, int64 n) => (bool again, float[2] h2, int64 n2) {
          h2 = Add(h, h) top = ReduceMax <keepdims = 0> (h2) again = Less(top, limit) n2 = Add(i, one) }>
    }"""
    engines = compiled(text, tmp_path)
    for m, c, limit in ((0, True, 9), (3, True, 1e9), (99, True, 20), (99, False, 20), (-1, True, 9)):
        h, turns = f32(1, 2), 0
        while c and turns < m and (turns == 0 or h.max() < limit):
            h, turns = h + h, turns + 1
        inputs = {"m": np.array(m), "c": np.array(c), "x": f32(1, 2), "limit": np.float32(limit)}
        check(engines, {k: np.asarray(v) for k, v in inputs.items()}, {"y": h, "turns": np.array(turns)})


def test_stacked_values_end_where_the_condition_ends_the_loop(tmp_path: Path) -> None:
    text = """
    g (float[3] x, float limit) => (float[3] y, float[n,3] s, int64[k] where)
    <int64 m = {6}, bool c = {1}>
    {
      y, s, where = Loop (m, c, x) <
        body = b (int64 i, bool go, float[3] h) => (bool again, float[3] h2, float[3] out, int64 at) {
          h2 = Add(h, h) top = ReduceMax <keepdims = 0> (h2) again = Less(top, limit)
          out = Neg(h2) at = Identity(i) }>
    }"""
    engines = compiled(text, tmp_path)
    for limit in (3, 10, 1e9):
        h, stacked = f32(1, 2, 3), []
        while len(stacked) < 6:
            h = h + h
            stacked.append(-h)
            if not h.max() < limit:
                break
        expected = {"y": h, "s": np.stack(stacked), "where": np.arange(len(stacked))}
        check(engines, {"x": f32(1, 2, 3), "limit": np.asarray(np.float32(limit))}, expected)


def test_if_in_a_loop_in_a_loop(tmp_path: Path) -> None:
    text = """
    g (float[2,2] x, int64 m) => (float[2,2] y)
    <int64 inner = {3}>
    {
      none = Identity(x)
      y = Loop (m, , x) <
        body = b (int64 i, bool go, float[2,2] h) => (bool again, float[2,2] h2) {
          again = Identity(go)
          h2 = Loop (inner, , h) <
            body = bb (int64 j, bool go2, float[2,2] k) => (bool again2, float[2,2] k2) {
              again2 = Identity(go2)
              even = Less(j, i)
              k2 = If (even) <
                then_branch = t () => (float[2,2] p) { p = MatMul(k, x) },
                else_branch = e () => (float[2,2] q) { f = Cast <to = 1> (j) q = Add(k, f) }>
            }>
        }>
    }"""
    engines = compiled(text, tmp_path)
    x = np.array([[0.5, 0.25], [-0.5, 0.75]], np.float32)
    for m in (0, 1, 4):
        h = x
        for i in range(m):
            for j in range(3):
                h = h @ x if j < i else h + np.float32(j)
        check(engines, {"x": x, "m": np.array(m)}, {"y": h})


def test_carried_values_may_change_places(tmp_path: Path) -> None:
    text = """
    g (float[2] a, float[2] b, int64 m) => (float[2] p, float[2] q) {
      p, q = Loop (m, , a, b) <
        body = l (int64 i, bool go, float[2] u, float[2] v) => (bool again, float[2] v2, float[2] u2) {
          again = Identity(go) v2 = Identity(v) u2 = Identity(u) }>
    }"""
    engines = compiled(text, tmp_path)
    for m in (0, 1, 2, 3):
        pair = (f32(1, 2), f32(3, 4))
        first, second = pair[::-1] if m % 2 else pair
        check(engines, {"a": pair[0], "b": pair[1], "m": np.array(m)}, {"p": first, "q": second})


def test_a_loop_whose_turns_have_shapes_of_their_own_is_written_out(tmp_path: Path) -> None:
    text = """
    g (float[1] x, bool c) => (float[4] grown)
    <int64 m = {3}>
    {
      yes = Constant <value = bool {1}> ()
      grown = Loop (m, yes, x) <
        body = b (int64 i, bool go, float[n] h) => (bool again, float[k] h2) {
          again = Identity(go) n = Neg(x) h2 = Concat <axis = 0> (h, n) }>
      unused = Not(c)
    }"""
    check(compiled(text, tmp_path), {"x": f32(5), "c": np.array(True)}, {"grown": f32(5, -5, -5, -5)})


def test_a_carried_value_that_changes_its_type_is_refused() -> None:
    text = """
    g (float[1] x, int64 m) => (float[k] y) {
      y = Loop (m, , x) <
        body = b (int64 i, bool go, float[n] h) => (bool again, float[k] h2) {
          again = Identity(go) h2 = Concat <axis = 0> (h, h) }>
    }"""
    with pytest.raises(ImportModelError, match=r"carried value 'x' of type f32\[1\] becomes f32\[2\]"):
        tw.compile(model(text), target="numpy")


def test_stacking_without_a_limit_is_refused() -> None:
    text = """
    g (float[1] x, bool c) => (float[1] y, float[n,1] s) {
      y, s = Loop ( , c, x) <
        body = b (int64 i, bool go, float[1] h) => (bool again, float[1] h2, float[1] o) {
          h2 = Add(h, h) o = Identity(h)
          zero = Sub(h, h) z = ReduceMax <keepdims = 0> (zero) again = Less(z, z) }>
    }"""
    with pytest.raises(ImportModelError, match="nothing known limits the number of turns"):
        tw.compile(model(text), target="numpy")


def scan_model(attributes: str, steps: int = 3) -> str:
    return f"""
    g (float[2] start, float[{steps},2] x) => (float[2] sum, float[n,2] sums, float[n,2] squares) {{
      sum, sums, squares = Scan (start, x) <num_scan_inputs = 1 {attributes},
        body = b (float[2] s, float[2] v) => (float[2] t, float[2] o, float[2] q) {{
          t = Add(s, v) o = Identity(t) q = Mul(v, v) }}>
    }}"""


@pytest.mark.parametrize("back", [False, True])
def test_cf6_more_results_than_operands_in_both_directions(back: bool, tmp_path: Path) -> None:
    engines = compiled(scan_model(", scan_input_directions = [1]" if back else ""), tmp_path)
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    seen = x[::-1] if back else x
    expected = {"sum": f32(6, 9), "sums": np.cumsum(seen, 0), "squares": seen * seen}
    check(engines, {"start": f32(0, 0), "x": x}, expected)


@pytest.mark.parametrize(
    ("source", "target", "target_axis"), [(1, 1, 0), (0, 1, 1), (1, 0, -1), (0, 0, 1), (1, 1, 1)]
)
def test_directions_and_axes_of_a_scan(source: int, target: int, target_axis: int, tmp_path: Path) -> None:
    text = f"""
    g (float[2] start, float[2,3] x) => (float[2] sum, float[a,b] sums) {{
      sum, sums = Scan (start, x) <num_scan_inputs = 1, scan_input_axes = [1],
        scan_input_directions = [{source}], scan_output_directions = [{target}],
        scan_output_axes = [{target_axis}],
        body = b (float[2] s, float[2] v) => (float[2] t, float[2] o) {{ t = Add(s, v) o = Identity(t) }}>
    }}"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    sums = np.cumsum(x.T[::-1] if source else x.T, 0)
    sums = sums[::-1] if target else sums
    expected = {"sum": x.sum(1), "sums": np.moveaxis(sums, 0, target_axis)}
    check(compiled(text, tmp_path), {"start": f32(0, 0), "x": x}, expected)


def test_batches_of_opset_8_may_end_early(tmp_path: Path) -> None:
    text = """
    g (int64[2] lengths, float[2,1] start, float[2,3,1] x) => (float[2,1] sum, float[2,3,1] sums) {
      sum, sums = Scan (lengths, start, x) <num_scan_inputs = 1,
        body = b (float[1] s, float[1] v) => (float[1] t, float[1] o) { t = Add(s, v) o = Identity(t) }>
    }"""
    engines = compiled(text, tmp_path, opset=8)
    x = np.arange(6, dtype=np.float32).reshape(2, 3, 1) + 1
    for lengths in ([3, 1], [0, 2]):
        running = np.arange(3)[None, :, None] < np.array(lengths)[:, None, None]
        sums = np.cumsum(np.where(running, x, 0), 1)
        expected = {"sum": sums[:, -1], "sums": np.where(running, sums, 0)}
        check(
            engines, {"lengths": np.array(lengths), "start": np.zeros((2, 1), np.float32), "x": x}, expected
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (scan_model("", steps=0), "number of steps, at least one"),
        (scan_model("").replace("num_scan_inputs = 1", "num_scan_inputs = 5"), "GR15|'num_scan_inputs' is 5"),
        (scan_model(", scan_input_axes = [0, 0]"), "'scan_input_axes' has 2 entries, expected 1"),
        (scan_model(", scan_input_directions = [2]"), "expected 0 or 1"),
        (scan_model(", scan_input_axes = [7]"), "axis 7 does not exist"),
    ],
)
def test_cf6_and_gr15_scans_that_make_no_sense(text: str, message: str) -> None:
    with pytest.raises(TilewrightError, match=message):
        tw.compile(model(text), target="numpy")
