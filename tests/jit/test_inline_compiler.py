"""Kernels that are parts of other kernels."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from braid.jit.runtime import COMPILED, kernel

pytestmark = pytest.mark.skipif(not COMPILED, reason="without the compiler there are no parts")

SOURCE = """
from braid.jit.runtime import kernel

@kernel()
def inner(number):
    if number < 0:
        raise ValueError("too small")
    return number + 1

@kernel()
def outer(number):
    return inner(number) * inner(number + 1)
"""


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("parted", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BRAID_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "parted.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def test_python_calls_both_a_part_and_what_it_is_part_of(source: Path) -> None:
    parted = loaded(source)
    assert parted.outer(3) == 20
    assert parted.inner(3) == 4
    for function in (parted.outer, parted.inner):
        with pytest.raises(ValueError, match="too small"):
            function(-5)


def test_what_python_calls_is_kept_on_disk(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = loaded(source)
    assert (first.outer(3), first.inner(3)) == (20, 4)
    assert len(list(source.parent.rglob("*.kernel"))) == 2
    monkeypatch.setattr("braid.jit.compiled.compiler.compiled", None)
    again = loaded(source)
    assert (again.outer(3), again.inner(3)) == (20, 4)
    with pytest.raises(ValueError, match="too small"):
        again.outer(-5)


def test_a_part_from_disk_is_linked_into_others(source: Path) -> None:
    loaded(source).outer(3)
    inner = loaded(source).inner

    @kernel()
    def other(number: int) -> int:
        return inner(number) - 1

    kept = {path: path.stat().st_mtime_ns for path in source.parent.rglob("*part.inner*")}
    assert kept
    assert other(7) == 7
    assert kept == {path: path.stat().st_mtime_ns for path in source.parent.rglob("*part.inner*")}
    with pytest.raises(ValueError, match="too small"):
        other(-1)
