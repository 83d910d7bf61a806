"""Sessions: streams from DataFrames, queries from texts, DataFrames of results.

session = braid.Session(spark)
session.stream("Stock", df, time="ts", lateness="10 seconds")
session.query("jump", "SELECT ... PUBLISH Jump")
running = session.start({"Jump": "out/jump"}, checkpoint="checkpoint")
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from braid.algebra.queries import Query
from braid.algebra.streams import Stream
from braid.algebra.types import canonical, sql_name
from braid.engine.shard import Options
from braid.errors import CheckpointError, ConfigError, Notice
from braid.lang import Catalog, compile_query, load, parse_duration, stream_from_schema
from braid.plan.build import build_plan
from braid.plan.distribution import Distribution, Placement, distribute
from braid.plan.distribution import explain as explain_distribution
from braid.plan.plan import Plan
from braid.plan.plan import explain as explain_plan
from braid.spark import emit
from braid.spark.checkpoint import SavedPlan
from braid.spark.environment import ARROW_ROWS, STATE_STORE, local_spark, prepare
from braid.spark.files import Files
from braid.spark.ingest import stamped
from braid.spark.pipeline import Pipeline
from braid.spark.running import BatchWriter, Progress, Running
from braid.spark.sinks import as_sink

View = Callable[[DataFrame], DataFrame]

AVAILABLE_NOW = "available now"


class Session:
    """Standing queries over Spark DataFrames.

    `shards` is how many engines share the work, by default as many as Spark has cores; a
    checkpoint keeps its number. `instance_budget` is how many instances one query may hold on
    one shard before it is suspended. `idle_timeout`: a stream that has sent nothing for so long
    no longer holds back the others; None waits for ever.
    """

    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        shards: int | None = None,
        instance_budget: int | None = None,
        idle_timeout: str | int | None = "60 seconds",
    ) -> None:
        prepare()
        self.spark = spark or SparkSession.getActiveSession() or local_spark()
        if shards is not None and shards < 1:
            raise ConfigError("E409", f"shards={shards}: at least one is needed")
        self._shards = shards
        timeout = parse_duration(idle_timeout) if isinstance(idle_timeout, str) else idle_timeout
        self._limits = Options(idle_timeout=timeout)
        if instance_budget is not None:
            self._limits = replace(self._limits, instance_budget=instance_budget)
        self._catalog = Catalog()
        self._frames: dict[str, DataFrame] = {}
        #: Warnings about the queries, such as patterns that may hold state for ever.
        self.notices: list[Notice] = []
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
        return self._shards or int(self.spark.sparkContext.defaultParallelism)

    @property
    def queries(self) -> tuple[Query, ...]:
        return tuple(self._catalog.queries.values())

    # -- what goes in --

    def stream(
        self,
        name: str,
        frame: DataFrame,
        *,
        time: str | Sequence[str] | None = None,
        lateness: str | int | None = None,
        sequence: str | None = None,
    ) -> None:
        """Declare a stream whose events are the rows of a DataFrame.

        A stream that a query file has declared already only gets its DataFrame.
        """
        if "@" in name:
            raise ConfigError("E407", f"'{name}' cannot be the name of a stream: it has an @")
        schema = arrow_schema(name, frame.schema)
        declared = self._catalog.streams.get(name)
        if declared is not None and name not in self._frames:
            if time is None and lateness is None and sequence is None:
                _check_declared(declared, schema)
                self._frames[name] = frame
                return
        stream = stream_from_schema(name, schema, time=time, lateness=lateness, sequence=sequence)
        self._catalog.add_stream(stream)
        self._frames[name] = frame

    def function(
        self,
        name: str,
        call: Callable[..., Any],
        arguments: Sequence[pa.DataType | str],
        returns: pa.DataType | str,
    ) -> None:
        """Let queries call a Python function of scalars; types as `"DOUBLE"` or Arrow types."""
        self._catalog.functions.register(name, call, arguments, returns)

    def query(self, query_id: str, text: str) -> None:
        """Register one query."""
        registered = compile_query(text, self._catalog, query_id=query_id)
        self._catalog.add_query(registered.query)
        self.notices.extend(registered.notices)

    def load(self, pattern: str | Path) -> None:
        """Register everything in the query files that a path or pattern means."""
        files = sorted(glob.glob(str(pattern), recursive=True))
        if not files:
            raise ConfigError("E406", f"nothing matches '{pattern}'", "give a path or a pattern")
        for file in files:
            self.execute(Path(file).read_text(encoding="utf-8"), name=file)

    def execute(self, text: str, *, name: str | None = None) -> None:
        """Run statements: CREATE STREAM, CREATE QUERY, DROP QUERY, bare queries."""
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

    def explain(self, query: str | None = None) -> str:
        """The plan, or one query's part of it, and where each query runs and why."""
        where = explain_distribution(self._distribution({}, self.shards))
        return f"{explain_plan(self._plan(), query)}\n{where}"

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
            writer(self._packed(), 0)
            return Running(writer, None)
        if checkpoint is None:
            raise ConfigError(
                "E409",
                "a streaming session needs a checkpoint",
                'give start(..., checkpoint="...")',
            )
        store = _Checkpoint(self.spark, str(checkpoint))
        pipeline = self._resumed(store)
        for sink in sinks.values():
            sink.prepare(self.spark, resumes=store.is_used)
        store.write(SavedPlan.of(pipeline.distribution, stateful=pipeline.has_state))
        stream = pipeline.packed().writeStream.foreachBatch(writer)
        stream = stream.option("checkpointLocation", str(checkpoint)).outputMode("append")
        if name is not None:
            stream = stream.queryName(name)
        if trigger is not None:
            stream = stream.trigger(**_trigger(trigger))
        # Spark reads this when the query starts: one partition for each shard.
        partitions = self.spark.conf.get("spark.sql.shuffle.partitions")
        self.spark.conf.set("spark.sql.shuffle.partitions", str(pipeline.distribution.shards))
        try:
            return Running(writer, stream.start())
        finally:
            self.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))

    # -- inside --

    def _is_streaming(self) -> bool:
        kinds = {name: frame.isStreaming for name, frame in self._frames.items()}
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

    def _distribution(self, kept: Mapping[str, Placement], shards: int) -> Distribution:
        if not self._catalog.queries:
            raise ConfigError("E408", "the session has no query", "add one with session.query")
        found = distribute(self.queries, self._catalog.streams, shards, kept)
        for name in found.read_streams:
            if name not in self._frames:
                raise ConfigError(
                    "E405",
                    f"stream {name} is declared but has no DataFrame",
                    f'give it one with session.stream("{name}", df)',
                )
        return Distribution(self._attached(), found.components, shards)

    def _attached(self) -> dict[str, Stream]:
        """The streams that have a DataFrame, all of them with a time."""
        streams = self._catalog.streams
        return {name: stamped(streams[name]) for name in streams if name in self._frames}

    def _options(self) -> Options:
        functions = {function.name: function.call for function in self._catalog.functions}
        return replace(self._limits, functions=functions)

    def _packed(self) -> DataFrame:
        self._is_streaming()
        distribution = self._distribution({}, self.shards)
        return Pipeline(distribution, self._frames, self._options()).packed()

    def _resumed(self, store: _Checkpoint) -> Pipeline:
        """The pipeline for a checkpoint: what is placed there stays where it is."""
        saved = store.read()
        if saved is None:
            return Pipeline(self._distribution({}, self.shards), self._frames, self._options())
        shards = self._shards or saved.shards
        saved.check_frame(self._attached(), shards)
        distribution = self._distribution(saved.kept(self.queries), shards)
        saved.check_state(distribution)
        return Pipeline(distribution, self._frames, self._options(), stateful=saved.stateful)

    def _plan(self) -> Plan:
        return build_plan(self.queries, self._catalog.streams)

    def _views(self, names: Iterable[str]) -> dict[str, View]:
        """How each output is made from what the shards packed."""
        plan = self._plan()
        times = [outlet.time_type for outlet in plan.outlets]
        late = [emit.shown_time(self._catalog.streams[name]) for name in plan.sources]
        known: dict[str, View] = {
            outlet.stream: emit.Results(outlet) for outlet in plan.outlets if outlet.stream
        }
        known["matches"] = emit.Matches(emit.common_time(times))
        known["late"] = emit.Late(emit.common_time(late))
        known["rejected"] = emit.rejected
        for name in names:
            if name not in known:
                raise ConfigError(
                    "E404", f"there is no output '{name}'", f"outputs: {', '.join(known)}"
                )
        return {name: known[name] for name in names}


class _Checkpoint:
    """Braid's part of a checkpoint directory."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._files = Files(spark)
        self._path = path.rstrip("/")
        self._plan = f"{self._path}/braid/plan.json"
        #: Whether a batch was ever begun: before that there is no state to keep.
        self.is_used = self._files.has_child(f"{self._path}/offsets", "")

    def read(self) -> SavedPlan | None:
        if not self.is_used:
            return None
        if not self._files.exists(self._plan):
            raise CheckpointError(
                "E410",
                f"{self._path} is a checkpoint that was not written by Session.start",
                "give another directory",
            )
        try:
            text = self._files.read_text(self._plan)
        except Py4JJavaError as failure:
            text = f"not readable: {failure.java_exception.getMessage()}"
        return SavedPlan.from_json(text)

    def write(self, plan: SavedPlan) -> None:
        self._files.write_text(self._plan, plan.to_json())


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


def _trigger(text: str) -> dict[str, Any]:
    if text.replace("-", " ").replace("_", " ").lower() in (AVAILABLE_NOW, "availablenow"):
        return {"availableNow": True}
    return {"processingTime": text}
