"""Imports point one way, packages stay small, and importing `braid` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from braid.operators.registry import NAMES as FAMILIES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "braid"

#: Packages whose sub-packages are told apart; all others are one.
NESTED = {"engine", "lang", "operators", "spark"}

#: What each package may import besides itself, its parent and its own sub-packages, at the top of
#: a module or inside a function. `errors` is for everyone.
ALLOWED: dict[str, set[str]] = {
    "__init__": set(),
    "algebra": set(),
    "build": {"jit", "lang/parse"},
    "cache_directory": set(),
    "cli": {
        "algebra",
        "distribution",
        "engine",
        "engine/explain",
        "lang",
        "lang/catalog",
        "lang/parse",
        "operators",
        "spark",
    },
    "demo": {"cli", "spark"},
    "distribution": {"algebra"},
    "documents": {"algebra"},
    "engine": {
        "algebra",
        "distribution",
        "documents",
        "lang",
        "lang/bind",
        "lang/catalog",
        "operators",
        "operators/core",
        "optimizer",
        "plan",
    },
    "engine/explain": {
        "algebra",
        "lang",
        "lang/parse",
        "operators",
        "operators/core",
        "optimizer",
        "plan",
    },
    "engine/io": {"algebra", "documents", "operators/core", "plan"},
    "errors": set(),
    "jit": {"algebra", "cache_directory", "plan"},
    "lang": set(),
    "lang/bind": {"algebra", "lang/parse", "plan"},
    "lang/catalog": {"algebra", "lang/bind", "lang/parse", "lang/templates"},
    "lang/parse": {"algebra", "cache_directory"},
    "lang/templates": {"algebra", "lang/bind", "lang/parse"},
    "operators": {"algebra", "plan"},
    "operators/constraint_join": {
        "algebra",
        "distribution",
        "jit",
        "operators/core",
        "operators/join",
        "operators/project",
        "operators/window",
        "plan",
    },
    "operators/core": {"algebra", "documents", "jit", "plan"},
    "operators/detect": {
        "algebra",
        "jit",
        "operators/core",
        "operators/project",
        "operators/select",
        "operators/window",
        "plan",
    },
    "operators/documents": {
        "algebra",
        "distribution",
        "documents",
        "jit",
        "operators/core",
        "operators/project",
        "plan",
    },
    "operators/group": {"algebra", "jit", "operators/core", "operators/select", "plan"},
    "operators/join": {"algebra", "jit", "operators/core", "operators/window", "plan"},
    "operators/pattern": {"algebra", "jit", "operators/core", "operators/select", "plan"},
    "operators/project": {"algebra", "jit", "operators/core", "operators/select", "plan"},
    "operators/select": {"algebra", "jit", "operators/core", "plan"},
    "operators/selection_join": {
        "algebra",
        "jit",
        "operators/core",
        "operators/join",
        "operators/select",
        "plan",
    },
    "operators/stream": {"algebra", "operators/core", "operators/project", "plan"},
    "operators/to_stream": {
        "algebra",
        "jit",
        "operators/core",
        "operators/join",
        "operators/project",
        "operators/stream",
        "operators/window",
        "plan",
    },
    "operators/window": {
        "algebra",
        "jit",
        "operators/core",
        "operators/group",
        "operators/project",
        "operators/select",
        "plan",
    },
    "optimizer": {"algebra", "operators", "plan"},
    "plan": {"algebra", "distribution"},
    "reference": {"algebra"},
    "spark": {
        "algebra",
        "distribution",
        "engine",
        "engine/explain",
        "engine/io",
        "lang",
        "lang/bind",
        "lang/catalog",
        "operators",
    },
    "spark/pipeline": {"algebra", "distribution", "documents", "engine/io"},
    "spark/shards": {
        "algebra",
        "distribution",
        "documents",
        "engine",
        "engine/explain",
        "engine/io",
        "lang",
        "spark/pipeline",
    },
}
MAY_USE_SPARK = {"spark", "cli", "demo"}
#: A folder with more modules than this wants to be split.
MOST_MODULES = 26


def package_of(module: str) -> str:
    """The package of a module that is given by its path below `braid`: `operators/join`."""
    first, *rest = module.split("/")
    return f"{first}/{rest[0]}" if first in NESTED and len(rest) > 1 else first


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


def is_for_types(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that a file imports, at the top or inside a function, with its line.

    What is imported for annotations only is left out: nothing happens at run time.
    """
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are written out in full"
            module = node.module or ""
            yield module, node.lineno
            for alias in node.names:
                yield f"{module}.{alias.name}", node.lineno
        if not is_for_types(node):
            waiting.extend(ast.iter_child_nodes(node))


SOURCES = sorted(PACKAGE.rglob("*.py"))
MODULES = {name_of(path): path for path in SOURCES}


def braid_imports(path: Path) -> Iterator[tuple[str, int]]:
    """The modules of Braid that a file imports, by path, with the line."""
    for module, line in imports_of(path):
        first, *rest = module.split(".")
        name = "/".join(rest)
        found = name if name in MODULES else f"{name}/__init__"
        if first == "braid" and found in MODULES and MODULES[found] != path:
            yield found, line


def is_relative(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


@pytest.mark.parametrize("path", SOURCES, ids=list(MODULES))
def test_imports_point_one_way(path: Path) -> None:
    package = package_of(name_of(path))
    assert package in ALLOWED, f"say in {Path(__file__).name} what {package} may import"
    for module, line in braid_imports(path):
        other = package_of(module)
        allowed = other in ALLOWED[package] or other == "errors" or is_relative(package, other)
        assert allowed, f"{path.name}:{line}: {package} must not import {module}"
    for module, line in imports_of(path):
        if module.partition(".")[0] in {"pyspark", "py4j"}:
            top = package.partition("/")[0]
            assert top in MAY_USE_SPARK, f"{path.name}:{line}: only spark and cli import pyspark"


def test_packages_form_no_cycle() -> None:
    """Between packages that are not one inside the other, whatever is allowed has an order."""
    TopologicalSorter(ALLOWED).prepare()


def test_modules_form_no_cycle() -> None:
    """Not even through imports inside functions, or through the registry, which imports by name."""
    imports = {
        name: {module for module, _ in braid_imports(path)} for name, path in MODULES.items()
    }
    imports["operators/registry"] |= {f"operators/{family}/family" for family in FAMILIES}
    TopologicalSorter(imports).prepare()


@pytest.mark.parametrize("family", FAMILIES)
def test_only_families_know_families(family: str) -> None:
    """Everything else asks the registry, or uses what is in `operators/core`."""
    for package, others in ALLOWED.items():
        inside = package.startswith("operators/")
        assert inside or f"operators/{family}" not in others, f"{package} names {family}"


def test_what_is_allowed_is_used() -> None:
    used: dict[str, set[str]] = {package: set() for package in ALLOWED}
    for name, path in MODULES.items():
        used[package_of(name)] |= {package_of(module) for module, _ in braid_imports(path)}
    assert {p: others - used[p] for p, others in ALLOWED.items() if others - used[p]} == {}


def test_no_folder_has_too_many_modules() -> None:
    folders = {path.parent for path in SOURCES}
    sizes = {folder.name: len(list(folder.glob("*.py"))) for folder in folders}
    assert {name: size for name, size in sizes.items() if size > MOST_MODULES} == {}


def run_fresh(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_is_light(record_property: pytest.RecordProperty) -> None:
    """Neither Spark nor the compiler comes with `import braid`; the time is reported only."""
    seconds, heavy = run_fresh(
        "import sys, time; t = time.perf_counter(); import braid\n"
        "print(time.perf_counter() - t,"
        " [m for m in ('pyspark', 'numba', 'pandas') if m in sys.modules], sep='|')"
    ).split("|")
    record_property("import_seconds", seconds)
    print(f"import braid: {float(seconds) * 1000:.0f} ms")
    assert heavy == "[]"


def test_everything_exported_exists() -> None:
    run_fresh("import braid; [getattr(braid, name) for name in braid.__all__]")


def test_unknown_attributes_are_refused() -> None:
    import braid

    with pytest.raises(AttributeError, match="no attribute 'Motor'"):
        _ = braid.Motor
