"""The walls between the rooms hold, and every room has one."""

import ast
import configparser
from importlib.util import find_spec
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).parents[2]
COMPILER = ROOT / "compiler" / "tilewright"
BASE = (
    "errors",
    "dtypes",
    "types",
    "storage",
    "expr",
    "machine",
    "config",
    "segment",
    "arithmetic",
    "disk_cache",
    "sources",
    "faults",
    "files",
)


def contracts() -> dict[str, dict[str, list[str]]]:
    file = configparser.ConfigParser()
    file.read(ROOT / ".importlinter")
    lists = {
        section: {key: value.split() for key, value in file[section].items()}
        for section in file.sections()
        if section.startswith("importlinter:contract:")
    }
    assert lists, "no contract was read"
    return lists


def rooms() -> list[str]:
    """Packages of the compiler that stand in the data path."""
    return sorted(path.parent.name for path in COMPILER.glob("*/__init__.py") if path.parent.name != "cli")


def facade() -> list[str]:
    """Modules and packages at the top that are no base: the facade, the driver, the commands."""
    files = (path.stem for path in COMPILER.glob("*.py"))
    return [*sorted(name for name in files if name not in (*BASE, "__init__")), "cli"]


def test_all_arrows_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == EXIT_STATUS_SUCCESS, "run lint-imports to see which arrow is new"


@pytest.mark.parametrize("room", rooms())
def test_every_room_has_a_contract_of_its_own(room: str) -> None:
    found = contracts().get(f"importlinter:contract:{room}")
    assert found is not None, f".importlinter has no contract for {room}"
    assert found["source_modules"] == [f"tilewright.{room}"]
    unsaid = {name for name in (*rooms(), *facade()) if name != room} - said(found)
    allowed = {name.strip(",") for name in found["name"]}
    assert unsaid <= allowed, f"the contract of {room} neither forbids nor names {unsaid - allowed}"


def test_base_imports_no_room() -> None:
    found = contracts()["importlinter:contract:base"]
    assert set(found["source_modules"]) == {f"tilewright.{name}" for name in BASE}
    assert said(found) >= {*rooms(), *facade()}


@pytest.mark.parametrize("name", ["bench", "datasets", "reports"])
def test_other_source_roots_have_a_contract(name: str) -> None:
    assert contracts()[f"importlinter:contract:{name}"]["source_modules"] == [f"tilewright_{name}"]


def test_a_device_file_imports_base_and_runtime_only() -> None:
    for path in COMPILER.glob("targets/*/device.py"):
        target = f"tilewright.targets.{path.parent.name}"
        allowed = (*(f"tilewright.{name}" for name in BASE), "tilewright.runtime", target)
        for module in imported(path):
            inside = [name for name in allowed if module == name or module.startswith(f"{name}.")]
            assert inside or not module.startswith("tilewright"), f"{path.name} of {target} imports {module}"


def test_packages_on_the_way_to_the_runtime_are_empty() -> None:
    for package in ("runtime", "targets", "targets/cpu", "targets/opencl", "targets/numpy"):
        tree = ast.parse((COMPILER / package / "__init__.py").read_text())
        assert all(isinstance(node, ast.Expr) for node in tree.body), f"{package}/__init__.py runs code"


@pytest.mark.parametrize(
    "name", ["tilewright", "tilewright_bench", "tilewright_datasets", "tilewright_reports"]
)
def test_the_four_source_roots_are_importable(name: str) -> None:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).is_relative_to(ROOT), "the tests run against another checkout"


def said(contract: dict[str, list[str]]) -> set[str]:
    """First-level names below tilewright that a contract forbids."""
    return {name.split(".")[1] for name in contract["forbidden_modules"] if name.startswith("tilewright.")}


def imported(path: Path) -> list[str]:
    """Modules that a file imports, wherever in it."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
    return found
