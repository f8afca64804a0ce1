"""House rules that a machine can check."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = ("compiler/tilewright", "bench", "datasets/tilewright_datasets", "reports/tilewright_reports")
LONGEST_FILE = 600
# Put together here, so that this file does not contain what it looks for.
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
DEVELOPMENT_DATA = "/".join(("..", "shared"))


def sources() -> list[Path]:
    found = [path for root in SOURCE_ROOTS for path in sorted((ROOT / root).rglob("*.py"))]
    # What asv builds lies below bench too.
    return [path for path in found if ".asv" not in path.parts]


def test_there_are_sources_to_check() -> None:
    assert len(sources()) > 100


def test_no_file_is_two_ideas_long() -> None:
    long = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources()}
    assert not {name: lines for name, lines in long.items() if lines > LONGEST_FILE}


def test_nothing_is_left_to_do() -> None:
    assert not [path for path in sources() if UNFINISHED.search(path.read_text())]


def test_no_drawer_for_everything() -> None:
    assert not [path for path in sources() if path.stem in ("utils", "helpers", "misc")]


def test_the_product_reads_no_development_data() -> None:
    assert not [path for path in sources() if DEVELOPMENT_DATA in path.read_text()]


def test_only_config_reads_the_environment() -> None:
    # Setting a variable for a driver below us is no reading.
    reading = re.compile(r"os\.environ(\.get\b|\[[^\]]+\](?!\s*=))|os\.getenv")
    found = {path.relative_to(ROOT).as_posix() for path in sources() if reading.search(path.read_text())}
    assert {name for name in found if Path(name).name != "config.py"} == set()


def rooms_with_code() -> list[str]:
    packages = (path.parent for path in (ROOT / "compiler/tilewright").glob("*/__init__.py"))
    return sorted(path.name for path in packages if path.name != "targets")


@pytest.mark.parametrize(
    "room", [*rooms_with_code(), "bench", "datasets", "reports", "target-cpu", "target-opencl"]
)
def test_every_room_has_its_page_in_the_index(room: str) -> None:
    assert (ROOT / "docs" / f"{room}.md").is_file()
    assert f"({room}.md)" in (ROOT / "docs" / "index.md").read_text()


@pytest.mark.parametrize(
    "page",
    sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]),
)
def test_links_lead_to_files(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#\s]+)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{page} links to {target}"


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/reports.md"])
def test_make_commands_in_the_pages_exist(page: str) -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / page).read_text(), re.MULTILINE))
    assert named
    assert named <= make_targets()


def test_the_readme_prints_what_the_make_commands_run() -> None:
    readme = (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    (models,) = re.findall(r"^MODELS := (.*)$", makefile, re.MULTILINE)
    (engines,) = re.findall(r"^ENGINES := (.*)$", makefile, re.MULTILINE)
    assert f"tilewright bench {models} {engines} --threads 1" in readme
    assert "python -m pytest -n 2 tests" in readme
    assert "-m pytest -n 2 tests" in makefile


def test_ci_runs_the_tests_as_a_user_would() -> None:
    script = (ROOT / ".ci/run").read_text()
    assert re.search(r"^make test$", script, re.MULTILINE)
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = sorted(int(path.name[:4]) for path in (ROOT / "docs/decisions").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))
