"""Sessions: streams from DataFrames, queries from texts, DataFrames of results.

session = braid.Session(spark)
session.stream("Stock", df, time="ts", lateness="10 seconds")
session.query("jump", "SELECT ... PUBLISH Jump")
running = session.start({"Jump": "out/jump"}, checkpoint="checkpoint")
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from braid.algebra.queries import Query
from braid.algebra.streams import Stream
from braid.algebra.types import canonical, sql_name
from braid.distribution.distribution import Distribution, EarlierPlacements, Standing, distribute
from braid.distribution.distribution import explain as explain_distribution
from braid.engine.explain.explain import Explained, Explanation
from braid.engine.options import Options, ShardOptions, chosen
from braid.engine.reports import NoticeList
from braid.engine.shard import Shard
from braid.errors import CheckpointError, ConfigError, Notice
from braid.lang import Catalog, compile_query, load, stream_from_schema
from braid.lang.bind.constraints import declared_constraint
from braid.lang.catalog.files import loadable
from braid.lang.catalog.prepared import Refused
from braid.lang.catalog.prepared import prepare as prepare_query
from braid.operators.registry import check
from braid.spark.dataflow import Pipeline
from braid.spark.environment import ARROW_ROWS, STATE_STORE, local_spark, prepare
from braid.spark.files import Files
from braid.spark.liveness import SILENT, Jvm, translated
from braid.spark.pipeline import emit
from braid.spark.pipeline.beats import Beats
from braid.spark.pipeline.control import CHANGES, ChangeResult, control_columns
from braid.spark.pipeline.ingest import stamped
from braid.spark.running import BatchWriter, Progress, Running
from braid.spark.shards.checkpoint import SavedPlan
from braid.spark.sinks import Sink, as_sink

View = Callable[[DataFrame], DataFrame]

AVAILABLE_NOW = "available now"


class Session:
    """Standing queries over Spark DataFrames.

    Options come as `options=braid.Options(...)`, or each by its name, which overrides:
    `Session(spark, shards=4)`. docs/configuration.md lists them.
    """

    def __init__(
        self, spark: SparkSession | None = None, *, options: Options | None = None, **given: Any
    ) -> None:
        self.options = chosen(options, given, owner="Session", session=True)
        prepare()
        self.spark = spark or SparkSession.getActiveSession() or local_spark()
        self._catalog = Catalog(check)
        #: The sources, by the streams that their events are of.
        self._frames: dict[tuple[str, ...], DataFrame] = {}
        self._control: DataFrame | None = None
        #: Rows of the last prepared query that could not be used.
        self.refused: list[Refused] = []
        #: Warnings about the queries, such as patterns that may hold state for ever.
        self.notices: list[Notice] = NoticeList()
        self._configure()

    def _configure(self) -> None:
        """Settings that are still Spark's defaults become those that suit Braid."""
        conf = self.spark.conf
        if conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "10000":
            conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(ARROW_ROWS))
        if conf.get("spark.sql.shuffle.partitions") == "200":
            conf.set("spark.sql.shuffle.partitions", str(self.shards))
        conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)

    @property
    def shards(self) -> int:
        return self.options.shards or int(self.spark.sparkContext.defaultParallelism)

    @property
    def queries(self) -> tuple[Query, ...]:
        return tuple(self._catalog.queries.values())

    # -- what goes in --

    def stream(
        self,
        name: str | Sequence[str],
        frame: DataFrame,
        *,
        time: str | Sequence[str] | None = None,
        lateness: str | int | None = None,
        sequence: str | None = None,
    ) -> None:
        """Declare a stream whose events are the rows of a DataFrame.

        With several names each row is an event of all these streams, which are declared sharable.
        Streams that exist already, because a query file has declared them or because another
        DataFrame has events of them too, only get the DataFrame.
        """
        if not hasattr(frame, "sparkSession"):
            hint = "make one with spark.createDataFrame(...), or use braid.Engine"
            message = f"stream {name!r}: a {type(frame).__name__} is not a DataFrame of Spark"
            raise ConfigError("E321", message, hint)
        names = (name,) if isinstance(name, str) else tuple(name)
        if not names or len(set(names)) < len(names):
            raise ConfigError("E407", f"{name!r} are not the names of streams, each once")
        known = [self._catalog.streams[n] for n in names if n in self._catalog.streams]
        # With the same streams again it is meant to be another declaration: an error.
        plain = time is None and lateness is None and sequence is None
        if names not in self._frames and plain and len(known) == len(names):
            for stream in known:
                _check_declared(stream, arrow_schema(stream.name, frame.schema))
        else:
            for each in names:
                self._declare(each, names, frame, time, lateness, sequence)
        _check_alike([self._catalog.streams[each] for each in names])
        self._frames[names] = frame

    def _declare(
        self,
        name: str,
        names: tuple[str, ...],
        frame: DataFrame,
        time: str | Sequence[str] | None,
        lateness: str | int | None,
        sequence: str | None,
    ) -> None:
        if "@" in name:
            raise ConfigError("E407", f"'{name}' cannot be the name of a stream: it has an @")
        others = tuple(other for other in names if other != name)
        schema = arrow_schema(name, frame.schema)
        self._catalog.add_stream(
            stream_from_schema(
                name, schema, time=time, lateness=lateness, sequence=sequence, sharable=others
            )
        )

    @property
    def _attached_names(self) -> dict[str, None]:
        """The streams that have a DataFrame."""
        return {name: None for names in self._frames for name in names}

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
        """Declare how events of a stream arrive, as CREATE CONSTRAINT does: see `Engine.constraint`."""
        self._catalog.add_constraint(
            declared_constraint(
                self._catalog,
                name,
                kind,
                stream,
                attributes,
                target=target,
                target_attributes=target_attributes,
                within=within,
            )
        )

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

    def query(self, query_id: str, text: str, rows: Any = None, *, ids: str | None = None) -> None:
        """Register one query; or, with FOR EACH in the text, one for each of `rows`.

        Rows are a Spark or pandas DataFrame, an Arrow table, or the path of a CSV file; `ids`
        names the column that tells them apart. Rows that cannot be used are in `refused`; the
        others are registered.
        """
        if rows is not None:
            self._prepare(query_id, text, rows, ids)
            return
        registered = compile_query(text, self._catalog, query_id=query_id)
        self._catalog.add_query(registered.query)
        self.notices.extend(registered.notices)

    def _prepare(self, name: str, text: str, rows: Any, ids: str | None) -> None:
        if isinstance(rows, DataFrame):
            if rows.isStreaming:
                raise ConfigError(
                    "E409",
                    "the rows of a prepared query cannot be a streaming DataFrame",
                    "read them with spark.read; queries that come later go to session.control",
                )
            rows = rows.toArrow()
        prepared = prepare_query(text, rows, self._catalog, name=name, ids=ids)
        self._catalog.add_prepared(prepared)
        self.notices.extend(prepared.notices)
        self.refused = list(prepared.refused)

    def control(self, frame: DataFrame) -> None:
        """Take queries that come and go while the pipeline runs from the rows of a DataFrame.

        Columns: `op` ("add" or "drop"), `id`, `text` (of an added query), `at`: the event time
        from which an added query sees events and at which a dropped one ends, a TIMESTAMP or, on
        streams that count ticks, a BIGINT; NULL is where time stands, and `Running.changes` says when
        that is. A column `seq`, if there is one, orders the changes that come together.
        """
        control_columns(frame)
        self._control = frame

    def load(self, pattern: str | Path) -> None:
        """Register everything in the query files that a path, a folder or a pattern means."""
        for text, file in loadable(pattern, self._catalog, missing="E406"):
            self.execute(text, name=str(file))

    def execute(self, text: str, *, name: str | None = None) -> None:
        """Run statements: CREATE and DROP of all kinds, bare queries."""
        self.notices.extend(load(text, self._catalog, name=name).notices)

    def remove(self, query_id: str) -> None:
        self._catalog.remove_query(query_id)

    # -- what comes out --

    def output(self, name: str) -> DataFrame:
        """The events of a published stream: start, end, attributes."""
        return self._views([name])[name](self._packed())

    def matches(self) -> DataFrame:
        """All results of all queries: query, start, end, stream, payload (VARIANT)."""
        return self.output("matches")

    def late(self) -> DataFrame:
        """Events that came too late: stream, start, end, payload (VARIANT)."""
        return self.output("late")

    def rejected(self) -> DataFrame:
        """Rows that do not fit their stream: stream, reason, row (JSON)."""
        return self.output("rejected")

    def explain(self, query: str | None = None) -> Explained:
        """The plan, or one query's part of it, and where each query runs and why."""
        where = explain_distribution(self._distribution(EarlierPlacements.of(()), self.shards))
        shard = Shard(self._catalog.members(), self._catalog.streams, options=self._shard_options())
        return Explained(Explanation(shard), query, (where,))

    def start(
        self,
        outputs: Mapping[str, Any],
        *,
        checkpoint: str | Path | None = None,
        trigger: str | None = None,
        name: str | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Running:
        """Run all queries in one pass over the sources and write each output to its sink.

        A sink is a path (parquet files), "console", "noop", a function of a DataFrame and a
        batch id, or a sink of `braid.spark.sinks`. `trigger` is None (as fast as it goes), a time
        between batches such as "5 seconds", or "available now" (all there is, then stop). Static
        inputs are run at once, without a checkpoint; the call returns when they are done.
        """
        views = self._views(outputs)
        sinks = {name: as_sink(value) for name, value in outputs.items()}
        writer = BatchWriter({n: (views[n], sinks[n]) for n in outputs}, on_progress)
        if not self._is_streaming():
            for sink in sinks.values():
                sink.prepare(self.spark, resumes=False)
            writer(self._packed(_wanted(outputs)), 0)
            return Running(writer, None)
        if checkpoint is None:
            raise ConfigError(
                "E409",
                "a streaming session needs a checkpoint",
                'give start(..., checkpoint="...")',
            )
        launch = _Launch(self, sinks, writer, str(checkpoint), trigger, name)
        again = launch if self._control is not None else None
        try:
            query = launch(frozenset())
        except SILENT as silence:
            raise Jvm(self.spark).lost(silence) or silence from None
        stall = self.options.stall_timeout
        patience = None if stall is None else stall / 1_000_000
        return Running(writer, query, again, launch.beats, self.spark, patience)

    # -- inside --

    def _is_streaming(self) -> bool:
        kinds = {" + ".join(names): frame.isStreaming for names, frame in self._frames.items()}
        if self._control is not None:
            kinds["the control stream"] = self._control.isStreaming
        if len(set(kinds.values())) > 1:
            streaming = ", ".join(n for n, k in kinds.items() if k)
            static = ", ".join(n for n, k in kinds.items() if not k)
            raise ConfigError(
                "E403",
                f"streaming and static inputs cannot be mixed: {streaming} is streaming, "
                f"{static} is static",
                "read all of them with spark.readStream, or all with spark.read",
            )
        return any(kinds.values())

    def _distribution(
        self, kept: EarlierPlacements, shards: int, standing: frozenset[Standing] = frozenset()
    ) -> Distribution:
        groups = self._catalog.members()
        if not groups and self._control is None:
            raise ConfigError("E408", "the session has no query", "add one with session.query")
        found = distribute(groups, self._catalog.streams, shards, kept, standing)
        for name in found.read_streams:
            if name not in self._attached_names:
                raise ConfigError(
                    "E405",
                    f"stream {name} is declared but has no DataFrame",
                    f'give it one with session.stream("{name}", df)',
                )
        return Distribution(self._attached(), found.components, shards, standing)

    def _attached(self) -> dict[str, Stream]:
        """The streams that have a DataFrame, all of them with a time."""
        streams, names = self._catalog.streams, self._attached_names
        return {name: stamped(stream) for name, stream in streams.items() if name in names}

    def _shard_options(self) -> ShardOptions:
        """The options with the functions and constraints of the catalog."""
        return ShardOptions(
            self.options,
            functions={function.name: function for function in self._catalog.functions},
            declared=tuple(self._catalog.constraints.values()),
            whole_streams=self._control is not None,
        )

    def _pipeline(
        self,
        distribution: Distribution,
        *,
        stateful: bool = False,
        name: str | None = None,
        beats: Beats | None = None,
    ) -> Pipeline:
        named: dict[str, Any] = {} if name is None else {"name": name}
        return Pipeline(
            distribution,
            self._frames,
            self._shard_options(),
            stateful=stateful,
            control=self._control,
            catalog=self._catalog,
            beats=beats,
            **named,
        )

    def _packed(self, wanted: frozenset[str] | None = None) -> DataFrame:
        self._is_streaming()
        pipeline = self._pipeline(self._distribution(EarlierPlacements.of(()), self.shards))
        return replace(pipeline, wanted=wanted).packed()

    def _resumed(self, store: _Checkpoint, wanted: frozenset[Standing], beats: Beats) -> Pipeline:
        """The pipeline for a checkpoint: what is placed there stays where it is."""
        saved = store.read()
        if saved is None:
            found = self._distribution(EarlierPlacements.of(()), self.shards, wanted)
            return self._pipeline(found, name=store.path, beats=beats)
        shards = self.options.shards or saved.shards
        saved.check_frame(self._attached(), shards)
        saved.check_sources(self._frames)
        saved.check_control(self._control is not None)
        saved.check_constraints(self._shard_options())
        kept = saved.kept(self._catalog.members())
        distribution = self._distribution(kept, shards, saved.standing | wanted)
        saved.check_state(distribution)
        return self._pipeline(
            distribution,
            stateful=saved.stateful,
            name=store.path,
            beats=beats if saved.beats else None,  # Spark knows sources by number
        )

    def _views(self, names: Iterable[str]) -> dict[str, View]:
        """How each output is made from what the shards packed."""
        groups, streams = self._catalog.members(), self._catalog.streams
        published = emit.published(groups, streams)
        read = [n for members in groups for n in members.template.reads if n in streams]
        if self._control is not None:
            read = list(streams)  # whatever queries come
        shown = [emit.shown_time(streams[name]) for name in dict.fromkeys(read)]
        times = shown if self._control is not None else emit.result_times(groups, streams)
        known: dict[str, View] = dict(published)
        known["matches"] = emit.Matches(emit.common_time(times))
        known["late"] = emit.Late(emit.common_time(shown))
        known["rejected"] = emit.rejected
        for name in names:
            if name not in known:
                raise ConfigError(
                    "E404", f"there is no output '{name}'", f"outputs: {', '.join(known)}"
                )
        return {name: known[name] for name in names}


def _wanted(outputs: Iterable[str]) -> frozenset[str] | None:
    """The outputs whose rows are made; None if all results are shown."""
    return None if "matches" in outputs else frozenset(outputs)


@dataclass(frozen=True)
class _Launch:
    """Starts a session's pipeline on its checkpoint, and starts it again with more routes."""

    session: Session
    sinks: Mapping[str, Sink]
    writer: BatchWriter
    checkpoint: str
    trigger: str | None
    name: str | None

    def __call__(self, wanted: frozenset[Standing]) -> StreamingQuery:
        spark = self.session.spark
        store = _Checkpoint(spark, self.checkpoint)
        pipeline = self.session._resumed(store, wanted, self.beats)
        if not self.writer.has_begun:
            for sink in self.sinks.values():
                sink.prepare(spark, resumes=store.is_used)
        store.write(pipeline.saved)
        runs = self.beats.begin() if pipeline.has_state else ()
        timeout = pipeline.options.user.idle_timeout
        due = runs[-1] + timeout if runs and store.is_used and timeout is not None else None
        ends = self.trigger is not None and "availableNow" in _trigger(self.trigger)
        waits = pipeline.has_beats and timeout is not None and not ends
        self.writer.begin(store, waits=waits, due=due)
        packed = replace(pipeline, wanted=_wanted(self.sinks), runs=runs).packed()
        stream = packed.writeStream.foreachBatch(self.writer)
        stream = stream.option("checkpointLocation", self.checkpoint).outputMode("append")
        if self.name is not None:
            stream = stream.queryName(self.name)
        if self.trigger is not None:
            stream = stream.trigger(**_trigger(self.trigger))
        # Spark reads this when the query starts: one partition for each shard.
        partitions = spark.conf.get("spark.sql.shuffle.partitions")
        spark.conf.set("spark.sql.shuffle.partitions", str(pipeline.distribution.shards))
        try:
            return stream.start()
        except Py4JJavaError as failure:
            raise translated(failure) from failure
        finally:
            spark.conf.set("spark.sql.shuffle.partitions", str(partitions))

    @cached_property
    def beats(self) -> Beats:
        return Beats(self.session.spark, self.checkpoint)

    def is_committed(self, batch: int) -> bool:
        files = Files(self.session.spark)
        return files.exists(f"{self.checkpoint.rstrip('/')}/commits/{batch}")


class _Checkpoint:
    """Braid's part of a checkpoint directory."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._files = Files(spark)
        self.path = path.rstrip("/")
        self._plan = f"{self.path}/braid/plan.json"
        #: Whether a batch was ever begun: before that there is no state to keep.
        self.is_used = self._files.has_child(f"{self.path}/offsets", "")

    def read(self) -> SavedPlan | None:
        if not self.is_used:
            return None
        if not self._files.exists(self._plan):
            raise CheckpointError(
                "E410",
                f"{self.path} is a checkpoint that was not written by Session.start",
                "give another directory",
            )
        try:
            text = self._files.read_text(self._plan)
        except Py4JJavaError as failure:
            text = f"not readable: {failure.java_exception.getMessage()}"
        return SavedPlan.from_json(text)

    def write(self, plan: SavedPlan) -> None:
        self._files.write_text(self._plan, plan.to_json())

    def write_statistics(self, figures: Mapping[str, Any]) -> None:
        self._files.write_text(f"{self.path}/braid-stats.json", json.dumps(figures, indent=1))

    def write_changes(self, batch: int, taken: Sequence[ChangeResult]) -> None:
        """A file for each batch that has changes; a batch that is run again replaces its own."""
        lines = [json.dumps(one.to_json()) + "\n" for one in taken]
        self._files.write_text(f"{self.path}/{CHANGES}/{batch:020d}.json", "".join(lines))


def arrow_schema(stream: str, schema: StructType) -> pa.Schema:
    """A Spark schema in Arrow types."""
    fields = []
    for field in schema.fields:
        try:
            fields.append(pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC")))
        except Exception:
            raise ConfigError(
                "E405",
                f"column {field.name} of stream {stream} has the type "
                f"{field.dataType.simpleString()}, which cannot be carried",
                f'drop or cast it: df.drop("{field.name}")',
            ) from None
    return pa.schema(fields)


def _check_declared(stream: Stream, schema: pa.Schema) -> None:
    """The DataFrame must have the declared columns, with their types."""
    problems = []
    for column in stream.columns:
        if column.name not in schema.names:
            problems.append(f"has no column {column.name}")
        else:
            found = canonical(schema.field(column.name).type)
            if found != column.type:
                problems.append(
                    f"{column.name} is {sql_name(found)}, declared {sql_name(column.type)}"
                )
    if problems:
        raise ConfigError(
            "E405",
            f"the DataFrame does not fit the declared stream {stream.name}: {'; '.join(problems)}",
            "cast the columns of the DataFrame, or change CREATE STREAM",
        )


def _check_alike(streams: Sequence[Stream]) -> None:
    """Streams that get the same rows must read them alike."""
    first = streams[0]
    for other in streams[1:]:
        if (other.columns, other.time, other.sequence) != (
            first.columns,
            first.time,
            first.sequence,
        ):
            raise ConfigError(
                "E405",
                f"{first.name} and {other.name} cannot have the same events: they are declared "
                "with other columns, times or sequences",
                "declare them alike, or give each its own DataFrame",
            )


def _trigger(text: str) -> dict[str, Any]:
    if text.replace("-", " ").replace("_", " ").lower() in (AVAILABLE_NOW, "availablenow"):
        return {"availableNow": True}
    return {"processingTime": text}
