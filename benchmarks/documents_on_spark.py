"""Items of feeds end to end on Spark: files of items, queries that join them forever."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from benchmarks.document_runs import ENDLESS
from benchmarks.documents import STREAM, drawn, feed, feed_leaves, shapes
from benchmarks.harness import Measured, Prepared, Size
from benchmarks.on_spark import OnSpark, measured_session, trigger_seconds

DDL = "doc STRING, t BIGINT"


class Items:
    """Items of feeds in order of time; the last one lets time pass the others."""

    def __init__(self, count: int) -> None:
        self._texts = [*feed(count - 1), "<end/>"]

    def __len__(self) -> int:
        return len(self._texts)

    def table(self, start: int, stop: int) -> pa.Table:
        texts = self._texts[start:stop]
        return pa.table({"doc": texts, "t": list(range(start, start + len(texts)))})


class Passed(OnSpark):
    """The same rows through an empty `mapInArrow`."""

    def __init__(self, size: Size) -> None:
        super().__init__(size, Items(size["items"]))

    def prepare(self) -> Prepared:
        self.warm_up(self._run)
        return Prepared()

    def _run(self) -> Any:
        def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from batches

        source = self.source(ddl=DDL)
        return self.finished(source.mapInArrow(same, DDL).writeStream.format("noop"))

    def measure(self) -> Measured:
        seconds, rows = trigger_seconds(self._run())
        return Measured(seconds, rows)


class JoinedInProcess:
    """How many results there are, by an engine without Spark."""

    def __init__(self, size: Size) -> None:
        self._size = size

    def prepare(self) -> Prepared:
        return Prepared()

    def measure(self) -> Measured:
        import braid

        engine = braid.Engine(idle_timeout=None)
        engine.execute(STREAM)
        for number, shape in enumerate(_shapes(self._size)):
            engine.query(f"q{number}", shape.text, shape.columns)
        count, matches = self._size["items"], 0
        items = Items(count)
        engine.process({"S": {"doc": ["<begin/>"], "t": [-1]}})
        started = time.perf_counter()
        for begin in range(0, count, 500):
            engine.process({"S": items.table(begin, min(begin + 500, count))})
            matches += int(engine.stats["matches"])
        return Measured(time.perf_counter() - started, count, matches)

    def close(self) -> None:
        pass


class JoinedOnSpark(OnSpark):
    """All queries in one session. Results are counted where they are found, and not written."""

    def __init__(self, size: Size) -> None:
        super().__init__(size, Items(size["items"]))

    def session(self) -> Any:
        import braid

        session = braid.Session(self.spark, shards=2, idle_timeout=None)
        session.execute(STREAM)
        session.stream("S", self.source(ddl=DDL))
        for number, shape in enumerate(_shapes(self.size)):
            rows = pa.table(shape.columns)
            session.query(f"q{number}", shape.text, rows)
        return session

    def prepare(self) -> Prepared:
        started = time.perf_counter()
        self.session()
        registered = time.perf_counter() - started
        self.warm_up(self._run)
        return Prepared(register_s=registered)

    def _run(self) -> Any:
        running = self.session().start(
            {"rejected": "noop"}, checkpoint=self.checkpoint(), trigger="available now"
        )
        running.await_termination()
        return running

    def measure(self) -> Measured:
        found = measured_session(self._run(), lambda matches: matches)
        extra = {**found.extra, "items_per_s": found.events / found.seconds}
        return Measured(found.seconds, found.events, found.answer, found.state_bytes, extra)


def _shapes(size: Size) -> Any:
    return shapes(drawn(feed_leaves(), 5, size["queries"]), ENDLESS, root="item")
