"""Where compiled kernels are kept, and found again.

There are two places. *Packs* are files in the installed package that the build fills (`build.py`), one
for each target (`cpu.py`); nothing else writes there, so the package may be read-only. What a pack has
not is compiled when it is needed, and kept in the cache directory. Code is found by everything that it
depends on: the sources of the kernel and of all that it imports, its types, the versions of what
compiles it, and the processor. Code that does not fit is never loaded.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import pickle
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from braid.cache_directory import cache_directory
from braid.jit.compiled import cpu
from braid.jit.compiled.cache import digest_of_function
from braid.jit.compiled.machine_code import Code
from braid.jit.types import Type

logger = logging.getLogger("braid.jit")

#: How code is written. Other forms are not read.
_FORMAT = 1

#: The packs of the installed package.
PACKS = Path(__file__).parent / "packs"


#: What is raised by code that is damaged, or was written by something else.
UNREADABLE = (OSError, ValueError, TypeError, KeyError, EOFError, pickle.UnpicklingError)


class Pack:
    """A file of compiled kernels: an index, then the code.

    The file stays open: if a build or an installation replaces it, this process still reads the code
    that its index describes. Reads name their place, because processes that are forked share the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("rb")
        size = int.from_bytes(self._read(0, 8), "little")
        self.versions, index = pickle.loads(self._read(8, size))
        self._start = 8 + size
        self._index: dict[str, tuple[int, int]] = index

    def find(self, key: str) -> Code | None:
        """The code of a kernel, if it is here."""
        place = self._index.get(key)
        if place is None:
            return None
        try:
            return Code(*pickle.loads(self._read(self._start + place[0], place[1])))
        except UNREADABLE as error:
            logger.debug("%s is damaged: %s", self.path, error)
            return None

    def _read(self, at: int, size: int) -> bytes:
        return os.pread(self._file.fileno(), size, at)

    def codes(self) -> dict[str, Code]:
        """All kernels that are here."""
        return {key: Code(*found) for key in self._index if (found := self.find(key))}


def write_pack(path: Path, codes: Mapping[str, Code]) -> None:
    """Write a pack of these kernels, complete or not at all."""
    index, parts, end = {}, [], 0
    for key, code in sorted(codes.items()):
        part = pickle.dumps(tuple(code))
        index[key] = (end, len(part))
        parts.append(part)
        end += len(part)
    head = pickle.dumps((cpu.versions(), index))
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, b"".join((len(head).to_bytes(8, "little"), head, *parts)))


def _write(path: Path, data: bytes) -> None:
    """Written under another name and renamed: another process may write or read the same file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def pack_path(folder: Path, target: str) -> Path:
    """The file of a pack. Python, Numba and the system are in its name: packs of several versions may
    be in one folder."""
    digest = hashlib.blake2b(f"{_FORMAT} {cpu.versions()}".encode(), digest_size=6).hexdigest()
    return folder / f"{target}-{digest}.pack"


@functools.cache
def _pack() -> Pack | None:
    """The best pack that this machine can run."""
    if os.environ.get("BRAID_PACKS") == "off":
        return None
    for target in cpu.targets():
        path = pack_path(PACKS, target)
        if not cpu.runs(target) or not path.exists():
            continue
        try:
            found = Pack(path)
        except UNREADABLE as error:
            logger.debug("%s is not used: %s", path, error)
            continue
        if found.versions == cpu.versions():
            return found
    others = [path.name for path in PACKS.glob("*.pack")] if PACKS.exists() else []
    logger.debug(
        "no compiled kernels for %s on %s in %s (there are: %s)",
        cpu.versions(), cpu.best_target() or "this processor", PACKS, ", ".join(others) or "none",
    )  # fmt: skip
    return None


def key_of(function: Any, arguments: tuple[Type, ...]) -> str | None:
    """What identifies the code of a kernel for these types; none if nothing can."""
    digest = digest_of_function(function)
    if digest is None:
        return None
    listed = ", ".join(map(str, arguments))
    return f"{function.__module__}.{function.__qualname__}({listed}) {digest}"


def find(key: str) -> Code | None:
    """The compiled kernel of that key, if there is one that fits."""
    pack = _pack()
    found = None if pack is None else pack.find(key)
    if found is None:
        _say_stale(key)
        found = _cached(key)
    return found


@functools.cache
def _say_stale(key: str) -> None:
    logger.debug("%s is in no pack", key)


def _cached(key: str) -> Code | None:
    path = _file(key)
    if path is None:
        return None
    try:
        return Code(*pickle.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except UNREADABLE as error:
        logger.debug("%s is not used: %s", path, error)
        return None


def add(key: str, code: Code) -> None:
    """Keep a kernel in the cache directory, if that can be written."""
    path = _file(key)
    if path is not None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, pickle.dumps(tuple(code)))


def _file(key: str) -> Path | None:
    directory = cache_directory()
    if directory is None:
        return None
    whole = f"{_FORMAT} {cpu.versions()} {cpu.host()} {key}"
    name = hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()
    return directory / "kernels" / name[:2] / f"{name}.kernel"
