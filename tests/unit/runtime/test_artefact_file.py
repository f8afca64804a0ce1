"""The artefact file: what is saved is what is loaded, and damage of any kind is refused."""

import os
import struct
from dataclasses import replace

import numpy as np
import pytest

from tilewright.errors import ArtefactError
from tilewright.runtime.artefact import PAGE, is_artefact, read_artefact, write_artefact
from tilewright.runtime.executable import Executable


@pytest.fixture
def file(package, tmp_path):
    path = tmp_path / "m.tw"
    write_artefact(package, path)
    return path


def test_round_trip(package, file):
    read = read_artefact(file)
    assert replace(read, segments=()) == replace(package, segments=())
    for before, after in zip(package.segments, read.segments, strict=True):
        np.testing.assert_array_equal(before.constants, after.constants)
        assert replace(before, constants=None) == replace(after, constants=None)


def test_sections_are_page_aligned_and_constants_are_mapped(file):
    (segment,) = read_artefact(file).segments
    assert not segment.constants.flags.owndata
    assert not segment.constants.flags.writeable
    assert segment.constants.ctypes.data % PAGE == 0
    assert file.stat().st_size % PAGE == 0


def test_saved_executables_run(package, chain, tmp_path):
    x = np.ones((2, 3), np.float32)
    Executable.of(package).save(tmp_path / "one.tw")
    np.testing.assert_array_equal(Executable.load(tmp_path / "one.tw")(x), 3 * x)
    Executable.of(chain).save(str(tmp_path / "two.tw"))
    np.testing.assert_array_equal(Executable.load(str(tmp_path / "two.tw"), threads=1)(x, x), 14 * x)


def test_writing_leaves_no_drafts_and_replaces_whole_files(package, file):
    write_artefact(package, file)
    assert [p.name for p in file.parent.iterdir()] == ["m.tw"]
    assert is_artefact(file)


def test_a_mapped_artefact_survives_being_replaced(package, file):
    loaded = Executable.load(file)
    write_artefact(package, file)
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(loaded(x), 3 * x)


@pytest.mark.parametrize("length", [0, 10, 47, 100, PAGE, PAGE + 1, -1])
def test_truncated_files_are_refused(file, length):
    content = file.read_bytes()
    file.write_bytes(content[:length])
    with pytest.raises(ArtefactError, match=r"m\.tw"):
        read_artefact(file)


def test_appended_bytes_are_refused(file):
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(ArtefactError, match="truncated or damaged"):
        read_artefact(file)


@pytest.mark.parametrize(
    ("offset", "message"),
    [(0, "not a Tilewright artefact"), (60, "header"), (PAGE + 2, "code"), (2 * PAGE + 5, "constants")],
)
def test_a_flipped_bit_is_found(file, offset, message):
    content = bytearray(file.read_bytes())
    content[offset] ^= 1
    file.write_bytes(content)
    with pytest.raises(ArtefactError, match=message):
        read_artefact(file)


def test_a_foreign_version_is_refused(file):
    content = bytearray(file.read_bytes())
    content[8:12] = struct.pack("<I", 999)
    file.write_bytes(content)
    with pytest.raises(ArtefactError, match="format version 999"):
        read_artefact(file)


def test_a_missing_feature_is_refused(needy, tmp_path):
    write_artefact(needy, tmp_path / "n.tw")
    with pytest.raises(ArtefactError, match="wings"):
        Executable.load(tmp_path / "n.tw")


def test_missing_files_and_folders_are_refused(package, tmp_path):
    with pytest.raises(ArtefactError, match="cannot be read: No such file"):
        read_artefact(tmp_path / "none.tw")
    with pytest.raises(ArtefactError, match="cannot be written"):
        write_artefact(package, tmp_path / "none" / "m.tw")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_refused(package, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ArtefactError, match="Permission denied"):
        write_artefact(package, tmp_path / "m.tw")


def test_constants_may_be_empty(package, tmp_path):
    bare = replace(package.segments[0], constants=np.zeros(0, np.uint8))
    write_artefact(replace(package, segments=(bare,)), tmp_path / "m.tw")
    assert read_artefact(tmp_path / "m.tw").segments[0].constants.size == 0
