"""Routing and envelopes, without a JVM: equal values go together, nothing is lost on the way."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pytest

from braid.distribution.distribution import distribute
from braid.engine.io.ingest import Ingest, plain
from braid.engine.io.results import Paired, ResultGroup, Shown
from braid.engine.options import ShardOptions
from braid.lang import Catalog, compile_query, stream_from_schema
from braid.spark.pipeline.envelopes import (
    EVENTS,
    HEARTBEAT,
    PACKED,
    REJECTED,
    Rows,
    add_results,
    open_payload,
    open_table,
)
from braid.spark.pipeline.ingest import IngestJob, not_before
from braid.spark.pipeline.routing import hash_values, shard_of
from braid.spark.pipeline.shipping import Shipped
from braid.spark.shards.stateless import StatelessJob, StatelessPlan


def hashes(values: list, type_: pa.DataType) -> list[int]:
    return hash_values(pa.array(values, type_)).tolist()


def test_the_hash_never_changes() -> None:
    """State lies where these numbers say: another hash would lose it."""
    assert hashes([0, 1, -1], pa.int64()) == [
        16294208416658607535, 10451216379200822465, 16490336266968443936,
    ]  # fmt: skip
    assert hashes(["", "ACME", "ü" * 100], pa.string()) == [
        14087677454934409008, 10761209069663464875, 13661992232849172231,
    ]  # fmt: skip
    assert hashes([0.5], pa.float64()) == [17606427253252083309]


def test_equal_values_of_all_types_hash_equal() -> None:
    for narrow in (pa.int8(), pa.int16(), pa.int32()):
        assert hashes([-7, 7], narrow) == hashes([-7, 7], pa.int64())
    assert hashes([0.0, float("nan")], pa.float64()) == hashes([-0.0, -float("nan")], pa.float64())
    assert hashes([0.5], pa.float32()) == hashes([0.5], pa.float64())
    cents = [decimal.Decimal("1.50"), decimal.Decimal("-2.25")]
    assert len(set(hashes(cents, pa.decimal128(10, 2)))) == 2


@pytest.mark.parametrize("type_", [pa.string(), pa.int32(), pa.float64(), pa.date32()])
def test_slices_and_nulls(type_: pa.DataType) -> None:
    values = [None, 3, 4, None, 3] if type_ != pa.string() else [None, "a", "b", None, "a"]
    array = pa.array(values, type_)
    whole = shard_of(array, 7)
    assert whole[0] == whole[3] == 0
    assert whole[1] == whole[4]
    assert (shard_of(array.slice(1), 7) == whole[1:]).all()


def test_shards_get_even_shares() -> None:
    counts = np.bincount(shard_of(pa.array([f"S{i:05d}" for i in range(10_000)]), 8))
    assert counts.min() > 1_000


def test_every_event_goes_once_by_every_channel_and_time_to_every_shard() -> None:
    schema = pa.schema([("t", pa.int64()), ("a", pa.string()), ("b", pa.string())])
    catalog = Catalog()
    stream = stream_from_schema("S", schema, time="t")
    catalog.add_stream(stream)
    texts = ["SELECT a FROM S NEXT{$1.a = $2.b} S", "SELECT a FROM S NEXT{} S"]
    queries = [compile_query(t, catalog, query_id=f"q{i}").query for i, t in enumerate(texts)]
    distribution = distribute(queries, catalog.streams, 3)
    job = IngestJob(Ingest(stream), distribution.routes, (10, 20, 30), True)
    rows = [{"t": i, "a": f"x{i % 5}", "b": f"x{i % 7}"} for i in range(100)] + [{"t": None}]
    batches = pa.Table.from_pylist(rows, schema).to_batches(max_chunksize=17)
    envelopes = pa.Table.from_batches(job(iter(batches))).to_pylist()
    found: dict[str, list[int]] = {}
    homes: dict[tuple[str, str], set[int]] = {}
    for row in envelopes:
        if row["kind"] == EVENTS:
            events = open_table(row["payload"]).to_pylist()
            assert (row["rows"], row["time"]) == (len(events), min(e["__end"] for e in events))
            found.setdefault(row["channel"], []).extend(e["__end"] for e in events)
            route = row["channel"][2:]
            for event in events if route != "*" else ():
                homes.setdefault((route, event[route]), set()).add(row["shard"])
    assert {name: sorted(ends) for name, ends in found.items()} == {
        name: list(range(100)) for name in ("S@a", "S@b", "S@*")
    }
    assert all(len(shards) == 1 for shards in homes.values())
    # What is equal is in one place, by whichever attribute it came.
    assert all(homes["a", v] == homes["b", v] for _, v in homes if ("a", v) in homes)
    beats = [(r["shard"], r["time"], r["rows"]) for r in envelopes if r["kind"] == HEARTBEAT]
    assert beats == [(10, 99, 101), (20, 99, 0), (30, 99, 0)]
    assert [r["rows"] for r in envelopes if r["kind"] == REJECTED] == [1]


def test_large_results_are_cut_into_envelopes() -> None:
    """By rows and by results: what comes out is every result with its query, in order."""
    table = pa.table({"x": pa.array(range(1_200_000))})
    at = np.repeat(np.arange(1_200_000), 4)
    queries = pa.array([f"q{i}" for i in range(4)])
    paired = Paired(at, np.tile(np.arange(4), 1_200_000), queries, np.zeros(4, np.int64))
    group = ResultGroup("P", table, len(at), lambda: paired, [Shown(("x",), [0])])
    rows = Rows(PACKED)
    add_results(rows, group)
    batch = rows.batch()
    assert batch.column("rows").to_pylist() == [2_000_000, 2_000_000, 800_000]
    found = []
    for payload, pairs in zip(batch.column("payload"), batch.column("pairs"), strict=True):
        (part,) = open_payload(pairs.as_buffer())
        taken = open_table(payload.as_buffer()).take(part.column("row"))
        found.append(taken.append_column("query", part.column("query").dictionary_decode()))
    read = pa.concat_tables(found)
    assert (read.column("x").to_numpy() == at).all()
    assert read.column("query").slice(6, 3).to_pylist() == ["q2", "q3", "q0"]


def test_texts_that_repeat_in_some_batches_only_fit_one_envelope() -> None:
    schema = pa.schema([("t", pa.int64()), ("a", pa.string())])
    catalog = Catalog()
    stream = stream_from_schema("S", schema, time="t")
    catalog.add_stream(stream)
    query = compile_query("SELECT a FROM S NEXT{$1.a = $2.a} S", catalog, query_id="q").query
    routes = distribute([query], catalog.streams, 2).routes
    for first, second in ((["x"] * 10, range(10)), (range(10), ["x"] * 10)):
        batches = [
            pa.RecordBatch.from_pydict(
                {"t": list(range(10)), "a": [str(v) for v in values]}, schema
            )
            for values in (first, second)
        ]
        job = IngestJob(Ingest(stream), routes, (1, 2), True)
        envelopes = pa.Table.from_batches(job(iter(batches))).to_pylist()
        found = [
            plain(part.column("a")).to_pylist()
            for row in envelopes
            if row["kind"] == EVENTS
            for part in open_payload(row["payload"])
        ]
        assert sorted(v for values in found for v in values) == sorted(map(str, [*first, *second]))


def test_a_stream_that_nobody_reads_is_read_past_by_a_job_without_state() -> None:
    catalog = Catalog()
    for name in ("A", "B"):
        schema = pa.schema([("n", pa.int64()), ("t", pa.int64())])
        catalog.add_stream(stream_from_schema(name, schema, time="t"))
    query = compile_query("SELECT n FROM A PUBLISH Q", catalog, query_id="q").query
    plan = StatelessPlan(distribute([query], catalog.streams, 1), ShardOptions())
    job = StatelessJob(Shipped(plan), ("B",))
    assert list(job(iter([pa.RecordBatch.from_pydict({"t": [1, 2]})]))) == []


def test_arrivals_behind_time_are_moved_to_it() -> None:
    batch = pa.RecordBatch.from_pydict({"__start": [5, 50], "__end": [5, 50], "n": [1, 2]})
    assert not_before(batch, 20).to_pydict() == {
        "__start": [20, 50],
        "__end": [20, 50],
        "n": [1, 2],
    }
