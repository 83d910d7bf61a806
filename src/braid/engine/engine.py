"""The engine in process: Arrow tables in, Arrow tables out."""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from braid.algebra.streams import Stream
from braid.engine import snapshot as snapshots
from braid.engine.ingest import END, REJECTED, Ingest
from braid.engine.payload import to_json
from braid.engine.shard import Emission, Options, Shard
from braid.errors import BraidError, ConfigError, Notice, Origin
from braid.lang import Catalog, compile_query, load, parse_duration, stream_from_schema
from braid.plan.automaton import describe, translate
from braid.plan.build import build_plan
from braid.plan.plan import explain

#: Published streams by name: columns start, end, and the attributes.
Tables = dict[str, pa.Table]

_MATCHES = ("query", "start", "end", "stream", "payload")
_LATE = ("stream", "start", "end", "payload")


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
    rows that do not fit their stream in `rejected`. `suspended` names queries that exceeded the
    instance budget, with the reason. `clock` gives the time in microseconds; it is asked only
    for streams without a time column and for idle streams.
    """

    def __init__(
        self,
        *,
        instance_budget: int = 1_000_000,
        idle_timeout: str | int | None = "60 s",
        clock: Callable[[], int] | None = None,
    ) -> None:
        if instance_budget < 1:
            raise ConfigError("E302", "instance_budget must be at least 1")
        timeout = parse_duration(idle_timeout) if isinstance(idle_timeout, str) else idle_timeout
        self._options = Options(instance_budget, timeout)
        self._clock = clock or (lambda: clocks.time_ns() // 1000)
        self._catalog = Catalog()
        self._ingests: dict[str, Ingest] = {}
        self._shard: Shard | None = None
        self._saved: dict[str, bytes] = {}
        self._resumed = False
        self.notices: list[Notice] = []
        self.suspended: dict[str, str] = {}
        self.results: dict[tuple[str, str | None], pa.Table] = {}
        self.late: pa.Table = pa.table({})
        self.rejected: pa.Table = REJECTED.empty_table()
        self.stats: dict[str, int] = {}

    # ---- what is there ----

    def stream(
        self,
        name: str,
        schema: pa.Schema,
        *,
        time: str | Sequence[str] | None = None,
        lateness: str | int | None = None,
        sequence: str | None = None,
    ) -> None:
        """Declare a stream; `time` names its time column, or the two that bound an interval."""
        self._catalog.add_stream(
            stream_from_schema(name, schema, time=time, lateness=lateness, sequence=sequence)
        )

    def query(self, id: str, text: str) -> None:
        """Register a query; it sees the events from now on."""
        registered = compile_query(text, self._catalog, query_id=id, origin=Origin(query=id))
        self._catalog.add_query(registered.query)
        self.notices.extend(registered.notices)
        self._change()

    def drop(self, id: str) -> None:
        """Remove a query and what only it needed."""
        self._catalog.remove_query(id)
        self._change()
        self._running()  # without it: should the same query come back, it starts anew

    def execute(self, text: str, *, name: str | None = None) -> None:
        """Run statements (CREATE STREAM, CREATE QUERY, DROP QUERY, bare queries), ended by ';'."""
        loaded = load(text, self._catalog, name=name)
        self.notices.extend(loaded.notices)
        self._change()

    def load(self, path: str | Path) -> None:
        """Run the statements of a file."""
        self.execute(Path(path).read_text(encoding="utf-8"), name=str(path))

    def function(
        self,
        name: str,
        call: Callable[..., Any],
        arguments: Sequence[pa.DataType | str],
        returns: pa.DataType | str,
    ) -> None:
        """Register a Python function that queries may call; it is called once for each event."""
        self._catalog.functions.register(name, call, arguments, returns)
        functions = {f.name: f.call for f in self._catalog.functions}
        self._options = Options(
            self._options.instance_budget, self._options.idle_timeout, functions
        )
        self._change()

    @property
    def streams(self) -> Mapping[str, Stream]:
        return dict(self._catalog.streams)

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(self._catalog.queries)

    def explain(self, query: str | None = None) -> str:
        """The plan as text, of all queries; or of one, with the automaton that it is."""
        if query is not None and query not in self._catalog.queries:
            known = ", ".join(self._catalog.queries) or "none"
            raise BraidError("E134", f"there is no query {query!r}", f"queries: {known}")
        plan = build_plan(list(self._catalog.queries.values()), self._catalog.streams)
        if query is None:
            return explain(plan)
        automaton = translate(self._catalog.queries[query].node, query)
        return f"{explain(plan, query)}\n{describe(automaton)}"

    # ---- events ----

    def process(self, tables: Mapping[str, Any]) -> Tables:
        """Take what has arrived; the results that are complete by it, by published stream."""
        shard, now = self._running(), self._clock()
        self._forget()
        self._take(shard, tables, now)
        return self._emit(shard.advance(now=now))

    def finish(self) -> Tables:
        """The input has ended: everything that is held back is run."""
        shard = self._running()
        self._forget()
        return self._emit(shard.finish())

    def _take(self, shard: Shard, tables: Mapping[str, Any], now: int) -> None:
        """All tables or none: what is wrong with one is found before another has been taken."""
        taken = [(name, self._ingest(name)(_as_table(data))) for name, data in tables.items()]
        for name, ingested in taken:
            if ingested.rejected is not None:
                self.rejected = pa.concat_tables([self.rejected, ingested.rejected])
            events = ingested.events
            highest = None
            if events.num_rows and END in events.schema.names:
                highest = int(pa.compute.max(events.column(END)).as_py())
            shard.accept(name, events, now=now)
            shard.observe(name, highest, now=now)

    def _ingest(self, name: str) -> Ingest:
        stream = self._catalog.streams.get(name)
        if stream is None:
            known = ", ".join(self._catalog.streams) or "none"
            raise ConfigError("E303", f"there is no stream {name!r}", f"streams: {known}")
        return self._ingests.setdefault(name, Ingest(stream))

    def _emit(self, emission: Emission) -> Tables:
        self.results = {(r.query, r.stream): r.table for r in emission.results}
        self.stats = emission.stats
        self.suspended = emission.suspended
        shard = self._running()
        self.late = self._described(_LATE, (((c,), table) for c, table in emission.late))
        found = {r.stream: r.table for r in emission.results if r.stream is not None}
        return {
            outlet.stream: found.get(outlet.stream, shard.empty(outlet))
            for outlet in shard.plan.outlets
            if outlet.stream is not None
        }

    def _forget(self) -> None:
        """Let go of what the last call reported."""
        self.results, self.stats = {}, {}
        self.rejected = REJECTED.empty_table()

    @property
    def matches(self) -> pa.Table:
        """Every result of the last call: query, start, end, stream, payload (JSON text)."""
        return self._described(_MATCHES, self.results.items())

    def _described(
        self, columns: tuple[str, ...], tables: Iterable[tuple[tuple[str | None, ...], pa.Table]]
    ) -> pa.Table:
        """Tables of different attributes in one form: names, start, end, payload."""
        types = {outlet.time_type for outlet in self._running().plan.outlets}
        clock = types.pop() if len(types) == 1 else pa.int64()
        schema = pa.schema([(c, clock if c in ("start", "end") else pa.string()) for c in columns])
        parts = [_described(names, table, schema) for names, table in tables]
        return pa.concat_tables(parts) if parts else schema.empty_table()

    # ---- state ----

    def _running(self) -> Shard:
        if self._shard is None:
            queries, streams = list(self._catalog.queries.values()), self._catalog.streams
            if self._saved:
                self._shard = Shard.load(
                    self._saved, queries, streams, options=self._options, resumed=self._resumed
                )
                self._resumed = False
            else:
                self._shard = Shard(queries, streams, options=self._options)
        return self._shard

    def _change(self) -> None:
        """The set of queries has changed: plan anew, and keep the state of those that stay."""
        if self._shard is not None:
            self._save()
            self._shard = None

    def _save(self) -> None:
        delta = self._running().save()
        for key in delta.removals:
            self._saved.pop(key, None)
        self._saved.update(delta.puts)

    def snapshot(self) -> bytes:
        """Everything needed to go on elsewhere: streams, queries, and state."""
        self._save()
        return snapshots.write(self._catalog, self._options, self._saved)

    @classmethod
    def restore(
        cls,
        state: bytes,
        *,
        clock: Callable[[], int] | None = None,
        functions: Iterable[tuple[str, Callable[..., Any], Sequence[Any], Any]] = (),
    ) -> Engine:
        """Go on from a snapshot. Functions that queries call must be given again: code is not saved."""
        saved = snapshots.read(state)
        engine = cls(
            instance_budget=saved.instance_budget, idle_timeout=saved.idle_timeout, clock=clock
        )
        for function in functions:
            engine.function(*function)
        for stream in saved.streams:
            engine._catalog.add_stream(stream)
        for query, text in saved.queries:
            engine.query(query, text)
        engine.notices.clear()
        engine._saved, engine._resumed = dict(saved.pages), True
        return engine


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


def _as_table(data: Any) -> pa.Table:
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


def run(
    text: str,
    tables: Mapping[str, Any],
    *,
    time: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
    lateness: str | int | None = None,
) -> Tables:
    """Evaluate queries over whole tables: the published streams, by name.

    `time` names the time column of every table, or of each by the table's name. Streams may
    also be declared in the text.

    >>> import braid
    >>> prices = {"Name": ["IBM", "IBM"], "Price": [90.0, 95.0], "ts": [1, 2]}
    >>> out = braid.run('''SELECT Name, Price_1 AS low, Price AS high
    ...                    FROM Stock NEXT{$1.Name = $2.Name AND $2.Price > $1.Price} Stock
    ...                    PUBLISH Jump''', {"Stock": prices}, time="ts")
    >>> out["Jump"].to_pylist()
    [{'start': 1, 'end': 2, 'Name': 'IBM', 'low': 90.0, 'high': 95.0}]
    """
    engine = Engine(idle_timeout=None)
    data = {name: _as_table(table) for name, table in tables.items()}
    declared = _declared_in(text)
    for name, table in data.items():
        if name not in declared:
            column = time.get(name) if isinstance(time, Mapping) else time
            engine.stream(name, table.schema, time=column, lateness=lateness)
    engine.execute(text)
    shard, now = engine._running(), engine._clock()
    engine._take(shard, data, now)
    return engine._emit(shard.finish())


def _declared_in(text: str) -> set[str]:
    """The streams that a text declares itself."""
    from braid.lang.declared import declared_streams

    return declared_streams(text)
