"""The engine in process: Arrow tables in, Arrow tables out."""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from braid.algebra.constraints import Constraint
from braid.algebra.queries import Query, members_of
from braid.algebra.streams import Stream, contradiction, united
from braid.algebra.templates import Members, Template
from braid.engine import snapshot as snapshots
from braid.engine.checksums import reading
from braid.engine.constraint_notices import unused_notices
from braid.engine.explain.explain import Explained, explained
from braid.engine.io.ingest import END, REJECTED, Ends, Ingest
from braid.engine.io.payload import to_json
from braid.engine.io.results import Emission
from braid.engine.options import Options, ShardOptions, chosen
from braid.engine.reports import NoticeList
from braid.engine.running_plan import NewQueries
from braid.engine.shard import Shard
from braid.engine.state_pages import SavedPages
from braid.errors import BraidError, ConfigError, Origin
from braid.lang import Catalog, compile_query, load, stream_from_schema
from braid.lang.bind.constraints import declared_constraint
from braid.lang.catalog.files import loadable
from braid.lang.catalog.prepared import Refused, prepare, restored
from braid.lang.catalog.streams import schema_of
from braid.operators.registry import check

#: Published streams by name: columns start, end, and the attributes.
Tables = dict[str, pa.Table]

_MATCHES = ("query", "start", "end", "stream", "payload")
_LATE = ("stream", "start", "end", "payload")
_NONE_REJECTED = REJECTED.empty_table()
_TOTALS = ("events", "matches", "late", "rejected", "failed_calls")


class Engine:
    """Evaluates standing queries over streams that arrive in pieces.

    >>> import braid, pyarrow as pa
    >>> engine = braid.Engine()
    >>> schema = pa.schema([("Name", pa.string()), ("Price", pa.float64()), ("t", pa.int64())])
    >>> engine.stream("Stock", schema, time="t")
    >>> engine.query("up", "SELECT Name FROM Stock NEXT{$1.Name = $2.Name} Stock PUBLISH Up")
    >>> arrived = pa.table({"Name": ["IBM", "IBM"], "Price": [1.0, 2.0], "t": [1, 2]})
    >>> engine.process({"Stock": arrived})["Up"].num_rows  # the newest instant waits
    0
    >>> engine.finish()["Up"].to_pylist()
    [{'start': 1, 'end': 2, 'Name': 'IBM'}]

    Events may be out of order by as much as a stream's lateness; later ones are in `late`, and
    rows that do not fit their stream in `rejected`; `totals` counts both. `suspended` names queries
    that exceeded the instance budget, with the reason. `notices` has what else you should know, and
    the log of `braid` shows it. `clock` gives the time in microseconds; it is asked only
    for streams without a time column and for idle streams: what the newest events have to say
    comes out when all streams have been silent for `idle_timeout`, in the next call of `process`,
    which may be `process({})`.
    """

    def __init__(
        self,
        *,
        options: Options | None = None,
        clock: Callable[[], int] | None = None,
        **given: Any,
    ) -> None:
        """Options come as `options=braid.Options(...)`, or each by its name, which overrides:
        `Engine(idle_timeout="5 s")`. docs/configuration.md lists them."""
        self.options = chosen(options, given, owner="Engine", session=False)
        self._clock = clock or (lambda: clocks.time_ns() // 1000)
        self._catalog = Catalog(check)
        self._ingests: dict[tuple[str, ...], Ingest] = {}
        self._shard: Shard | None = None
        self._saved = SavedPages()
        #: Since when queries see events, of those that were given a time.
        self._births: dict[str, int] = {}
        #: Changes that the running shard gets before its next run.
        self._pending_queries: dict[str, tuple[Query, int]] = {}
        self._pending_drops: list[str] = []
        self._resumed = False
        self.notices = NoticeList()
        self.suspended: dict[str, str] = {}
        self._emission = Emission()
        self.rejected: pa.Table = _NONE_REJECTED
        #: Since the engine was made: events, matches, and what gave no result.
        self.totals = dict.fromkeys(_TOTALS, 0)
        #: Rows of the last prepared query that could not be used.
        self.refused: list[Refused] = []

    # ---- what is there ----

    def stream(
        self,
        name: str,
        schema: Any,
        *,
        time: str | Sequence[str] | None = None,
        lateness: str | int | None = None,
        sequence: str | None = None,
    ) -> None:
        """Declare a stream; `time` names its time column, or the two that bound an interval.

        `schema` is an Arrow schema, or a table or pandas DataFrame that has the columns; no event
        is taken from it."""
        known = schema_of(name, schema)
        self._catalog.add_stream(
            stream_from_schema(name, known, time=time, lateness=lateness, sequence=sequence)
        )

    def constraint(
        self,
        name: str,
        kind: str,
        stream: str,
        attributes: str | Sequence[str],
        *,
        target: str | None = None,
        target_attributes: str | Sequence[str] = (),
        within: int | str | None = None,
    ) -> None:
        """Declare how events of a stream arrive, as CREATE CONSTRAINT does.

        `kind` is "key", "references" (of `target`), "clustered", "ascending" or "descending";
        `within` a number of rows, or a text such as "10 minutes".
        """
        found = declared_constraint(
            self._catalog,
            name,
            kind,
            stream,
            attributes,
            target=target,
            target_attributes=target_attributes,
            within=within,
        )
        self._catalog.add_constraint(found)
        self._invalidate_plan()

    @property
    def constraints(self) -> Mapping[str, Constraint]:
        """What is declared, by name."""
        return dict(self._catalog.constraints)

    def query(
        self, id: str, text: str, rows: Any = None, *, ids: str | None = None, at: int | None = None
    ) -> None:
        """Register a query; it sees the events from now on, or those that start at `at` or later.

        With FOR EACH in the text, `rows` has the constants of each member: a table, a pandas
        DataFrame, or the path of a CSV file; `ids` names the column that has their names. Rows
        that cannot be used are in `refused`; the others are registered.
        """
        if rows is not None:
            self._prepare(id, text, rows, ids, at)
            return
        registered = compile_query(text, self._catalog, query_id=id, origin=Origin(query=id))
        self._check_time(registered.query.template, at)
        self._catalog.add_query(registered.query)
        self.notices.extend(registered.notices)
        if at is not None:
            self._births[id] = at
        if self._shard is not None:
            now = self._shard.bound(registered.query.template.outputs[-1].node.unit)
            self._pending_queries[id] = (registered.query, now if at is None else at)

    def _prepare(self, id: str, text: str, rows: Any, ids: str | None, at: int | None) -> None:
        prepared = prepare(text, rows, self._catalog, name=id, ids=ids, origin=Origin(query=id))
        self._check_time(prepared.template, at)
        self._catalog.add_prepared(prepared)
        self.notices.extend(prepared.notices)
        self.refused = list(prepared.refused)
        if at is not None:
            self._births.update((name, at) for name in prepared.members.ids.to_pylist())
        if self._shard is not None:
            shard = self._running()
            now = shard.bound(prepared.template.outputs[-1].node.unit)
            births = np.full(len(prepared.members), now if at is None else at)
            self._admit(shard, prepared.members, births, single=False)
            if self._shard is not None and id in self._catalog.ending:
                self._shard.drop([id], self._catalog.ending[id])  # those that have just come, too

    def _check_time(self, template: Template, at: int | None) -> None:
        if at is None or self._shard is None:
            return
        now = self._shard.bound(template.outputs[-1].node.unit)
        if at < now:
            raise BraidError("E306", f"{at} is in the past: events up to {now} have been answered")

    def _admit(self, shard: Shard, members: Members, births: Any, *, single: bool) -> None:
        """Queries for a running shard: into its plan if that has all they read, or a new one."""
        self._emission.settle()
        if shard.can_add(members):
            shard.add(members, births, single=single)
        else:
            self._invalidate_plan()

    def _apply_changes(self) -> None:
        """Apply the added and dropped queries since the last call to the running shard, in bulk."""
        shard = self._shard
        if shard is None or not (self._pending_queries or self._pending_drops):
            return
        self._emission.settle()
        added, self._pending_queries = self._pending_queries, {}
        dropped, self._pending_drops = self._pending_drops, []
        if dropped:
            shard.drop(dropped, -(2**63))
        groups = members_of(query for query, _ in added.values())
        if not all(shard.can_add(members) for members in groups):
            self._births |= {name: birth for name, (_, birth) in added.items()}
            self._invalidate_plan()
            return
        new = []
        for members in groups:
            births = np.array([added[name][1] for name in members.ids.to_pylist()], np.int64)
            new.append(NewQueries(members, births, len(members) == 1))
        shard.add_all(new)

    def drop(self, id: str, *, at: int | None = None) -> None:
        """Remove a query, or all members of a prepared one, and what only they needed.

        With `at`, they have no results that end at this event time or later. Without it, they are
        removed now."""
        if at is not None:
            self._end(id, at)
            return
        self._catalog.remove_query(id)
        self._forget_births(id)
        if self._shard is not None and self._pending_queries.pop(id, None) is None:
            self._pending_drops.append(id)

    def _forget_births(self, id: str) -> None:
        if self._births:
            left = self._births.items()
            self._births = {n: at for n, at in left if n != id and not n.startswith(f"{id}/")}

    def _end(self, id: str, at: int) -> None:
        self._check_time(self._catalog.removable(id), at)
        self._catalog.end_query(id, at)
        if self._shard is not None:
            shard = self._running()
            self._emission.settle()
            shard.drop([id], at)
            self._remove_expired(shard)

    def _remove_expired(self, shard: Shard) -> None:
        """Remove the queries from the catalog whose death has passed."""
        over = []
        for name, at in self._catalog.ending.items():
            unit = self._catalog.removable(name).outputs[-1].node.unit
            if at <= shard.bound(unit):
                over.append(name)
        for name in over:
            if name in self._catalog.ending:  # unless it went with the others of its kind
                self._catalog.remove_query(name)
                self._forget_births(name)

    def execute(self, text: str, *, name: str | None = None) -> None:
        """Run statements (CREATE and DROP of all kinds, bare queries), ended by ';'."""
        loaded = load(text, self._catalog, name=name)
        if self._shard is not None:
            self._pending_drops += loaded.dropped
            self._running()
        self.notices.extend(loaded.notices)
        self._invalidate_plan()

    def load(self, path: str | Path) -> None:
        """Run the statements of a file, of the files of a folder (and of the folders in it), or of
        those that a pattern matches. They may read what others publish, in any order; if any
        statement is wrong, all errors are raised and nothing takes effect."""
        for text, file in loadable(path, self._catalog):
            self.execute(text, name=str(file))

    def function(
        self,
        name: str,
        call: Callable[..., Any],
        arguments: Sequence[pa.DataType | str],
        returns: pa.DataType | str,
        *,
        vectorized: bool = False,
        cost: float = 1.0,
    ) -> None:
        """Let queries call a Python function, with types as `"DOUBLE"` or Arrow types.

        `call` gets one value for each argument. If `vectorized`, it gets one Arrow array for each
        argument and returns an array of as many values: one call for all events of a batch. The
        conditions of a query without such functions come first, then those with the least `cost`.
        """
        self._catalog.functions.register(
            name, call, arguments, returns, vectorized=vectorized, cost=cost
        )
        self._invalidate_plan()

    @property
    def streams(self) -> Mapping[str, Stream]:
        return dict(self._catalog.streams)

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(self._catalog.queries)

    def explain(self, query: str | None = None) -> Explained:
        """The plan of all queries, or of one with the automaton that it is; text, JSON, picture."""
        return explained(self._running(), self._catalog, query)

    # ---- events ----

    def process(self, tables: Mapping[Any, Any]) -> Tables:
        """Take what has arrived; the results that are complete by it, by published stream.

        Events that belong to several streams come under a tuple of their names.
        """
        now = self._clock()
        self._forget()  # first: whose the last results were need not be settled for nobody
        shard = self._running()
        self._take(shard, tables, now)
        found = self._emit(shard, shard.advance(now=now))
        self._remove_expired(shard)
        return found

    def finish(self) -> Tables:
        """The input has ended: everything that is held back is run."""
        self._forget()
        shard = self._running()
        found = self._emit(shard, shard.finish())
        self._remove_expired(shard)
        return found

    def _take(self, shard: Shard, tables: Mapping[Any, Any], now: int) -> None:
        """All tables or none: what is wrong with one is found before another has been taken."""
        taken = [
            (names, self._ingest(names)(as_table(data), shard.documents))
            for key, data in tables.items()
            for names in self._read_alike((key,) if isinstance(key, str) else tuple(key))
        ]
        for names, ingested in taken:
            if ingested.rejected is not None:
                self.rejected = pa.concat_tables([self.rejected, ingested.rejected])
                shard.reports.reject(ingested.rejected)
            events = ingested.events
            highest, ends = None, ingested.ends
            if events.num_rows and END in events.schema.names:
                ends = ends or Ends.of(events)
                highest = ends.highest
            if len(names) > 1:
                shard.accept_shared(names, events, now=now, ends=ends)
            else:
                shard.accept(names[0], events, now=now, ends=ends)
            for name in names:
                shard.observe(name, highest, now=now)

    def _read_alike(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """Streams that have the same events, by whether these can be read as rows of all of them."""
        streams = [self._declared_stream(name) for name in names]
        pairs = combinations(streams, 2)
        if names and all(contradiction(one, other) is None for one, other in pairs):
            return (names,)
        return tuple((name,) for name in names)

    def _declared_stream(self, name: str) -> Stream:
        stream = self._catalog.streams.get(name)
        if stream is None:
            known = ", ".join(self._catalog.streams) or "none"
            raise ConfigError("E303", f"there is no stream {name!r}", f"streams: {known}")
        return stream

    def _ingest(self, names: tuple[str, ...]) -> Ingest:
        if names not in self._ingests:
            self._ingests[names] = Ingest(united([self._declared_stream(name) for name in names]))
        return self._ingests[names]

    def _emit(self, shard: Shard, emission: Emission) -> Tables:
        self._emission = emission
        for name in _TOTALS:
            self.totals[name] += emission.stats.get(name, 0)
        self.suspended = emission.suspended
        self.notices.add_new(emission.notices)
        self.rejected = pa.concat_tables([self.rejected, *(t for _, t in emission.rejected)])
        found: dict[str, list[pa.Table]] = {}
        for group in emission.groups:
            if group.stream is not None:
                found.setdefault(group.stream, []).append(group.expanded())
        return {
            point.stream: pa.concat_tables(found.get(point.stream) or [shard.empty(point)])
            for point in shard.exits
            if point.stream is not None
        }

    def _forget(self) -> None:
        """Forget the results of the last call."""
        self._emission = Emission()
        self.rejected = _NONE_REJECTED

    @property
    def stats(self) -> dict[str, int]:
        """What the last call has counted, and what is held now; nothing before the first one."""
        counts = self._emission.stats
        return {**counts, **self._running().sizes} if counts else {}

    @property
    def late(self) -> pa.Table:
        """Events of the last call that came too late: stream, start, end, payload (JSON text)."""
        if not self._emission.stats:
            return pa.table({})
        return self._described(_LATE, (((c,), table) for c, table in self._emission.late))

    @property
    def results(self) -> dict[tuple[str, str | None], pa.Table]:
        """The results of the last call, by query and published stream."""
        return {(r.query, r.stream): r.table for r in self._emission.results}

    @property
    def matches(self) -> pa.Table:
        """Every result of the last call: query, start, end, stream, payload (JSON text)."""
        return self._described(_MATCHES, self.results.items())

    def _described(
        self, columns: tuple[str, ...], tables: Iterable[tuple[tuple[str | None, ...], pa.Table]]
    ) -> pa.Table:
        """Tables of different attributes in one form: names, start, end, payload."""
        types = {point.time_type for point in self._running().exits}
        clock = types.pop() if len(types) == 1 else pa.int64()
        nothing = _empty_described(columns, clock)
        parts = [_described(names, table, nothing.schema) for names, table in tables]
        return pa.concat_tables(parts) if parts else nothing

    # ---- state ----

    def _running(self) -> Shard:
        self._apply_changes()
        if self._shard is None:
            queries, streams = self._catalog.members(), self._catalog.streams
            options = self._shard_options()
            if self._saved:
                self._shard = Shard.load(
                    self._saved,
                    queries,
                    streams,
                    options=options,
                    resumed=self._resumed,
                    births=self._births,
                )
                self._resumed = False
            else:
                self._shard = Shard(queries, streams, options=options, births=self._births)
            for name, at in self._catalog.ending.items():
                self._shard.drop([name], at)
        if self._shard.executor.watches_constraints:
            self.notices.add_new(unused_notices(self._shard.executor))
        return self._shard

    def _shard_options(self) -> ShardOptions:
        """The options with the functions and constraints of the catalog."""
        return ShardOptions(
            self.options,
            functions={function.name: function for function in self._catalog.functions},
            declared=tuple(self._catalog.constraints.values()),
        )

    def _invalidate_plan(self) -> None:
        """Discard the shard and save its state: the next call plans again."""
        if self._shard is not None:
            self._saved.take(self._shard.save())
            self._shard = None

    def snapshot(self) -> bytes:
        """Everything needed to go on elsewhere: streams, queries, and state."""
        self._saved.take(self._running().save())
        return snapshots.write(self._catalog, self.options, self._saved)

    @classmethod
    def restore(
        cls,
        state: bytes,
        *,
        clock: Callable[[], int] | None = None,
        functions: Iterable[Sequence[Any] | Mapping[str, Any]] = (),
    ) -> Engine:
        """Go on from a snapshot. Functions that queries call must be given again: code is not saved.

        Each of `functions` has the arguments of `function`, in order or by name.
        """
        saved = snapshots.read(state)
        engine = cls(options=saved.options, clock=clock)
        engine.notices = NoticeList(log=False)  # what is registered again has been said before
        for function in functions:
            if isinstance(function, Mapping):
                engine.function(**function)
            else:
                engine.function(*function)
        with reading("the header of the snapshot"):
            engine._restore_catalog(saved)
        engine.notices = NoticeList()
        engine._saved, engine._resumed = saved.pages, True
        engine._running()  # what is damaged is found now, not with the first event
        return engine

    def _restore_catalog(self, saved: snapshots.Saved) -> None:
        """Streams, constraints, views and queries, in an order in which each can be bound."""
        for stream in saved.streams:
            self._catalog.add_stream(stream)
        for constraint in saved.constraints:
            self._catalog.add_constraint(constraint)
        views = self._define(saved.views)
        for query in saved.queries:
            views = self._define(views)
            if query.members is None:
                self.query(query.id, query.text)
            else:
                made = restored(query.text, query.members, self._catalog, name=query.id)
                self._catalog.add_prepared(made)
        self._define(views)
        for name, at in saved.ending.items():
            self._catalog.end_query(name, at)

    def _define(self, views: Sequence[snapshots.SavedView]) -> Sequence[snapshots.SavedView]:
        """Define the views whose streams are there already; what is left has to wait for others."""
        left = list(views)
        while True:
            known = set(self._catalog.source_names())
            ready = [view for view in left if known.issuperset(view.reads)]
            if not ready:
                return left
            for view in ready:
                load(view.text, self._catalog)
            left = [view for view in left if view not in ready]


@lru_cache(16)
def _empty_described(columns: tuple[str, ...], clock: pa.DataType) -> pa.Table:
    """The one form without rows: most batches have nothing that is late."""
    fields = [(c, clock if c in ("start", "end") else pa.string()) for c in columns]
    return pa.schema(fields).empty_table()


def _described(names: tuple[str | None, ...], table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the names that hold for all of them, and their attributes as JSON."""
    given = iter(names)
    payload = to_json(table.drop_columns(["start", "end"]))
    columns = []
    for field in schema:
        if field.name in ("start", "end"):
            columns.append(table.column(field.name).cast(field.type))
        elif field.name == "payload":
            columns.append(payload)
        else:
            columns.append(pa.repeat(pa.scalar(next(given), pa.string()), table.num_rows))
    return pa.table(columns, schema=schema)


def as_table(data: Any) -> pa.Table:
    """What a user gave as events: a table, or anything that Arrow makes one of."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    try:
        return pa.table(data)
    except (TypeError, ValueError, pa.ArrowInvalid) as error:
        raise ConfigError(
            "E304", f"cannot read a table from a {type(data).__name__}: {error}"
        ) from error
