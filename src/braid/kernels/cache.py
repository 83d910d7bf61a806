"""Compiled kernels of other versions of this package are thrown away.

The compiler keeps its results beside the sources and notices when the file of a function
changes, but not when a file does from which code was inlined, nor when a type that a result
mentions is gone. An upgrade could therefore meet results that no longer fit. A stamp beside
them says which sources they belong to: for each module, those of everything that it imports
from here too, so that a change of one kernel costs the results of those that use it only.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
from pathlib import Path

_HERE = Path(__file__).parent
_IMPORT = re.compile(
    r"^\s*(?:from braid\.kernels\.(\w+) import|from braid\.kernels import (\([^)]*\)|.*)|"
    r"import braid\.kernels\.(\w+))",
    re.MULTILINE,
)


def sources_digest(*modules: str) -> str:
    """A hash of the sources of some kernel modules and of all that they import from here."""
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(_closure(modules)):
        digest.update(_source(name).encode())
    return digest.hexdigest()


def forget_stale_results() -> None:
    """Remove compiled results that belong to other sources; a read-only install has none of ours."""
    directory = _HERE / "__pycache__"
    stamp = directory / "kernels.stamp"
    current = {path.stem: sources_digest(path.stem) for path in _HERE.glob("*.py")}
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
    """The modules of this room that one of them imports."""
    names: list[str] = []
    for module, several, whole in _IMPORT.findall(_source(name)):
        listed = re.sub(r"\bas \w+|#.*", "", several)
        names += [module or whole, *re.findall(r"\w+", listed)]
    return tuple(n for n in names if n and (_HERE / f"{n}.py").exists())


@functools.cache
def _source(name: str) -> str:
    return (_HERE / f"{name}.py").read_text(encoding="utf-8")
