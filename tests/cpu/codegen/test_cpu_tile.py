"""Products in AMX tiles: the instructions, and what they compute."""

import re

import ml_dtypes
import numpy as np
import pytest
from kernel_runs import AMX, AVX512, run_segment, segment_of
from tile_emulation import emulated

from tilewright.errors import CodegenError, RunError
from tilewright.loops.ir import Role
from tilewright.loops.parse import parse_kernel
from tilewright.lower.kernel import finish_kernel
from tilewright.targets.cpu.codegen import kernel_text
from tilewright.targets.cpu.detect import from_features, without_tiles
from tilewright.targets.cpu.objects import assembly
from tilewright.targets.cpu.tile_file import TileFile, TileShape

INDEX = "((a * {rows}) + i), ((b * {columns}) + j)"
TEXT = """
kernel tiles(@in x: {x}[{all_rows},{depth}], @in w: {w}[{half},{line}], @out y: {sums}[{all_rows},{all_columns}]) {{
  {outer} {{
  alloc sums: {sums}[{all_rows},{all_columns}] in tile {{
    unrolled for a in 0 .. +{high} {{
      unrolled for b in 0 .. +{wide} {{
        serial tensorized(zero_tile) for i in 0 .. +{rows} {{
          serial for j in 0 .. +{columns} {{
            sums[{index}] = {zero}:{sums}
          }}
        }}
      }}
    }}
    serial for k in 0 .. +{steps} {{
      unrolled for a in 0 .. +{high} {{
        unrolled for b in 0 .. +{wide} {{
          serial tensorized({intrinsic}) for i in 0 .. +{rows} {{
            serial for j in 0 .. +{columns} {{
              serial for p in 0 .. +{pairs} {{
                serial for q in 0 .. +{n} {{
                  sums[{index}] = (sums[{index}] + (cast:{sums}(x[((a * {rows}) + i), (((k * {terms}) + (p * {n})) + q)]) * cast:{sums}(w[((k * {pairs}) + p), (((b * {pair_columns}) + (j * {n})) + q)])))
                }}
              }}
            }}
          }}
        }}
      }}
    }}
    unrolled for a in 0 .. +{high} {{
      unrolled for b in 0 .. +{wide} {{
        serial tensorized(store_tile) for i in 0 .. +{rows} {{
          serial for j in 0 .. +{columns} {{
            y[{index}] = sums[{index}]
          }}
        }}
      }}
    }}
  }}
  }}
}}
"""  # noqa: E501  # a loop program has long lines


PAIRS = {"intrinsic": "dot_tile_pairs", "n": 2, "x": "bf16", "w": "bf16", "sums": "f32", "zero": "0.0"}
QUADS = {"intrinsic": "dot_tile_quads", "n": 4, "x": "u8", "w": "i8", "sums": "i32", "zero": "0"}


def text(rows=5, columns=16, pairs=8, steps=3, high=2, wide=2, outer="serial for n in 0 .. +1", kind=PAIRS):
    """y = x w, of high x wide tiles of rows x columns; w in pairs or quads: w[k / n, n j + k % n]."""
    n = kind["n"]
    return TEXT.format(
        **kind,
        index=INDEX.format(rows=rows, columns=columns),
        all_rows=high * rows,
        all_columns=wide * columns,
        depth=n * pairs * steps,
        half=pairs * steps,
        line=n * wide * columns,
        terms=n * pairs,
        pair_columns=n * columns,
        rows=rows,
        columns=columns,
        pairs=pairs,
        steps=steps,
        high=high,
        wide=wide,
        outer=outer,
    )


def kernel_of(source):
    return finish_kernel(parse_kernel(source))


def arrays(kernel, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(b.shape).astype(b.dtype.numpy) for b in kernel.params]


def product(x, w, n=2):
    """In float64, w as it lies: n rows side by side."""
    groups, line = w.shape
    rows = w.astype(np.float64).reshape(groups, line // n, n).transpose(0, 2, 1).reshape(n * groups, -1)
    return x.astype(np.float64) @ rows


def instructions(machine, kernel):
    """Names of the tile instructions with the numbers of their tiles, in order."""
    found = re.findall(r"@llvm\.x86\.(\w+)\(((?:i8 \d(?:, )?)*)", kernel_text(kernel, machine))
    return [" ".join([name, *re.findall(r"\d", tiles.replace("i8", ""))]) for name, tiles in found]


MACHINE = from_features("amx", AMX)


@pytest.mark.parametrize("shape", [(5, 16, 8), (16, 16, 16), (2, 4, 2), (14, 16, 12), (7, 10, 5)])
@pytest.mark.parametrize("blocks", [(2, 2), (1, 4), (4, 1), (1, 1), (2, 1)])
def test_products_in_tiles(run, amx, shape, blocks):
    rows, columns, pairs = shape
    kernel = kernel_of(text(rows, columns, pairs, high=blocks[0], wide=blocks[1]))
    x, w, y = arrays(kernel)
    run(kernel, amx, x, w, y)
    np.testing.assert_allclose(y, product(x, w), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("blocks", [(2, 2), (1, 4)])
def test_products_of_bytes_in_tiles_are_exact(run, amx, blocks):
    kernel = kernel_of(text(14, 16, 16, high=blocks[0], wide=blocks[1], kind=QUADS))
    assert {"tdpbusd"} == {i.split()[0] for i in instructions(MACHINE, kernel) if i.startswith("tdp")}
    rng = np.random.default_rng(0)
    x, w, y = (
        rng.integers(np.iinfo(b.dtype.numpy).min, np.iinfo(b.dtype.numpy).max, b.shape, b.dtype.numpy, True)
        for b in kernel.params
    )
    x[0], w[:, ::4], w[:, 1::4] = 255, 127, -128  # the largest products
    run(kernel, amx, x, w, y)
    np.testing.assert_array_equal(y, product(x, w, 4))


def test_sums_of_bytes_wrap(run, amx):
    kernel = kernel_of(text(2, 2, 16, steps=2_000, high=1, wide=1, kind=QUADS))
    values = (255, -128, 0)
    x, w, y = (np.full(b.shape, v, b.dtype.numpy) for b, v in zip(kernel.params, values, strict=True))
    run(kernel, amx, x, w, y)
    assert product(x, w, 4)[0, 0] < -(2**31)
    np.testing.assert_array_equal(y, product(x, w, 4).astype(np.int64).astype(np.int32))


@pytest.mark.parametrize("kind", [PAIRS, QUADS])
def test_instructions_and_loops_mean_the_same(check, amx, kind):
    kernel = kernel_of(text(2, 3, 2, steps=2, kind=kind))
    check(kernel, amx, *arrays(kernel), rtol=1e-5)


def test_a_step_loads_each_operand_once():
    assert instructions(MACHINE, kernel_of(text()))[5:13] == [
        "tileloadd64 4",
        "tileloadd64 5",
        "tdpbf16ps 0 4 5",
        "tileloadd64 6",
        "tdpbf16ps 1 4 6",
        "tileloadd64 7",
        "tdpbf16ps 2 7 5",
        "tdpbf16ps 3 7 6",
    ]


def test_an_operand_that_the_kernel_may_write_is_loaded_again():
    source = text().replace("@in x", "@inout x")
    row_bytes = 2 * 2 * 8 * 3
    loads = re.findall(r"tileloadd64\(.*i64 (\d+)\)", kernel_text(kernel_of(source), MACHINE))
    assert loads.count(str(row_bytes)) == 4


def test_four_columns_of_tiles_share_the_operand_tiles_that_are_left():
    loads = [i for i in instructions(MACHINE, kernel_of(text(high=1, wide=4))) if "tileloadd64 " in i]
    assert loads == [f"tileloadd64 {tile}" for tile in (4, 5, 6, 7, 5)]


def test_the_machine_code_has_the_products_and_spills_no_tile():
    code = assembly(kernel_text(kernel_of(text()), MACHINE), MACHINE)
    loop = code[code.index(".LBB0_1:") : code.index("tilestored")]
    assert loop.count("tdpbf16ps") == 4
    assert loop.count("tileloadd") == 4
    assert code.count("tilestored") == 4  # the results
    assert (code.count("ldtilecfg"), code.count("tilerelease")) == (1, 1)
    assert "(%rsp" not in code


def test_tasks_configure_tiles_for_their_thread(run, amx):
    source = text(outer="parallel for n in 0 .. +4").replace("y: f32[", "y: f32[4,").replace("y[", "y[n, ")
    kernel = kernel_of(source)
    task, rest = kernel_text(kernel, amx).split("@kernel.task0(", 1)
    assert [part.count("ldtilecfg(ptr @") for part in (task, rest)] == [1, 0]
    x, w, y = arrays(kernel)
    run(kernel, amx, x, w, y, threads=2)
    np.testing.assert_allclose(y, np.stack([product(x, w)] * 4), rtol=1e-5, atol=1e-5)


def test_tiles_are_configured_again_after_tasks(run, amx):
    """The tasks that this thread runs release its tiles."""
    serial = text()
    body = serial[serial.index("{") + 1 : serial.rindex("}")]
    tasks = body.replace("serial for n", "parallel for m").replace("y[", "z[").replace("sums", "sums2")
    tasks = tasks.replace("0 .. +1 {", "0 .. +2 {", 1)
    parameters = "@out z: f32[2,10,32], @out y: f32"
    source = serial.replace("@out y: f32", parameters).replace(body, tasks.replace("z[", "z[m, ") + body)
    kernel = kernel_of(source.replace("serial for n in 0 .. +1", "serial for n in 0 .. +2"))
    assert kernel_text(kernel, MACHINE).count("call void @llvm.x86.ldtilecfg") == 3
    x, w, z, y = arrays(kernel)
    run(kernel, amx, x, w, z, y, threads=2)
    np.testing.assert_allclose(y, product(x, w), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(z, np.stack([y, y]))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (text(columns=8, high=3, wide=3), "more than 8 kinds or sums"),
        (text(16, 16, 16, high=7, wide=1), "sums of 'sums' leave no tiles for two operands"),
        (text(rows=17), "at most 16 rows of 64 bytes, found 17 of 64"),
        (text(columns=20), "found 5 of 80"),
        (text(pairs=17), "found 5 of 68"),
        (text().replace("(a * 5) + i", "(a * 4) + i"), "not used in whole tiles of one shape"),
        (text().replace("unrolled", "serial"), "not used in whole tiles of one shape"),
        (text().replace("tensorized(dot_tile_pairs) ", ""), "loops that are no instruction on tiles"),
        (text().replace(" = 0.0:f32", " = 1.0:f32"), "loops that are no instruction on tiles"),
        (text().replace("(p * 2)", "(p * 1)"), "loops that are no instruction on tiles"),
        (text().replace("(j * 2)", "(j * 1)"), "loops that are no instruction on tiles"),
        (text().replace("serial for k in 0 .. +3", "parallel for k in 0 .. +3"), "shared by a parallel loop"),
    ],
)
def test_what_cannot_be_in_tiles_is_refused(source, message):
    with pytest.raises(CodegenError, match=message):
        kernel_text(kernel_of(source), MACHINE)


def test_a_machine_without_tiles_refuses_the_scope():
    with pytest.raises(CodegenError, match="scope 'tile' needs amx-tile and amx-bf16"):
        kernel_text(kernel_of(text()), without_tiles(MACHINE))
    halved = from_features("m", AMX - {"amx-int8"})
    with pytest.raises(CodegenError, match="scope 'tile' needs amx-tile and amx-int8"):
        kernel_text(kernel_of(text(kind=QUADS)), halved)
    with pytest.raises(CodegenError, match="scope 'tile' needs sums of f32 or i32"):
        kernel_text(kernel_of(text(kind={**PAIRS, "sums": "f64"})), MACHINE)
    plain = text().replace("in tile", "in local")  # any loop is code for any machine
    assert "tdpbf16ps" not in kernel_text(kernel_of(plain), from_features("m", AVX512))


def test_shapes_of_tiles_are_fixed_in_a_function():
    tiles = TileFile()
    wide, narrow = TileShape(16, 64), TileShape(7, 64)
    sums = [tiles.take(wide) for _ in range(4)]
    assert [tiles.operand(key, wide) for key in ("a", "b", "a")] == [(4, False), (5, False), (4, True)]
    tiles.release(sums)
    assert [tiles.take(narrow) for _ in range(2)] == [6, 7]
    with pytest.raises(CodegenError):
        tiles.take(narrow)
    assert tiles.config()[16:32:2] == bytes([64] * 8)
    assert tiles.config()[48:56] == bytes([16] * 6 + [7] * 2)


BROKEN = {
    "no configuration": (r"  call void @llvm.x86.ldtilecfg.*\n", ""),
    "palette 2": (r'c"\\01', r'c"\\02'),
    "reserved byte": (r'c"\\01\\00', r'c"\\01\\01'),
    "17 rows": (r"\\05", r"\\11"),
    "68 bytes": (r"\\40", r"\\44"),
    "rows of x are not rows of y": (r"\\08\\08\\05", r"\\08\\08\\04"),
    "pairs of x are not rows of w": (r"\\08", r"\\07"),
    "a tile of no rows": (r"\\05\\05\\05\\05\\05", r"\\05\\05\\00\\05\\05"),
    "the same tile twice": (r"tdpbf16ps\(i8 0, i8 4, i8 5", "tdpbf16ps(i8 0, i8 5, i8 5"),
    "released": (r"(  call void @llvm.x86.tilestored64\(i8 0)", r"  call void @llvm.x86.tilerelease()\n\1"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_emulation_refuses_what_hardware_does(amx, monkeypatch, tmp_path, name):
    if amx.name != "emulated":
        pytest.skip("hardware ends the process")
    pattern, replacement = BROKEN[name]
    kernel = kernel_of(text())
    broken, count = re.subn(pattern, replacement, kernel_text(kernel, amx))
    assert count
    monkeypatch.setattr("tilewright.targets.cpu.target.kernel_text", lambda *_: emulated(broken))
    segment = segment_of(kernel, amx, tmp_path)
    with pytest.raises(RunError):
        run_segment(segment, kernel, arrays(kernel), 1)


def test_denormals_count_as_zero(run, amx):
    kernel = kernel_of(text())
    x, w, y = arrays(kernel)
    x[...] = ml_dtypes.bfloat16(1e-39)
    w[...] = ml_dtypes.bfloat16(3e38)
    run(kernel, amx, x, w, y)
    assert kernel.roles[2] == Role.OUT
    np.testing.assert_array_equal(y, 0)
