"""A kernel that two processes want at once is compiled by one of them."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from braid.jit import compile_lock as once
from braid.jit.runtime import COMPILED

pytestmark = pytest.mark.skipif(not COMPILED, reason="without the compiler nothing is compiled")

SOURCE = """
from numba import types
from braid.jit.runtime import kernel

@kernel((types.int64,))
def entered(number):
    return number + 1

@kernel()
def called(number):
    return number + 2
"""
ANOTHER = """
import wanted
print("asks", flush=True)
assert (wanted.entered(1), wanted.called(1)) == (2, 3)
found = [wanted.entered._compiled, wanted.called]
print([sum(each.stats.cache_misses.values()) for each in found])
"""


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = tmp_path / "wanted.py"
    path.write_text(SOURCE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("wanted", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "wanted", module)
    spec.loader.exec_module(module)
    return module


def test_whoever_comes_later_takes_the_result(wanted: ModuleType, tmp_path: Path) -> None:
    path = os.pathsep.join([str(tmp_path), *(p for p in sys.path if p)])
    with once.compiled_once(wanted.entered._function):
        another = subprocess.Popen(
            [sys.executable, "-c", ANOTHER],
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert another.stdout is not None
        assert another.stdout.readline() == "asks\n"
        # It waits for the first of them; all are there when it may go on.
        wanted.called(1)
        wanted.entered(1)
    shown, _ = another.communicate()
    assert another.returncode == 0
    assert shown == "[0, 0]\n"


@pytest.mark.parametrize("lacking", ["locks", "a place"])
def test_where_nothing_can_be_locked_everybody_compiles(
    lacking: str, wanted: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacking == "locks":
        monkeypatch.setattr(once, "fcntl", None)
    else:
        monkeypatch.setattr(once, "_file", lambda directory, process: None)
    assert (wanted.entered(1), wanted.called(1)) == (2, 3)
