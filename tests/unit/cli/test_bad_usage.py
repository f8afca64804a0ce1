"""Bad usage and bad input: exit code 2, one clear line on stderr, nothing half-written."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compile", "nosuch", "-o", "x.tw"), "no model 'nosuch'"),
        (("compile", "two.onnx"), "Missing option"),
        (("compile", "two.onnx", "-o", "x.tw"), "--dim n=NUMBER"),
        (("run", "two.onnx"), "the size n is not bound; give --dim n=NUMBER"),
        (
            ("compile", "two.onnx", "-o", "x.tw", "--dim", "n=1", "--dim", "q=3"),
            "no dimension 'q' to bind; its",
        ),
        (("run", "two.onnx", "--output", "y", "--dim", "q=3"), "its named dimensions are n"),
        (("compile", "two.onnx", "-o", "x.tw", "--target", "cpu:x"), "cpu has no devices to choose from"),
        (("compile", "two.onnx", "-o", "x.tw", "--dim", "n"), "expected NAME=N"),
        (("compile", "two.onnx", "-o", "x.tw", "--target", "abacus"), "unknown target 'abacus'"),
        (("compile", "two.onnx", "-o", "x.tw", "--precision", "fp4"), "unknown precision 'fp4'"),
        (("compile", "two.onnx", "-o", "x.tw", "-O", "7"), "level 7"),
        (("compile", "two.onnx", "-o", "x.tw", "-O", "fast"), "'-O'"),
        (("compile", "two.onnx", "-o", "x.tw", "--without", "luck"), "luck"),
        (("compile", "two.onnx", "-o", "x.tw", "--threads", "0"), "at least one thread"),
        (("compile", "two.onnx", "-o", "x.tw", "--machine", "none.json"), "none.json"),
        (("compile", "two.onnx", "-o", "none/x.tw"), "none/x.tw cannot be written"),
        (("compile", "two.onnx", "-o", ".", "--dim", "n=1"), "cannot be written"),
        (("compile", "two.onnx", "-o", "x.tw", "--dim", "n=1", "--target", "numpy"), "no code to save"),
        (("compile", "two.onnx", "-o", "x.tw", "--dim", "n=1", "--cache-dir", "two.onnx"), "--cache-dir"),
        (("compile", "empty.onnx", "-o", "x.tw"), "empty"),
        (("compile", "text.onnx", "-o", "x.tw"), "text.onnx"),
        (("compile", "cut.onnx", "-o", "x.tw"), "cut.onnx"),
        (("compile", "folder", "-o", "x.tw"), "folder"),
        (("run", "broken.tw"), "not a Tilewright artefact"),
        (("inspect", "broken.tw"), "not a Tilewright artefact"),
        (("conjure",), "No such command 'conjure'"),
        (("run", "two.onnx", "--bogus"), "No such option"),
        (("opt", "none.tw.txt", "-p", "dce"), "not a file"),
        (("compile", "two.onnx", "-o", "x.tw", "--threads", "9999"), "usable CPUs; give at most as many"),
        (("run", "two.onnx", "--threads", "9999"), "usable CPUs; give at most as many"),
        (("compile", "two.onnx", "-o", "folder"), "folder cannot be written: it is a folder"),
        (("compile", "two.onnx", "-o", ""), "it is a folder; give the name of a file"),
        (("compile", "two.onnx", "-o", "x.tw", "--without", "fusion+winograd"), "separated by commas"),
        (("cache", "info", "--cache-dir", "two.onnx"), "two.onnx is not a folder"),
        (("cache", "clear", "--cache-dir", "two.onnx"), "two.onnx is not a folder"),
        (("cache", "burn"), "No such command 'burn'"),
    ],
)
def test_one_line_and_exit_code_2(tilewright, model, tmp_path, arguments, message):
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "text.onnx").write_bytes(b"this is not a model")
    (tmp_path / "cut.onnx").write_bytes(model.read_bytes()[:-40])
    (tmp_path / "broken.tw").write_bytes(bytes(100))
    (tmp_path / "folder").mkdir()
    before = sorted(p.name for p in tmp_path.iterdir())
    done = tilewright(*arguments)
    assert done.code == 2
    assert message in done.err
    assert done.err.startswith("tilewright: ")
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    assert done.out == ""
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "cache") == before


def test_no_arguments_show_the_help(tilewright):
    done = tilewright()
    assert done.code == 2
    assert "Commands" in done.out + done.err


def test_help_is_no_error(tilewright):
    for command in ("compile", "run", "inspect", "opt", "devices", "show-versions", "cache"):
        assert tilewright(command, "--help").code == 0


@pytest.mark.parametrize("command", ["run", "inspect"])
@pytest.mark.parametrize(
    "option",
    [
        ("--precision", "bf16"),
        ("--precision", "fp32"),  # the default, but said
        ("--target", "cpu"),
        ("--machine", "none.json"),
        ("--dim", "n=3"),
        ("-O", "3"),
        ("--without", "fusion"),
        ("--verify-each",),
    ],
)
def test_options_of_compilation_do_not_apply_to_an_artefact(tilewright, tmp_path, command, option):
    (tmp_path / "a.tw").write_bytes(bytes(100))
    done = tilewright(command, "a.tw", *option)
    assert done.code == 2
    assert done.err.startswith(f"tilewright: a.tw is compiled already: {option[0]} is for models")
    assert done.err.count("\n") == 1
