"""What an index of clauses does, whatever its form: which clauses hold for which rows."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.int32]]
Keys = np.ndarray[Any, np.dtype[np.int64]]


class Pairs(NamedTuple):
    """Row `rows[k]` satisfies clause `clauses[k]`; in order of rows, each pair once."""

    rows: Numbers
    clauses: Numbers


class ClauseIndex(Protocol):
    """For each row of keys the clauses that hold for it."""

    def match(self, keys: Keys) -> Pairs: ...

    @property
    def nbytes(self) -> int: ...

    def describe(self) -> dict[str, Any]:
        """For `explain` and `stats`: what could be written as JSON."""
        ...
