"""Compiled kernels are found if they fit, and never loaded if they don't."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest

from braid.jit import types
from braid.jit.compiled import build, cache, cpu, store
from braid.jit.records import Words
from braid.jit.runtime import COMPILED, WORDS, Entry, kernel

pytestmark = pytest.mark.skipif(not COMPILED, reason="without the compiler nothing is compiled")

SOURCE = """
from braid.jit import types
from braid.jit.runtime import kernel

@kernel((types.int64,))
def entered(number):
    return number + 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a kernel; no packs, and an empty cache directory."""
    monkeypatch.setenv("BRAID_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "PACKS", tmp_path / "packs")
    (tmp_path / "stored.py").write_text(SOURCE, encoding="utf-8")
    forget()
    yield tmp_path
    monkeypatch.undo()
    forget()


def forget() -> None:
    store._pack.cache_clear()
    cache._of_file.cache_clear()


def entered(folder: Path) -> Entry:
    """The kernel, imported anew."""
    forget()
    spec = importlib.util.spec_from_file_location("stored", folder / "stored.py")
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules["stored"] = module
    spec.loader.exec_module(module)
    found = module.entered
    assert isinstance(found, Entry)
    return found


def kernels(folder: Path) -> int:
    """How many kernels are in the cache directory."""
    return len(list((folder / "cache").rglob("*.kernel")))


def write_pack(folder: Path, target: str) -> Path:
    """A pack with the kernel, for a target; the cache directory is empty again."""
    assert entered(folder)(1) == 2
    (made,) = (folder / "cache").rglob("*.kernel")
    found = entered(folder)
    key = store.key_of(found.function, found.arguments)
    assert key is not None
    code = store.find(key)
    assert code is not None
    path = store.pack_path(folder / "packs", target)
    store.write_pack(path, {key: code})
    made.unlink()
    return path


def test_a_kernel_of_a_pack_is_not_compiled(folder: Path) -> None:
    write_pack(folder, cpu.best_target())
    assert entered(folder)(1) == 2
    assert kernels(folder) == 0


def test_a_pack_that_is_replaced_is_read_as_it_was(folder: Path) -> None:
    """By a build or an installation, while a process runs."""
    path = write_pack(folder, cpu.best_target())
    pack = store.Pack(path)
    (key,) = pack._index
    before = pack.find(key)
    assert before is not None
    store.write_pack(path, {"another": before, key: before})
    assert pack.find(key) == before


def test_damaged_code_in_a_pack_is_compiled_anew(folder: Path) -> None:
    path = write_pack(folder, cpu.best_target())
    data = bytearray(path.read_bytes())
    data[-200:] = bytes(200)
    path.write_bytes(bytes(data))
    pack = store.Pack(path)
    assert pack.codes() == {}


def test_packs_can_be_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pack(folder, cpu.best_target())
    monkeypatch.setenv("BRAID_PACKS", "off")
    assert entered(folder)(1) == 2
    assert kernels(folder) == 1


def test_the_best_pack_that_the_processor_runs_is_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    better = write_pack(folder, cpu.targets()[0])
    plain = store.pack_path(folder / "packs", cpu.targets()[-1])
    plain.write_bytes(better.read_bytes())
    monkeypatch.setattr(cpu, "runs", lambda target: True)
    forget()
    found = store._pack()
    assert found is not None
    assert found.path == better
    monkeypatch.setattr(cpu, "runs", lambda target: target == cpu.targets()[-1])
    forget()
    found = store._pack()
    assert found is not None
    assert found.path == plain
    monkeypatch.setattr(cpu, "runs", lambda target: False)
    forget()
    assert store._pack() is None


@pytest.mark.parametrize("what", ["versions", "damage", "sources"])
def test_a_pack_that_does_not_fit_is_not_loaded(
    what: str, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_pack(folder, cpu.best_target())
    caplog.set_level(logging.DEBUG, logger="braid.jit")
    if what == "versions":
        with monkeypatch.context() as other:
            other.setattr(cpu, "versions", lambda: "another Python")
            store.pack_path(folder / "packs", cpu.best_target()).write_bytes(path.read_bytes())
        path.write_bytes(path.read_bytes().replace(b"numba", b"mamba"))
    elif what == "damage":
        path.write_bytes(path.read_bytes()[:100])
    else:
        source = (folder / "stored.py").read_text(encoding="utf-8")
        (folder / "stored.py").write_text(source.replace("+ 1", "+ 2"), encoding="utf-8")
    assert entered(folder)(1) == (3 if what == "sources" else 2)
    assert kernels(folder) == 1
    if what != "sources":
        said = [r for r in caplog.records if r.getMessage().startswith("no compiled kernels for")]
        assert len(said) == 1


def test_damaged_code_in_the_cache_is_compiled_anew(folder: Path) -> None:
    assert entered(folder)(1) == 2
    (made,) = (folder / "cache").rglob("*.kernel")
    whole = made.read_bytes()
    made.write_bytes(whole[:50])
    assert entered(folder)(1) == 2
    assert len(made.read_bytes()) == len(whole)


def test_code_for_another_processor_is_not_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert entered(folder)(1) == 2
    monkeypatch.setattr(cpu, "host", lambda: "another processor")
    assert entered(folder)(1) == 2
    assert kernels(folder) == 2


def test_a_directory_that_cannot_be_written_costs_only_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").write_text("not a directory", encoding="utf-8")
    monkeypatch.setenv("BRAID_CACHE_DIR", str(folder / "file" / "cache"))
    assert entered(folder)(1) == 2


class Pair(NamedTuple):
    """What a kernel takes and returns."""

    first: np.ndarray
    second: int


def test_types_have_names_that_are_read_back() -> None:
    readonly = np.zeros(3, np.uint8)
    readonly.setflags(write=False)
    values = (
        1, 1.5, True, np.int32(1), np.zeros(2), np.zeros((2, 2), np.int32), np.zeros((3, 3)).T,
        np.zeros((4, 4))[::2, ::2], readonly, Words(0), (1, (2.0, np.zeros(1))),
        Pair(np.zeros(1, bool), 3),
    )  # fmt: skip
    found = types.Tuple(map(types.type_of, values))
    sys.modules[__name__] = sys.modules.get(__name__) or ModuleType(__name__)
    setattr(sys.modules[__name__], "Pair", Pair)  # noqa: B010
    assert build._Parser(found.name).arguments() == found.items
    assert len(set(map(types.key_of, values))) == len(values)


@kernel((WORDS, types.int64))
def total(words: np.ndarray, more: int) -> int:
    found = more
    for n in range(len(words)):
        found += words[n]
    return found


@pytest.mark.parametrize(
    "array", [np.zeros(4), np.zeros((2, 2), np.int64), np.arange(8)[::2], np.zeros(4, np.int32)]
)
def test_an_array_of_another_type_is_refused(array: np.ndarray) -> None:
    assert total(np.arange(4), 1) == 7
    with pytest.raises(TypeError, match="total: argument 1 is"):
        total(array, 1)
