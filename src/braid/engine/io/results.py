"""Results of a shard: tables that many queries share, and the results of each query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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


class Shown(NamedTuple):
    """What a query shows of a table that queries share: names, and which column each is."""

    names: tuple[str, ...]
    places: list[int]

    def of(self, table: pa.Table) -> pa.Table:
        return table.select(self.places).rename_columns(list(self.names))


class Paired(NamedTuple):
    """Results as pairs: the row of each, the number of its query; the queries, and the number of what
    each shows."""

    rows: Words
    query: Words
    queries: pa.StringArray
    forms: Words


class ResultGroup:
    """Results of many queries: a table of events, and for each result its row there and its query.

    Queries may show different columns of the table: each has a form. Which queries an event is for is
    worked out when somebody asks; that must be before queries come or go (`settle`).
    """

    def __init__(
        self,
        stream: str | None,
        table: pa.Table,
        count: int,
        pairs: Callable[[], Paired] | Paired,
        forms: Sequence[Shown],
    ) -> None:
        self.stream = stream
        self._table = table
        self._count = count
        self._pairs = pairs
        self._forms = forms

    def __len__(self) -> int:
        return self._count

    def settle(self) -> Paired:
        if not isinstance(self._pairs, Paired):
            self._pairs = self._pairs()
            self._count = len(self._pairs.rows)
        return self._pairs

    def parts(self) -> Iterator[ResultGroup]:
        """The same results in groups of one form each."""
        if len(self._forms) == 1:
            yield self
            return
        rows, query, queries, forms = self.settle()
        asked = forms[query]
        order = np.argsort(asked, kind="stable")
        for own in np.split(order, np.flatnonzero(np.diff(asked[order])) + 1):
            if len(own):
                used, codes = np.unique(query[own], return_inverse=True)
                form = int(asked[own[0]])
                names = queries.take(pa.array(used))
                pairs = Paired(rows[own], codes, names, np.zeros(len(used), np.int64))
                yield ResultGroup(self.stream, self._table, len(own), pairs, [self._forms[form]])

    @property
    def table(self) -> pa.Table:
        """The events as all queries show them, which have one form (see `parts`)."""
        (form,) = self._forms
        return form.of(self._table)

    @property
    def rows(self) -> Words:
        return self.settle().rows

    @property
    def query(self) -> Words:
        """For each result the number of its query among `queries`."""
        return self.settle().query

    @property
    def queries(self) -> pa.StringArray:
        return self.settle().queries

    def expanded(self) -> pa.Table:
        """One row for each result of a group of one form."""
        return self.table.take(pa.array(self.rows, pa.int64()))

    def by_query(self) -> Iterator[Result]:
        rows, query, queries, forms = self.settle()
        tables = [form.of(self._table) for form in self._forms]
        order = np.argsort(query, kind="stable")
        ends = np.searchsorted(query[order], np.arange(len(queries) + 1))
        for number, name in enumerate(queries.to_pylist()):
            own = rows[order[ends[number] : ends[number + 1]]]
            if len(own):
                table = tables[forms[number]].take(pa.array(own, pa.int64()))
                yield Result(name, self.stream, table)


@dataclass
class Emission:
    """What a step gave: results, late events by channel, counters, suspended queries, what else
    users of queries should know, and what was rejected."""

    groups: list[ResultGroup] = field(default_factory=list)
    late: list[tuple[str, pa.Table]] = field(default_factory=list)
    stats: dict[str, int] = field(default_factory=dict)
    suspended: dict[str, str] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    #: Texts that are no documents, by the channel that they came by, as rows of `rejected`.
    rejected: list[tuple[str, pa.Table]] = field(default_factory=list)

    def settle(self) -> None:
        """Work out whose every result is, while the queries are still the same."""
        for group in self.groups:
            group.settle()

    @property
    def results(self) -> list[Result]:
        """The results of each query by itself; made when asked for."""
        return [result for group in self.groups for result in group.by_query()]
