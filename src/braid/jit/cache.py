"""Removes compiled kernels that belong to other versions of their sources.

Numba caches results beside the sources. It notices when the file of a function changes, but not
when a file changes whose code it inlined, nor when a type that a result mentions is gone. After an
upgrade, such a result would run with the wrong code. So each directory of kernels has a stamp: for
each module a digest of its source and of all kernel modules that it imports. A change of one
module invalidates the results of the modules that use it, and no others.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

#: The package whose kernels are cached, and the folders in it that have kernels.
_PACKAGE = Path(__file__).parents[1]
_FOLDERS = ("jit", "operators/*/kernels")
_IMPORT = re.compile(
    r"^\s*(?:from braid\.([\w.]+) import (\([^)]*\)|.*)|import braid\.([\w.]+))", re.MULTILINE
)


def sources_digest(*modules: str) -> str:
    """A hash of the sources of some kernel modules, and of all kernel modules that they import.

    Modules are named as in an import, without `braid.`: `jit.scalars`.
    """
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(_closure(modules)):
        digest.update(_source(name).encode())
    return digest.hexdigest()


def forget_stale_results() -> None:
    """Remove results that belong to other sources. A read-only installation has none of ours."""
    for folder in _folders():
        prefix = _dotted(folder)
        current = {p.stem: sources_digest(f"{prefix}.{p.stem}") for p in folder.glob("*.py")}
        _forget(folder / "__pycache__", current)


def _forget(directory: Path, current: dict[str, str]) -> None:
    stamp = directory / "kernels.stamp"
    with contextlib.suppress(OSError):
        known = _read(stamp)
        if known == current:
            return
        directory.mkdir(exist_ok=True)
        for result in (*directory.glob("*.nbi"), *directory.glob("*.nbc")):
            module = result.name.partition(".")[0]
            if module not in current or known.get(module) != current[module]:
                result.unlink(missing_ok=True)
        stamp.write_text(json.dumps(current), encoding="ascii")


def _read(stamp: Path) -> dict[str, str]:
    try:
        known = json.loads(stamp.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _folders() -> Iterator[Path]:
    for pattern in _FOLDERS:
        yield from sorted(_PACKAGE.glob(pattern))


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(_PACKAGE).with_suffix("").parts)


@functools.cache
def _modules() -> dict[str, Path]:
    """The files of all kernel modules, by name."""
    return {_dotted(path): path for folder in _folders() for path in folder.glob("*.py")}


def _closure(modules: tuple[str, ...]) -> set[str]:
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(_imported(name))
    return found


@functools.cache
def _imported(name: str) -> tuple[str, ...]:
    """The kernel modules that a kernel module imports."""
    names: list[str] = []
    for module, imported, whole in _IMPORT.findall(_source(name)):
        listed = re.sub(r"\bas \w+|#.*", "", imported)
        names += [module or whole, *(f"{module}.{n}" for n in re.findall(r"\w+", listed))]
    return tuple(n for n in names if n in _modules())


@functools.cache
def _source(name: str) -> str:
    return _modules()[name].read_text(encoding="utf-8")
