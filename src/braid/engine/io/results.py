"""Results of a shard: tables that many queries share, and the results of each query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from braid.errors import Notice
from braid.operators.core.values import Words


@dataclass(frozen=True)
class Result:
    """The results of one query: columns start, end, and its attributes."""

    query: str
    stream: str | None
    table: pa.Table


class Paired(NamedTuple):
    """Results as pairs: the row of each, the number of its query, and the queries."""

    rows: Words
    query: Words
    queries: pa.StringArray


class ResultGroup:
    """Results of many queries with one schema: a table of events, and the row and the query of each
    result.

    The queries of an event are computed on request, before queries are added or dropped (`settle`).
    """

    def __init__(
        self, stream: str | None, table: pa.Table, count: int, pairs: Callable[[], Paired]
    ) -> None:
        self.stream = stream
        self.table = table
        self._count = count
        self._pairs: Callable[[], Paired] | Paired = pairs

    def __len__(self) -> int:
        return self._count

    def settle(self) -> Paired:
        if not isinstance(self._pairs, Paired):
            self._pairs = self._pairs()
            self._count = len(self._pairs.rows)
        return self._pairs

    @property
    def rows(self) -> Words:
        return self.settle().rows

    @property
    def query(self) -> Words:
        """The index of each result's query in `queries`."""
        return self.settle().query

    @property
    def queries(self) -> pa.StringArray:
        return self.settle().queries

    def expanded(self) -> pa.Table:
        """One row for each result."""
        return self.table.take(pa.array(self.rows, pa.int64()))

    def ids(self) -> pa.DictionaryArray:
        """The query of each result."""
        return pa.DictionaryArray.from_arrays(pa.array(self.query, pa.int32()), self.queries)

    def by_query(self) -> Iterator[Result]:
        rows, query, queries = self.settle()
        order = np.argsort(query, kind="stable")
        ends = np.searchsorted(query[order], np.arange(len(queries) + 1))
        for number, name in enumerate(queries.to_pylist()):
            own = rows[order[ends[number] : ends[number + 1]]]
            if len(own):
                yield Result(name, self.stream, self.table.take(pa.array(own, pa.int64())))


@dataclass
class Emission:
    """The outcome of a step: results, late events by channel, counters, suspended queries, notices,
    and rejected rows."""

    groups: list[ResultGroup] = field(default_factory=list)
    late: list[tuple[str, pa.Table]] = field(default_factory=list)
    stats: dict[str, int] = field(default_factory=dict)
    suspended: dict[str, str] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    #: Texts that are not documents, by channel, as rows of `rejected`.
    rejected: list[tuple[str, pa.Table]] = field(default_factory=list)

    def settle(self) -> None:
        """Compute the queries of all results, while the queries are still the same."""
        for group in self.groups:
            group.settle()

    @property
    def results(self) -> list[Result]:
        """The results of each query, made on request."""
        return [result for group in self.groups for result in group.by_query()]
