"""Compiled results are kept exactly as long as the sources that went into them are the same."""

import ast
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.kernels import cache

KERNELS = Path(cache.__file__).parent


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the kernels' sources, with a compiled result for each."""
    for source in KERNELS.glob("*.py"):
        shutil.copy(source, tmp_path)
    (tmp_path / "__pycache__").mkdir()
    for source in KERNELS.glob("*.py"):
        (tmp_path / "__pycache__" / f"{source.stem}.f-1.py311.nbi").write_text("compiled")
    monkeypatch.setattr(cache, "_HERE", tmp_path)
    forget_what_was_read()
    yield tmp_path
    forget_what_was_read()


def forget_what_was_read() -> None:
    cache._source.cache_clear()
    cache._imported.cache_clear()


def kept(room: Path) -> set[str]:
    return {p.name.partition(".")[0] for p in (room / "__pycache__").glob("*.nbi")}


def test_imports_are_found_as_the_language_defines_them() -> None:
    for source in KERNELS.glob("*.py"):
        expected = set()
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "braid.kernels":
                expected |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("braid."):
                expected.add((node.module or "").removeprefix("braid.kernels."))
        assert set(cache._imported(source.stem)) == expected, source.name


def test_results_without_a_stamp_are_thrown_away(room: Path) -> None:
    cache.forget_stale_results()
    assert kept(room) == set()
    assert json.loads((room / "__pycache__" / "kernels.stamp").read_text())["joins"]


def test_a_change_costs_the_results_of_those_that_use_it(room: Path) -> None:
    stamp = {p.stem: cache.sources_digest(p.stem) for p in room.glob("*.py")}
    (room / "__pycache__" / "kernels.stamp").write_text(json.dumps(stamp))
    everything = kept(room)
    cache.forget_stale_results()
    assert kept(room) == everything
    with (room / "joins_probe.py").open("a", encoding="utf-8") as file:
        file.write("\n# another version\n")
    forget_what_was_read()
    cache.forget_stale_results()
    gone = everything - kept(room)
    assert {"joins_probe", "joins", "joins_state"} <= gone
    assert not gone & {"joins_store", "steps", "access", "runtime"}


def test_results_of_modules_that_are_gone_go_too(room: Path) -> None:
    stamp = {p.stem: cache.sources_digest(p.stem) for p in room.glob("*.py")}
    (room / "__pycache__" / "kernels.stamp").write_text(json.dumps(stamp))
    (room / "__pycache__" / "former.f-1.py311.nbi").write_text("compiled")
    (room / "counting.py").unlink()
    forget_what_was_read()
    cache.forget_stale_results()
    assert not kept(room) & {"former", "counting"}


def test_a_stamp_that_cannot_be_read_counts_as_none(room: Path) -> None:
    (room / "__pycache__" / "kernels.stamp").write_text("not json")
    cache.forget_stale_results()
    assert kept(room) == set()
