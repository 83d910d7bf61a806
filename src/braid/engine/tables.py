"""Queries over whole tables, in one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from braid.engine.engine import Engine, Tables, as_table
from braid.engine.query_registry import Form
from braid.errors import ConfigError, Notice
from braid.lang.catalog.declared_streams import declared_streams


@dataclass(frozen=True)
class Results(Mapping[str, pa.Table]):
    """What `run` found: a mapping from names to tables with the columns start, end and attributes.

    A name is a published stream, or the id of a query. A query that publishes nothing is found by
    its id too. Where a stream and a query have the same name, it means the stream; `queries` has
    the results of each query by itself.
    """

    #: Published streams by name.
    streams: Mapping[str, pa.Table]
    #: The result of each query by its id, whether it is published or not.
    queries: Mapping[str, pa.Table]
    #: Rows that did not fit their stream: columns stream, reason, row.
    rejected: pa.Table
    #: What else you should know; the log of `braid` has it too.
    notices: Sequence[Notice]
    #: Queries that were stopped, with the reason.
    suspended: Mapping[str, str]
    #: How many events and matches there were, rejected rows, and function calls without a value.
    totals: Mapping[str, int]

    def __getitem__(self, name: str) -> pa.Table:
        return self.streams[name] if name in self.streams else self.queries[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.streams
        yield from (name for name in self.queries if name not in self.streams)

    @property
    def table(self) -> pa.Table:
        """The result of the only query."""
        if len(self.queries) != 1:
            names = ", ".join(list(self.queries)[:10])
            message = f"there are {len(self.queries)} queries: choose a result by name"
            raise ConfigError("E308", message, f"queries: {names}" if names else None)
        return next(iter(self.queries.values()))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def run(
    text: str,
    tables: Mapping[str, Any],
    *,
    time: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
    lateness: str | int | None = None,
) -> Results:
    """Evaluate queries over whole tables: the results, by published stream and by query id.

    `time` names the time column of every table, or of each by the table's name. Streams may
    also be declared in the text. Rows that do not fit their stream are counted, logged and in
    `rejected` of the result.

    >>> import braid
    >>> prices = {"Name": ["IBM", "IBM"], "Price": [90.0, 95.0], "ts": [1, 2]}
    >>> out = braid.run('''SELECT Name, Price_1 AS low, Price AS high
    ...                    FROM Stock NEXT{$1.Name = $2.Name AND $2.Price > $1.Price} Stock
    ...                    PUBLISH Jump''', {"Stock": prices}, time="ts")
    >>> out["Jump"].to_pylist()
    [{'start': 1, 'end': 2, 'Name': 'IBM', 'low': 90.0, 'high': 95.0}]
    >>> braid.run("SELECT Price FROM FILTER{Price > 92} Stock", {"Stock": prices}, time="ts").table
    ... # doctest: +ELLIPSIS
    pyarrow.Table
    ...
    """
    engine = Engine(idle_timeout=None)
    data = {name: as_table(table) for name, table in tables.items()}
    declared = declared_streams(text)
    for name, table in data.items():
        if name not in declared:
            column = time.get(name) if isinstance(time, Mapping) else time
            engine.stream(name, table.schema, time=column, lateness=lateness)
    engine.execute(text)
    shard, now = engine._running(), engine._clock()
    engine._take(shard, data, now)
    published = engine._emit(shard, shard.finish())
    totals = {name: count for name, count in engine.totals.items() if name != "late"}
    queries, notices = _by_query(engine), tuple(engine.notices)
    return Results(published, queries, engine.rejected, notices, engine.suspended, totals)


def _by_query(engine: Engine) -> Tables:
    """The result of each query, without rows if it has none."""
    shard, found = engine._running(), engine.results
    tables: Tables = {}
    for admitted in shard.executor.registry.admitted:
        point = admitted.exits[-1]
        exit_ = admitted.route.exits[-1]
        nothing = shard.empty(point, Form(exit_.schema, exit_.columns))
        for id_ in admitted.ids.to_pylist():
            tables[id_] = found.get((id_, point.stream), nothing)
    return tables
