"""Of processes that need a kernel at the same time one compiles it, and the others take its result.

Spark starts a worker for every core, and the first time that a machine runs a job all of them want
the same kernels at once: each would compile them all. Results are kept on disk, so whoever comes
later needs only to wait. What is locked is a byte of a file beside the results, another one for
each kernel: the system lets go of it when a process ends, whichever way. Where files cannot be
locked, everybody compiles.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not a system with POSIX locks
    fcntl = None


@contextlib.contextmanager
def compiled_once(function: Callable[..., Any]) -> Iterator[None]:
    """Inside, no other process compiles this function. Threads of one process do not wait here:
    the compiler itself lets only one of them in."""
    file = _file(str(Path(function.__code__.co_filename).parent / "__pycache__"), os.getpid())
    if fcntl is None or file is None:
        yield
        return
    name = f"{function.__module__}.{function.__qualname__}".encode()
    byte = int.from_bytes(hashlib.blake2b(name, digest_size=4).digest())
    with contextlib.suppress(OSError):
        fcntl.lockf(file, fcntl.LOCK_EX, 1, byte)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)


@functools.cache
def _file(directory: str, _process: int) -> int | None:
    """Open as long as the process lives: to close it would let go of all of its locks."""
    try:
        os.makedirs(directory, exist_ok=True)
        return os.open(os.path.join(directory, "compiling.lock"), os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        return None
