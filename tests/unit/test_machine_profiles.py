"""Profiles of machines: what is read, and what is refused in one sentence."""

import json
import re

import pytest

from tilewright.config import CompileOptions
from tilewright.driver import make_target
from tilewright.errors import UsageError
from tilewright.machine import Machine
from tilewright.targets.cpu.detect import host

PROFILE = {
    "name": "a laptop",
    "triple": "x86_64-unknown-linux-gnu",
    "features": ["fma", "avx2", "fma"],
    "vector_bits": 256,
    "registers": 16,
    "caches": [32768, 1048576, 16777216],
}


@pytest.fixture
def profile(tmp_path):
    """Writes a profile that differs from PROFILE in some fields; None leaves a field out."""

    def write(**changed):
        facts = {key: value for key, value in (PROFILE | changed).items() if value is not None}
        path = tmp_path / "machine.json"
        path.write_text(json.dumps(facts))
        return path

    return write


def target_for(path):
    return make_target(CompileOptions(machine=path))


def test_a_profile_is_a_machine(profile):
    machine = target_for(profile()).machine
    assert machine.features == ("avx2", "fma")
    assert machine.lanes() == 8
    assert machine.key == target_for(profile(name="another name", features=["avx2", "fma"])).machine.key


def test_what_devices_prints_is_a_profile(tmp_path):
    path = tmp_path / "host.json"
    path.write_text(json.dumps(host().to_json()))
    assert Machine.from_file(path) == host()
    assert target_for(path).machine == host()


@pytest.mark.parametrize("text", ["", "{", "[1]", "7", "null"])
def test_what_is_no_profile_is_named(tmp_path, text):
    path = tmp_path / "machine.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"machine profile .*machine\.json"):
        Machine.from_file(path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"triple": None}, "field 'triple' is missing"),
        ({"caches": None}, "field 'caches' is missing: the bytes of L1d, L2 and L3"),
        ({"vector_bits": None}, "field 'vector_bits' is missing"),
        ({"colour": "red"}, "there is no field 'colour'; known: name, triple"),
        ({"triple": 7}, "field 'triple' is 7; expected a string"),
        ({"features": "avx2"}, "field 'features' is \"avx2\"; expected a list of strings"),
        ({"registers": True}, "field 'registers' is true; expected a positive integer"),
        ({"caches": [32768]}, "field 'caches' is [32768]"),
        ({"units": ["fma"]}, "field 'units'"),
        ({"vector_bits": 100}, "vector_bits is 100; x86-64 has 128, 256, 512"),
        ({"registers": 1}, "registers is 1; x86-64 has 16, 32"),
        ({"vector_bits": 512}, "machine.json: vector_bits is 512; its features bring 256 at most"),
        ({"registers": 32}, "machine.json: registers is 32; its features bring 16 at most"),
        ({"vector_bits": 256, "features": ["sse4.2"]}, "vector_bits is 256; its features bring 128 at most"),
        ({"features": ["avx2", "avx9"]}, "no code is generated for the feature avx9; known: amx-bf16"),
        ({"units": {"fma": 1, "amx_bf16": 1}}, "none of its features brings the unit amx_bf16"),
        ({"triple": "aarch64-unknown-linux-gnu"}, "images are made for x86-64 Linux, not for 'aarch64"),
        ({"triple": "x86_64-apple-darwin"}, "images are made for x86-64 Linux"),
    ],
)
def test_a_field_that_does_not_fit_is_named(profile, changed, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        target_for(profile(**changed))
