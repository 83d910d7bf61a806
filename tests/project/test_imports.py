"""Imports point one way, and importing `braid` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "braid"

#: What each room may import besides itself. `errors` is for everyone.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "algebra": set(),
    "lang": {"algebra", "plan"},
    "reference": {"algebra"},
    "kernels": {"algebra"},
    "plan": {"algebra"},
    "optimizer": {"algebra", "plan"},
    "mops": {"algebra", "plan", "kernels"},
    "engine": {"algebra", "plan", "optimizer", "mops", "kernels", "lang"},
    "spark": {"algebra", "plan", "optimizer", "mops", "engine", "lang"},
    "cli": {"algebra", "plan", "optimizer", "engine", "spark", "lang"},
    "demo": {"algebra", "engine", "spark", "lang", "cli"},
    "__init__": {"engine", "spark"},
}
MAY_USE_SPARK = {"spark", "cli", "demo"}


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that a file imports, at the top or inside a function, with its line."""
    package = path.relative_to(PACKAGE.parent).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module or "") if part)
            if module == "braid":
                for alias in node.names:
                    yield f"braid.{alias.name}", node.lineno
            else:
                yield module, node.lineno


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=[str(p.relative_to(PACKAGE)) for p in SOURCES])
def test_imports_point_one_way(path: Path) -> None:
    room = room_of(path)
    assert room in ALLOWED, f"{room} is not a room: say in {Path(__file__).name} what it may import"
    allowed = ALLOWED[room] | {room, "errors", "__version__"}
    for module, line in imports_of(path):
        parts = module.split(".")
        if parts[0] == "braid" and len(parts) > 1:
            assert parts[1] in allowed, f"{path.name}:{line}: {room} must not import {module}"
        if parts[0] in {"pyspark", "py4j"}:
            assert room in MAY_USE_SPARK, f"{path.name}:{line}: only spark and cli import pyspark"


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
