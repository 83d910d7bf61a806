"""`braid run`: runs a job file as a pipeline."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from braid.cli import show
from braid.cli.catalog import check_sinks, loaded_job, raise_all, read_rows
from braid.cli.changes import SCHEMA
from braid.cli.job import Job, PreparedConfig, Rules, SinkConfig, StreamConfig, load_job
from braid.cli.progress import Watch, stop_signals
from braid.errors import BraidError, ConfigError, PipelineError
from braid.lang.catalog.files import load_in_any_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from braid.spark import Session

FAILED = 3
INTERRUPTED = 130
#: Formats that are directories of files: a repeated batch replaces itself.
FILE_FORMATS = frozenset({"parquet", "json", "csv", "orc", "text", "avro", "xml"})
#: Types of Spark that count ticks where a time is expected.
INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
#: Spark's own log, without the noise of its start.
LOG = Path(__file__).with_name("log4j2.properties")
QUIET = {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG.as_uri()}"}


def run_job(
    path: Path, *, checkpoint: str | None = None, quiet: bool = False, rules: Rules = None
) -> int:
    """Start a job and follow it to its end; returns the exit code."""
    job = load_job(path)
    if rules is not None:
        job = replace(job, options=replace(job.options, rules=rules))
    if checkpoint is not None:
        job = replace(job, checkpoint=str(Path(checkpoint).resolve()))
    if job.checkpoint is None:
        hint = 'add checkpoint = "..." to [job], or use --checkpoint'
        raise ConfigError("E461", f"{job.file}: the job has no checkpoint", hint)
    check_before_spark(job)
    if not quiet:
        show.err.print(f"[dim]starting Spark for {job.name} ...[/]")
    from braid.spark.liveness import stop_spark

    log = spark_log(job.name)
    keep_log = False
    try:
        with output_of_children(log):
            spark = start_spark(job)
        try:
            status = _run(job, spark, quiet, log)
        finally:
            stop_spark(spark)
        keep_log = status == FAILED
    finally:
        if not keep_log:
            log.unlink(missing_ok=True)
    return status


def check_before_spark(job: Job) -> None:
    """Check the job before the JVM starts, as far as the job file has schemas."""
    if any(stream.schema is None for stream in job.streams):
        return
    catalog = loaded_job(job, rows=False).catalog
    published = [name for query in catalog.queries.single.values() for name in query.publishes]
    published += [
        name for roster in catalog.prepared.values() for name in roster.template.publishes
    ]
    check_sinks(job, published)


def _run(job: Job, spark: SparkSession, quiet: bool, log: Path) -> int:
    with stop_signals() as asked:
        session = open_session(job, spark)
        show.notices(session.notices)
        try:
            running = session.start(
                {sink.output: writer_of(sink) for sink in job.sinks},
                checkpoint=job.checkpoint,
                trigger=job.trigger,
                name=job.name,
            )
            watch = Watch(running)
            done = watch.until_done(asked, quiet=quiet)
        except Exception as failure:
            if isinstance(failure, BraidError) and not isinstance(failure, PipelineError):
                raise
            report_failure(job, failure, log)
            return FAILED
    if not quiet:
        show.err.print(watch.line(), soft_wrap=True)
    if done:
        return 0
    show.err.print(f"stopped. {resume_hint(job)}", markup=False, soft_wrap=True)
    return INTERRUPTED


def report_failure(job: Job, failure: Exception, log: Path) -> None:
    """Show the cause on the screen, and write everything to the log."""
    if isinstance(failure, BraidError):
        show.error(failure)
    else:
        what = f"the pipeline failed: {cause_of(failure)}"
        show.err.print(what, style="bold red", markup=False, soft_wrap=True)
    log.write_text(f"{failure.__cause__ or failure}\n\n{_text_of(log)}", encoding="utf-8")
    show.err.print(f"Spark's log: {log}\n{resume_hint(job)}", markup=False, soft_wrap=True)


#: The last line of a Python traceback: the exception.
_RAISED = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt)\b: .+)$", re.MULTILINE)


def cause_of(failure: BaseException) -> str:
    """The cause in Spark's pages of stack trace: the exception of a Python function, else the first
    line."""
    text = str(failure).strip()
    raised = _RAISED.findall(text)
    if raised:
        return str(raised[0])
    return text.splitlines()[0] if text else type(failure).__name__


def spark_log(name: str) -> Path:
    """The log of the JVM and its Python workers, which would otherwise cover the screen."""
    handle, path = tempfile.mkstemp(prefix=f"braid-{name}-", suffix=".log")
    os.close(handle)
    return Path(path)


@contextmanager
def output_of_children(log: Path) -> Iterator[None]:
    """Send the output of child processes to the log."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {number: os.dup(number) for number in (1, 2)}
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for number in saved:
            os.dup2(handle, number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.close(handle)
        for number, copy in saved.items():
            os.dup2(copy, number)
            os.close(copy)


def _text_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def resume_hint(job: Job) -> str:
    """The command that resumes from the checkpoint, with the option if it was given."""
    command = ["braid", "run", str(job.file)]
    if job.checkpoint != load_job(job.file).checkpoint:
        command += ["--checkpoint", str(job.checkpoint)]
    return f"To resume where it stopped: {shlex.join(command)}"


def start_spark(job: Job) -> SparkSession:
    from braid.spark import local_spark

    conf: dict[str, Any] = {"spark.app.name": job.name, **QUIET, **job.spark_conf}
    if job.master is not None:
        conf["spark.master"] = job.master
    return local_spark(**conf)


def open_session(job: Job, spark: SparkSession) -> Session:
    """The job's streams and queries in a session."""
    from braid.spark import Session

    session = Session(spark, options=job.options)
    frames: dict[str, DataFrame] = {}
    for stream in job.streams:
        frame = frames[stream.name] = read_stream(spark, stream)
        session.stream(
            stream.names,
            frame,
            time=stream.time or None,
            lateness=stream.lateness,
            sequence=stream.sequence,
        )
    errors = load_in_any_order(
        job.query_files, lambda text, path: session.execute(text, name=str(path))
    )
    raise_all(error for found in errors.values() for error in found)
    for config in job.prepared:
        give_rows(session, config)
    if job.control is not None:
        ticks = all(counts_ticks(frames[s.name], s) for s in job.streams)
        session.control(read_changes(spark, job.control, ticks=ticks))
    return session


def give_rows(session: Session, config: PreparedConfig) -> None:
    """Give members to a prepared query from one of the files."""
    known = session._catalog.prepared
    if config.name not in known:
        names = ", ".join(known) or "none"
        message = f"there is no prepared query {config.name!r}"
        raise ConfigError("E173", message, f"prepared queries: {names}")
    text = known[config.name].statement.text
    session.query(config.name, text, read_rows(config), ids=config.ids)
    show.refused(config.name, session.refused)


def counts_ticks(frame: DataFrame, stream: StreamConfig) -> bool:
    """Whether the time of a stream is a number and no timestamp."""
    types = dict(frame.dtypes)
    return bool(stream.time) and types.get(stream.time[0]) in INTEGERS


def read_changes(spark: SparkSession, folder: str, *, ticks: bool) -> DataFrame:
    """The job's control directory as a stream. It must exist before Spark reads it."""
    if "://" not in folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
    schema = f"{SCHEMA}, at {'BIGINT' if ticks else 'TIMESTAMP'}"
    return spark.readStream.schema(schema).json(folder)


def read_stream(spark: SparkSession, stream: StreamConfig) -> DataFrame:
    from pyspark.errors import PySparkException

    reader = spark.readStream.format(stream.format).options(**stream.options)
    try:
        if stream.schema is not None:
            reader = reader.schema(stream.schema)
        return reader.load(stream.path) if stream.path else reader.load()
    except PySparkException as failure:
        raise ConfigError(
            "E462",
            f"stream '{stream.name}' cannot be read: {cause_of(failure)}",
            "check format, path, options and schema of this [[stream]]",
        ) from None


def writer_of(sink: SinkConfig) -> Any:
    """The sink of the job file in the form for `Session.start`."""
    from braid.spark.sinks import FileSink

    if sink.format in {"console", "noop"}:
        return sink.format
    if sink.format in FILE_FORMATS and sink.path is not None:
        return FileSink(sink.path, sink.format, dict(sink.options))
    return TableWriter(sink)


class TableWriter:
    """Appends a batch with any format.

    Delta skips a batch that it already has: exactly once. Other formats (Kafka, JDBC) may receive a
    batch twice after a crash.
    """

    def __init__(self, sink: SinkConfig) -> None:
        self.sink = sink

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        writer = frame.write.format(self.sink.format).mode("append").options(**self.sink.options)
        if self.sink.format == "delta":
            writer = writer.option("txnAppId", f"braid:{self.sink.output}:{self.sink.path}")
            writer = writer.option("txnVersion", str(batch_id))
        writer.save(self.sink.path) if self.sink.path else writer.save()
