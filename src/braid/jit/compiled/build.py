"""Builds kernels ahead: `python -m braid.build` writes packs of compiled kernels into the package.

What is built is found in the sources: each kernel with a signature, and each kernel without one for the
types that Python calls it with. These are recorded in `calls.txt`, by tests that run all operators
(`pytest --record-calls`). A kernel or a call that is missing there costs time, and no more: it is
compiled when it is called.

One process compiles for one target, because the compiler has one processor. Several processes share the
kernels of a target.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from braid.jit import types
from braid.jit.compiled import store
from braid.jit.compiled.cache import kernel_modules
from braid.jit.compiled.machine_code import Code
from braid.jit.runtime import Entry, Kernel

#: The types that Python calls kernels without a signature with.
CALLS = Path(__file__).parent / "calls.txt"


class Wanted(NamedTuple):
    """A kernel to be built for these types."""

    function: Any
    arguments: tuple[types.Type, ...]


# ---- what is built ----


def wanted() -> list[Wanted]:
    """All kernels that Python calls, for all types that it calls them with."""
    kernels = dict(_kernels())
    found = [
        Wanted(each.function, each.arguments)
        for each in kernels.values()
        if isinstance(each, Entry)
    ]
    return found + [call for line in calls() if (call := _call(line, kernels)) is not None]


def _call(line: str, kernels: Mapping[str, Any]) -> Wanted | None:
    """The kernel of a recorded call; none if it is gone or takes something else now."""
    name = line.partition("(")[0]
    known = kernels.get(name)
    if not isinstance(known, Kernel):
        return None
    arguments = _Parser(line[len(name) :]).arguments()
    if arguments is None or len(arguments) != known.function.__code__.co_argcount:
        return None
    return Wanted(known.function, arguments)


def calls() -> list[str]:
    """The recorded calls: a kernel with the types of its arguments on each line."""
    return CALLS.read_text(encoding="utf-8").split("\n")[:-1] if CALLS.exists() else []


def record(found: Iterable[str]) -> None:
    """Add calls of kernels of the package to the recorded ones, and forget those that are gone."""
    kernels = dict(_kernels())
    lines = {line for line in {*calls(), *found} if _call(line, kernels) is not None}
    CALLS.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")


def _kernels() -> Iterator[tuple[str, Any]]:
    for name in kernel_modules():
        for each in vars(importlib.import_module(name)).values():
            if isinstance(each, Entry | Kernel) and each.function.__module__ == name:
                yield f"{name}.{each.function.__qualname__}", each


class _Parser:
    """Reads the names of types (`types.py`)."""

    _TOKEN = re.compile(r"\s*([\w.]+|[(),*]|\[[^\]]*\])")

    def __init__(self, text: str) -> None:
        self._tokens = self._TOKEN.findall(text)

    def arguments(self) -> tuple[types.Type, ...] | None:
        """The items between parentheses; none if a class that they name is gone."""
        try:
            return self._items()
        except (AttributeError, ImportError):
            return None

    def _items(self) -> tuple[types.Type, ...]:
        assert self._tokens.pop(0) == "("
        found = []
        while self._tokens[0] != ")":
            found.append(self._type())
            if self._tokens[0] == ",":
                self._tokens.pop(0)
        self._tokens.pop(0)
        return tuple(found)

    def _type(self) -> types.Type:
        if self._tokens[0] == "(":
            return types.Tuple(self._items())
        name = self._tokens.pop(0)
        following = self._tokens[0] if self._tokens else ""
        if following == "*":
            self._tokens.pop(0)
            return types.Pointer(_named(name))
        if following == "(":
            return types.Tuple(self._items(), _named(name))
        if following.startswith("["):
            return _array(types.Type(name), self._tokens.pop(0)[1:-1].split())
        return types.Type(name)


def _array(dtype: types.Type, words: list[str]) -> types.Array:
    form, *flags = words
    return types.Array(
        dtype, int(form[:-1]), form[-1], "readonly" in flags, "unaligned" not in flags
    )


def _named(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


# ---- building ----


def build(folder: Path, targets: Iterable[str], processes: int) -> list[Path]:
    """Write a pack for each target into a folder; kernels of the same sources are not built again."""
    return [_build_for(folder, target, processes) for target in targets]


def _build_for(folder: Path, target: str, processes: int) -> Path:
    path = store.pack_path(folder, target)
    known = _known(path)
    keys = {key for each in wanted() if (key := store.key_of(each.function, each.arguments))}
    codes = {key: code for key, code in known.items() if key in keys}
    if codes.keys() != keys:
        with tempfile.TemporaryDirectory(prefix="braid-build-") as made:
            codes |= _compiled(keys - codes.keys(), target, processes, Path(made))
    if codes.keys() != known.keys():
        store.write_pack(path, codes)
    for former in folder.glob(f"{target}-*.pack"):
        if former != path:
            former.unlink()
    return path


def _known(path: Path) -> dict[str, Code]:
    try:
        return store.Pack(path).codes()
    except (OSError, ValueError, EOFError):
        return {}


def _compiled(keys: set[str], target: str, processes: int, made: Path) -> dict[str, Code]:
    """Compile kernels in several processes, each of which takes the next one when it is ready."""
    environment = {**os.environ, "NUMBA_CPU_NAME": target, "NUMBA_CPU_FEATURES": ""}
    queue = made / "queue"
    queue.mkdir()
    (made / "taken").mkdir()
    for n, key in enumerate(sorted(keys)):
        (queue / str(n)).write_text(key, encoding="utf-8")
    command = [sys.executable, "-m", "braid.jit.compiled.build", "--worker", str(made)]
    running = [subprocess.Popen(command, env=environment) for _ in range(processes)]
    failed = [each.returncode for each in running if each.wait()]
    if failed:
        raise RuntimeError(f"kernels for {target} could not be built")
    codes: dict[str, Code] = {}
    for file in made.glob("*.kernels"):
        codes |= {key: Code(*code) for key, code in pickle.loads(file.read_bytes()).items()}
    return codes


def work(made: Path) -> None:
    """Compile kernels of the queue until there are none."""
    from braid.jit.compiled.compiler import compiled

    by_key = {store.key_of(each.function, each.arguments): each for each in wanted()}
    codes = {}
    for file in sorted((made / "queue").iterdir(), key=lambda path: int(path.name)):
        taken = made / "taken" / file.name
        try:
            file.rename(taken)
        except FileNotFoundError:
            continue
        key = taken.read_text(encoding="utf-8")
        codes[key] = tuple(compiled(*by_key[key]))
    (made / f"{os.getpid()}.kernels").write_bytes(pickle.dumps(codes))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", type=Path, required=True)
    work(parser.parse_args().worker)
