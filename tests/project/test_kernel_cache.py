"""Compiled code is found by all sources that went into it: it never outlives a change of one."""

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.jit.compiled import cache

PACKAGE = Path(cache.__file__).parents[2]
JOIN = "operators/join/kernels"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package's sources."""
    copied = shutil.copytree(
        PACKAGE, tmp_path / "braid", ignore=shutil.ignore_patterns("__pycache__", "*.pack")
    )
    monkeypatch.setattr(cache, "_PACKAGE", copied)
    forget_what_was_read()
    yield copied
    forget_what_was_read()


def forget_what_was_read() -> None:
    cache._modules.cache_clear()
    cache._source.cache_clear()
    cache._imported.cache_clear()


def digests() -> dict[str, str]:
    return {name: cache.sources_digest(name) for name in cache._modules()}


def changed(path: Path) -> set[str]:
    """The modules whose code is compiled anew after a change of a file."""
    before = digests()
    with path.open("a", encoding="utf-8") as file:
        file.write("\n# another version\n")
    forget_what_was_read()
    after = digests()
    return {name for name in before if before[name] != after[name]}


def test_all_imports_are_found() -> None:
    """Perhaps more: an import in a text counts as well."""
    known = cache._modules()
    for name, source in known.items():
        expected = set()
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("braid."):
                module = (node.module or "").removeprefix("braid.")
                expected |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
        assert set(cache._imported(name)) >= expected & set(known), name


def test_a_change_costs_the_code_of_those_that_use_it(package: Path) -> None:
    gone = changed(package / JOIN / "probe.py")
    prefix = "operators.join.kernels"
    assert {f"{prefix}.probe", f"{prefix}.joins", f"{prefix}.state"} <= gone
    assert not gone & {f"{prefix}.store", "jit.runtime", "operators.pattern.kernels.steps"}


def test_a_change_reaches_the_kernels_of_other_families(package: Path) -> None:
    gone = changed(package / JOIN / "store.py")
    assert "operators.constraint_join.kernels.join" in gone


def test_constants_of_other_modules_count(package: Path) -> None:
    """Kernels have the constants that they import in their code."""
    assert "operators.pattern.kernels.steps" in changed(package / "operators/core/bounds.py")
    assert "operators.core.kernels.rows" in changed(package / "plan/layout.py")
