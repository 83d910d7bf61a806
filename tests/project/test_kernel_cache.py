"""Compiled results are kept exactly as long as the sources that went into them are the same."""

import ast
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.jit import cache

PACKAGE = Path(cache.__file__).parents[1]
JOIN = "operators/join/kernels"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the kernels' sources, with a compiled result for each."""
    for source in cache._modules().values():
        folder = tmp_path / source.parent.relative_to(PACKAGE)
        (folder / "__pycache__").mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder)
        (folder / "__pycache__" / f"{source.stem}.f-1.py311.nbi").write_text("compiled")
    monkeypatch.setattr(cache, "_PACKAGE", tmp_path)
    forget_what_was_read()
    yield tmp_path
    forget_what_was_read()


def forget_what_was_read() -> None:
    cache._modules.cache_clear()
    cache._source.cache_clear()
    cache._imported.cache_clear()


def kept(folder: Path) -> set[str]:
    return {p.name.partition(".")[0] for p in (folder / "__pycache__").glob("*.nbi")}


def write_stamps(package: Path) -> None:
    for folder in cache._folders():
        prefix = cache._dotted(folder)
        stamp = {p.stem: cache.sources_digest(f"{prefix}.{p.stem}") for p in folder.glob("*.py")}
        (folder / "__pycache__" / "kernels.stamp").write_text(json.dumps(stamp))


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


def test_results_without_a_stamp_are_removed(package: Path) -> None:
    cache.forget_stale_results()
    assert kept(package / JOIN) == set()
    assert kept(package / "jit") == set()
    assert json.loads((package / JOIN / "__pycache__" / "kernels.stamp").read_text())["joins"]


def test_a_change_costs_the_results_of_those_that_use_it(package: Path) -> None:
    write_stamps(package)
    everything = kept(package / JOIN)
    cache.forget_stale_results()
    assert kept(package / JOIN) == everything
    with (package / JOIN / "probe.py").open("a", encoding="utf-8") as file:
        file.write("\n# another version\n")
    forget_what_was_read()
    cache.forget_stale_results()
    gone = everything - kept(package / JOIN)
    assert {"probe", "joins", "state"} <= gone
    assert "store" not in gone
    assert "runtime" in kept(package / "jit")
    assert "steps" in kept(package / "operators/pattern/kernels")


def test_a_change_reaches_the_kernels_of_other_families(package: Path) -> None:
    write_stamps(package)
    with (package / JOIN / "store.py").open("a", encoding="utf-8") as file:
        file.write("\n# another version\n")
    forget_what_was_read()
    cache.forget_stale_results()
    assert "join" not in kept(package / "operators/constraint_join/kernels")


def test_results_of_modules_that_are_gone_go_too(package: Path) -> None:
    write_stamps(package)
    folder = package / "operators/pattern/kernels"
    (folder / "__pycache__" / "former.f-1.py311.nbi").write_text("compiled")
    (folder / "counting.py").unlink()
    forget_what_was_read()
    cache.forget_stale_results()
    assert not kept(folder) & {"former", "counting"}


def test_a_stamp_that_cannot_be_read_counts_as_none(package: Path) -> None:
    (package / JOIN / "__pycache__" / "kernels.stamp").write_text("not json")
    cache.forget_stale_results()
    assert kept(package / JOIN) == set()
