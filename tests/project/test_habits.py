"""What contributors and hosted machines run exists: hooks, workflows, make targets, the version."""

from __future__ import annotations

import re
import shlex
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import braid
from tests.project.test_files import project_files
from tools import check_files

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = [
    "CONTRIBUTING.md",
    "README.md",
    "RELEASING.md",
    "SECURITY.md",
    ".github/pull_request_template.md",
]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def targets() -> set[str]:
    """The targets that the Makefile declares as commands."""
    declared = re.search(r"^\.PHONY: (.+)$", read("Makefile"), re.MULTILINE)
    assert declared
    return set(declared[1].split())


def steps(workflow: Path) -> list[str]:
    """The commands of a workflow, one for each `run:`."""
    return re.findall(r"^\s+-? ?run: (.+)$", workflow.read_text(encoding="utf-8"), re.MULTILINE)


def test_make_targets_are_commands_with_a_description() -> None:
    described = set(re.findall(r"^([a-z-]+):.*##", read("Makefile"), re.MULTILINE))
    assert described == targets()


def test_coverage_runs_tests_that_exist() -> None:
    """The Makefile lists folders, and files of one folder by what follows their prefix."""
    listed = re.search(
        r"^INTERPRETED := (.+?)\$\(addprefix \\\n\s+(.+?),(.+)\)$", read("Makefile"), re.M
    )
    assert listed
    paths = [*listed[1].split(), *(listed[2] + name for name in listed[3].split())]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_change_runs_the_tests_and_the_demo() -> None:
    text = read(".github/workflows/test.yml")
    assert steps(ROOT / ".github/workflows/test.yml") == ["make test", "make demo"]
    assert re.search(r"^  pull_request:$", text, re.MULTILINE)
    assert re.search(r"^  push:$", text, re.MULTILINE)


def test_every_night_runs_the_slow_tests() -> None:
    text = read(".github/workflows/test-all.yml")
    assert steps(ROOT / ".github/workflows/test-all.yml") == ["make ${{ matrix.target }}"]
    listed = re.search(r"^ +target: \[(.+)\]$", text, re.MULTILINE)
    assert listed
    assert listed[1].split(", ") == ["test-all", "coverage"]
    assert set(listed[1].split(", ")) <= targets()
    assert re.search(r"^  schedule:$", text, re.MULTILINE)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_only_read(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    assert re.findall(r"^ *permissions:.*\n(.*)$", text, re.MULTILINE) == ["  contents: read"]
    assert "secrets." not in text
    assert "pull_request_target" not in text
    for action in re.findall(r"uses: (.+)$", text, re.MULTILINE):
        assert re.fullmatch(r"actions/[a-z-]+@v\d+", action), f"not a first-party action: {action}"


def test_workflows_cover_the_supported_versions_of_python() -> None:
    listed = re.search(r"python: \[(.+)\]", read(".github/workflows/test.yml"))
    assert listed
    tested = [version.strip('"') for version in listed[1].split(", ")]
    project = tomllib.loads(read("pyproject.toml"))["project"]
    low, high = re.findall(r"3\.(\d+)", project["requires-python"])
    assert tested == [f"3.{minor}" for minor in range(int(low), int(high))]


def hooks() -> list[list[str]]:
    found = re.findall(r"^ +entry: (.+)$", read(".pre-commit-config.yaml"), re.MULTILINE)
    assert found
    return [shlex.split(entry) for entry in found]


@pytest.mark.parametrize("entry", hooks(), ids=lambda entry: " ".join(entry[:2]))
def test_hooks_run_commands_that_exist(entry: list[str]) -> None:
    command = Path(entry[0])
    assert command.parent == Path(".venv/bin"), "hooks run the tools that the lock file pins"
    here = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    assert any((folder / command.name).exists() for folder in here)
    for argument in entry[1:]:
        if "/" in argument:
            assert (ROOT / argument).exists()


def test_hooks_are_those_of_make_check() -> None:
    """What `make check` refuses, a commit refuses: the same tools, all of them local."""
    text = read(".pre-commit-config.yaml")
    assert re.findall(r"repo: (.+)", text) == ["local"]
    run = {" ".join(entry) for entry in hooks()}
    for tool in ("ruff format", "ruff check", "mypy", "pytest -q tests/project/test_imports.py"):
        assert any(f"/{tool}" in entry for entry in run), tool
        assert f"$(BIN)/{tool}" in read("Makefile")


def test_files_are_clean() -> None:
    assert check_files.main([str(path) for path in project_files()]) == 0


def test_checks_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = {
        "blanks.py": b"x = 1  \n",
        "ends.py": b"x = 1\r\ny = 2\n\n\n",
        "open.md": b"no newline",
        "conflict.md": b"<<<<<<< ours\n=======\n>>>>>>> theirs\n",
        "wrong.toml": b"[a\n",
        "latin.txt": b"\xe4\n",
        "large.txt": b"x\n" * check_files.LARGEST,
        "script.sh": b"#!/bin/sh\n",
    }
    for name, data in broken.items():
        (tmp_path / name).write_bytes(data)
        assert check_files.main([str(tmp_path / name)]) == 1, name
        assert name in capsys.readouterr().out
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0 \n\n")
    (tmp_path / "empty.py").write_bytes(b"")
    for name in ("picture.png", "empty.py", "gone.py"):
        assert check_files.main([str(tmp_path / name)]) == 0, name


def test_whitespace_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_bytes(b"a \t\r\n\r\nb\n\n")
    assert check_files.main(["--fix", str(path)]) == 1
    assert path.read_bytes() == b"a\n\nb\n"
    assert check_files.main(["--fix", str(path)]) == 0


@pytest.mark.parametrize("page", PAGES)
def test_pages_name_make_targets_that_exist(page: str) -> None:
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", read(page), re.MULTILINE))
    assert named <= targets()


def test_the_version_is_in_one_place() -> None:
    """The build reads the version from the package, so a wheel and `braid --version` agree."""
    project = tomllib.loads(read("pyproject.toml"))
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    built = ProjectMetadata(str(ROOT), PluginManager()).version
    assert built == braid.__version__
    elsewhere = [
        str(path.relative_to(ROOT))
        for path in project_files()
        if path.suffix in {".py", ".toml", ".sh", ".yml", ".yaml"}
        and re.search(rf"""["'=]v?{re.escape(built)}["']""", path.read_text(encoding="utf-8"))
    ]
    assert elsewhere == ["src/braid/__init__.py"]


def test_the_changelog_begins_with_the_version() -> None:
    """The newest section is that of the version: with its day, or on the way (`.dev0`)."""
    heading = re.search(r"^## (.+)$", read("CHANGELOG.md"), re.MULTILINE)
    assert heading
    found = re.fullmatch(r"(\d+\.\d+\.\d+) \((unreleased|\d{4}-\d\d-\d\d)\)", heading[1])
    assert found, heading[1]
    released, state = found.groups()
    assert braid.__version__ == (f"{released}.dev0" if state == "unreleased" else released)
