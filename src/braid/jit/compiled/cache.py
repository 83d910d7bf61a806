"""Digests of the sources of kernels: compiled code is found by them, and never outlives a change.

The compiler inlines what a kernel calls and the constants that it reads. So the digest of a module is
of its source and of all modules of Braid that it imports: for kernel modules with what these import in
turn. A change of one module invalidates the code of the modules that use it, and no other.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: The package whose kernels are compiled, and the folders in it that have kernels.
_PACKAGE = Path(__file__).parents[2]
_FOLDERS = ("jit", "operators/*/kernels")
_IMPORT = re.compile(
    r"^\s*(?:from braid\.([\w.]+) import (\([^)]*\)|.*)|import braid\.([\w.]+))", re.MULTILINE
)


#: What compiles all kernels.
_COMPILER = tuple(f"jit.compiled.{n}" for n in ("compiler", "inline_compiler", "record_types"))
#: Other modules of that package keep and load code, and don't change it.
_LOADING = "jit.compiled."


def sources_digest(*modules: str) -> str:
    """A hash of the sources of some kernel modules, and of all modules of Braid that they import.

    Modules are named as in an import, without `braid.`: `jit.scalars`.
    """
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(_closure(modules)):
        digest.update(_source(name).encode())
    return digest.hexdigest()


def digest_of_function(function: Any) -> str | None:
    """A hash of all sources that the code of a kernel depends on.

    None if there is none: a function inside another one also depends on what that has computed.
    """
    code = function.__code__
    if function.__closure__ or "<locals>" in function.__qualname__:
        return None
    name = function.__module__.removeprefix("braid.")
    if function.__module__ != name and name in _modules():
        return _of_module(name)
    return _of_file(code.co_filename)


@functools.cache
def _of_module(name: str) -> str:
    return sources_digest(name, *_COMPILER)


@functools.cache
def _of_file(name: str) -> str | None:
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    imported = tuple(n for n in _names(text) if n in _modules())
    digest = hashlib.blake2b(text.encode(), digest_size=8)
    digest.update(sources_digest(*imported, *_COMPILER).encode())
    return digest.hexdigest()


def kernel_modules() -> tuple[str, ...]:
    """All modules of Braid that have kernels, as they are imported."""
    files = sorted(_PACKAGE.rglob("*.py"))
    found = [f"braid.{_dotted(p)}" for p in files if "\n@kernel(" in p.read_text(encoding="utf-8")]
    return tuple(found)


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
        if name not in found and (name in _COMPILER or not name.startswith(_LOADING)):
            found.add(name)
            if name in _modules():
                waiting.extend(_imported(name))
    return found


@functools.cache
def _imported(name: str) -> tuple[str, ...]:
    """The modules of Braid that a kernel module imports."""
    return tuple(n for n in _names(_source(name)) if n in _modules() or _path(n).exists())


def _names(source: str) -> list[str]:
    """What a source imports from Braid, modules and other names."""
    names: list[str] = []
    for module, imported, whole in _IMPORT.findall(source):
        listed = re.sub(r"\bas \w+|#.*", "", imported)
        names += [module or whole, *(f"{module}.{n}" for n in re.findall(r"\w+", listed))]
    return list(dict.fromkeys(names))


def _path(name: str) -> Path:
    return _PACKAGE.joinpath(*name.split(".")).with_suffix(".py")


@functools.cache
def _source(name: str) -> str:
    return (_modules().get(name) or _path(name)).read_text(encoding="utf-8")
