"""The one directory in which Braid keeps what it computes once: `BRAID_CACHE_DIR`, or `~/.cache/braid`.

It holds compiled kernels, generated predicates and the tables of the grammar. You may delete it at any
time. Braid writes nothing into its own package.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path


def cache_directory() -> Path | None:
    """The directory, which exists; none if it cannot be written."""
    return _usable(os.environ.get("BRAID_CACHE_DIR") or os.path.expanduser("~/.cache/braid"))


@functools.cache
def _usable(name: str) -> Path | None:
    directory = Path(name).absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return directory if os.access(directory, os.W_OK | os.X_OK) else None
