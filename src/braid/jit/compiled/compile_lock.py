"""When several processes need the same kernel, one compiles it and the others wait for the result.

Spark starts a worker for every core, and all of them need the same kernels at once. Results are kept in
the cache directory, so a process that waits finds them there. The lock is a byte of a file in that
directory, another one for each kernel: the system releases it when a process ends, in any way. Where
files cannot be locked, each process compiles.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from braid.cache_directory import cache_directory

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not a system with POSIX locks
    fcntl = None


@contextlib.contextmanager
def compiled_once(function: Callable[..., Any]) -> Iterator[None]:
    """Inside, no other process compiles this function. Threads of one process do not wait here:
    the compiler itself lets only one of them in."""
    directory = cache_directory()
    file = None if directory is None else _file(str(directory), os.getpid())
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
    """Open as long as the process lives: to close it would release all of its locks."""
    try:
        return os.open(os.path.join(directory, "compiling.lock"), os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        return None
