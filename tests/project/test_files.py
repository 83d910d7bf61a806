"""What the repository holds fits together: codes are documented, files hold no machine's paths."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".sh",
    ".cel",
    ".test",
    ".lock",
    ".txt",
    ".lark",
    ".json",
    ".yml",
    ".yaml",
    "",
}
IGNORED = {".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
#: Folders of tests that are about the whole and mirror no package.
OF_THE_WHOLE = {"project", "properties", "scenarios"}
MACHINE_PATHS = re.compile(r"(?<![\w.<>-])/(?:root|home/\w+|Users/\w+|work/\w+|tmp/\w+)(?:/|\b)")


def project_files() -> list[Path]:
    """The files that are or would be committed; from the disk where there is no repository."""
    git = shutil.which("git")
    if git and (ROOT / ".git").exists():
        command = [git, "ls-files", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        found = [ROOT / line for line in listed.stdout.splitlines()]
    else:
        found = [p for p in ROOT.rglob("*") if not IGNORED & set(p.relative_to(ROOT).parts)]
    return [p for p in found if p.is_file() and p.suffix in TEXT]


def test_no_machine_paths() -> None:
    hits = []
    for path in project_files():
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if MACHINE_PATHS.search(line):
                hits.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not hits, "\n".join(hits)


def test_error_codes_are_documented() -> None:
    page = ROOT / "docs" / "errors.md"
    documented = set(re.findall(r"\b[EW]\d{3}\b", page.read_text(encoding="utf-8")))
    used: dict[str, str] = {}
    for path in (ROOT / "src").rglob("*.py"):
        for code in re.findall(r"[\"']([EW]\d{3})[\"']", path.read_text(encoding="utf-8")):
            used.setdefault(code, str(path.relative_to(ROOT)))
    missing = {code: where for code, where in used.items() if code not in documented}
    assert not missing, f"not in docs/errors.md: {missing}"


def test_pins_and_lock_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    locked = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    assert [pin for pin in wanted if pin not in locked] == []


@pytest.mark.parametrize("script", ["tools/find_python.sh", "tools/ensure_java.sh", ".ci/run"])
def test_scripts_are_executable_and_parse(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(path)], check=True)


def test_no_unfinished_work() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b|pytest\.mark\.(skip|xfail)\b")
    hits = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in project_files()
        if path.suffix == ".py" and path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if marks.search(line)
    ]
    assert not hits, "\n".join(hits)


def folders_with_modules(root: Path) -> set[str]:
    """The folders below `root` that hold modules, by their path from there."""
    return {path.parent.relative_to(root).as_posix() for path in root.rglob("*.py")} - {"."}


def test_tests_mirror_the_packages() -> None:
    """A test lies where the module that it is about lies, kernels included."""
    packages = folders_with_modules(ROOT / "src" / "braid")
    folders = folders_with_modules(ROOT / "tests") - OF_THE_WHOLE
    assert folders - packages == set(), "these folders of tests belong to no package"


def test_every_family_of_operators_has_tests() -> None:
    families = {
        path.parent.name for path in (ROOT / "src" / "braid" / "operators").glob("*/__init__.py")
    }
    tested = {
        path.name
        for path in (ROOT / "tests" / "operators").iterdir()
        if any(path.rglob("test_*.py"))
    }
    assert tested == families
