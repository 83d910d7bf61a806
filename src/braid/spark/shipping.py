"""How a job reaches the workers: as bytes that each worker process opens once.

Spark unpickles a function for every task. A plan of many queries takes longer to unpickle than
a small batch takes to run, so what a task gets is the pickled job with an id, and a worker keeps
the jobs that it has opened.
"""

from __future__ import annotations

import pickle
import uuid
from collections import OrderedDict
from typing import Any, Generic, TypeVar

from pyspark import cloudpickle

T = TypeVar("T")

#: Jobs that a worker process keeps open; those of many queries are large.
MAX_OPEN = 16

_OPEN: OrderedDict[str, Any] = OrderedDict()


class Shipped(Generic[T]):
    """A value that is pickled now and opened where it is used."""

    def __init__(self, value: T) -> None:
        self.id = uuid.uuid4().hex
        self._data: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]

    def open(self) -> T:
        if self.id not in _OPEN:
            _OPEN[self.id] = pickle.loads(self._data)
            while len(_OPEN) > MAX_OPEN:
                _OPEN.popitem(last=False)
        _OPEN.move_to_end(self.id)
        value: T = _OPEN[self.id]
        return value
