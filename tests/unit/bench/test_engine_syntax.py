"""`name[:target][,key=value…]`, and what is said when a part is unknown."""

import pytest

from tilewright.errors import UsageError
from tilewright_bench.engines.registry import engine_of, known_engines, parse_engine


def test_every_engine_of_the_folder_is_found() -> None:
    assert {"tilewright", "ort", "openvino"} <= set(known_engines())


@pytest.mark.usefixtures("fake_engines")
def test_target_and_options_are_read() -> None:
    spec = parse_engine("fake:opencl:Some Device,gain=2,fails=run")
    assert (spec.name, spec.target) == ("fake", "opencl:Some Device")
    assert spec.options == {"gain": "2", "fails": "run"}
    assert parse_engine("fake").target == "cpu"


@pytest.mark.usefixtures("fake_engines")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nix", "unknown engine 'nix'.*known engines: fake, missing"),
        ("fake:gpu", "no target 'gpu'; its targets: cpu, opencl"),
        ("fake,gain", "'gain' is not key=value"),
        ("fake,colour=red", "no option 'colour'; its options: fails, gain, precision"),
    ],
)
def test_unknown_parts_are_named_with_the_known_ones(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_engine(text)


@pytest.mark.usefixtures("fake_engines")
def test_an_engine_that_is_not_installed_says_how_to_install_it() -> None:
    with pytest.raises(UsageError, match="'missing' is not available: install it with"):
        engine_of(parse_engine("missing"))
