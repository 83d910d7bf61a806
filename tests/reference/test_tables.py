"""Tables become events by the conventions of the algebra, and back."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa

from braid.algebra.schema import Schema
from braid.algebra.streams import Stream
from braid.algebra.types import BIGINT, DATE, DURATION, STRING, TIMESTAMP
from braid.reference import Event, events_from_result, events_from_table, table_from_events


def test_times_are_microseconds_and_dates_are_days() -> None:
    columns = [("d", DATE), ("u", DURATION), ("ts", TIMESTAMP)]
    stream = Stream("S", Schema.of(columns), ("ts",))
    moment = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    table = pa.table(
        {
            "ts": pa.array([moment], pa.timestamp("ms", "Europe/Berlin")),
            "d": pa.array([date(1970, 1, 2)]),
            "u": pa.array([timedelta(seconds=2)], pa.duration("s")),
        }
    )
    assert events_from_table(stream, table) == [Event((1, 2_000_000), 1_000_000, 1_000_000)]


def test_rows_without_an_interval_are_rejected() -> None:
    columns = [("k", STRING), ("t0", BIGINT), ("t1", BIGINT)]
    stream = Stream("S", Schema.of(columns), ("t0", "t1"))
    table = pa.table({"k": ["a", "b", "c", "d"], "t0": [1, None, 3, 5], "t1": [2, 2, None, 4]})
    assert events_from_table(stream, table) == [Event(("a",), 1, 2)]


def test_streams_without_time_are_stamped() -> None:
    stream = Stream("S", Schema.of([("k", STRING)]))
    table = pa.table({"k": ["a"]})
    assert events_from_table(stream, table, arrival=7) == [Event(("a",), 7, 7)]


def test_round_trip() -> None:
    schema = Schema.of([("k", STRING), ("d", DATE)])
    events = [Event(("a", 3), 1, 2), Event((None, None), 2, 2)]
    table = table_from_events(events, schema, start="start", end="end", time_type=TIMESTAMP)
    assert events_from_result(table.select(["start", "end", "k", "d"])) == events
