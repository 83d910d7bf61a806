"""Shipping: sends a job to the workers as bytes that each worker process opens once.

Spark unpickles a function for every task. A plan of many queries takes longer to unpickle than
a small batch takes to run, so what a task gets is the pickled job with an id, and a worker keeps
the jobs that it has opened.

A large job is not part of the function at all: Spark would send it with every task, and where
queries have state its driver cannot start such a function. It is a file that Spark gives to every
executor once.
"""

from __future__ import annotations

import gc
import pickle
import tempfile
import uuid
from collections import OrderedDict
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from pyspark import SparkContext, SparkFiles, TaskContext, cloudpickle

T = TypeVar("T")

#: Jobs that a worker process keeps open; those of many queries are large.
MAX_OPEN = 16

#: Jobs of more bytes travel as a file.
LARGE = 256 << 10

_OPEN: OrderedDict[str, Any] = OrderedDict()


#: What has been settled in this process.
_SETTLED: set[str] = set()


def settle(what: str | None = None) -> None:
    """Freeze all objects of a worker process, so that the garbage collector ignores them.

    Spark collects garbage after every task, which visits every object: the compiler's modules alone
    take longer than a small batch. Call this at the end of a task that made permanent objects; with
    a name, only the first call has an effect. Objects of an earlier call that are no longer used
    are freed first.
    """
    if what in _SETTLED or TaskContext.get() is None:
        return
    if what is not None:
        _SETTLED.add(what)
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Executors fetch files from here while the driver runs; it goes when the driver ends."""
    return tempfile.TemporaryDirectory(prefix="braid-jobs-")


class Shipped(Generic[T]):
    """A value that is pickled now and opened where it is used."""

    def __init__(self, value: T) -> None:
        self.id = uuid.uuid4().hex
        self._data: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
        self._file: str | None = None
        context = SparkContext._active_spark_context
        if len(self._data) > LARGE and context is not None:
            path = Path(_folder().name) / f"braid-{self.id}.job"
            path.write_bytes(self._data)
            context.addFile(str(path))
            self._data, self._file = b"", str(path)

    def open(self) -> T:
        if self.id not in _OPEN:
            _OPEN[self.id] = pickle.loads(self._bytes())
            while len(_OPEN) > MAX_OPEN:
                _OPEN.popitem(last=False)
        _OPEN.move_to_end(self.id)
        value: T = _OPEN[self.id]
        return value

    def _bytes(self) -> bytes:
        if self._file is None:
            return self._data
        path = Path(self._file)
        if TaskContext.get() is not None:
            path = Path(SparkFiles.get(path.name))
        return path.read_bytes()
