"""Restarts: what a checkpoint keeps, with the same queries and with others, and when it is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from braid import CheckpointError, ConfigError, Session
from braid.reference import events_from_table
from braid.spark import FileSink, MemorySink
from tests.spark.support import (
    CROSSED,
    KEYED,
    SPREAD,
    WHOLE,
    Market,
    expected,
    matched,
    stock_rows,
    stream_of,
)


def run(session: Session, checkpoint: Path) -> MemorySink:
    sink = MemorySink()
    running = session.start({"matches": sink}, checkpoint=checkpoint, trigger="available now")
    assert running.await_termination(300)
    return sink


def test_queries_come_and_go_while_the_others_keep_their_state(market: Market, tmp_path) -> None:
    """`jump` and `whole` run through: instances and held events of the first run count in the second."""
    checkpoint = tmp_path / "checkpoint"
    for i in range(2):
        market.write("Stock", stock_rows(60, 40 * i, seed=i), f"{i}")
    before = market.session({"jump": KEYED, "whole": WHOLE, "high": SPREAD})
    first = run(before, checkpoint)
    bound = market.watermark()
    for i in range(2, 4):
        market.write("Stock", stock_rows(60, 40 * i, seed=i), f"{i}")
    after = market.session({"crossed": CROSSED, "whole": WHOLE, "jump": KEYED})
    second = run(after, checkpoint)

    kept = [q for q in before.queries if q.id != "high"]
    found = matched((r for r in first.rows if r.query != "high"), kept)
    found += matched((r for r in second.rows if r.query != "crossed"), kept)
    assert found == market.expected(kept, before=market.watermark())
    assert min(second.batches) == max(first.batches) + 1

    removed = [q for q in before.queries if q.id == "high"]
    assert matched((r for r in first.rows if r.query == "high"), removed) == market.expected(
        removed, before=bound
    )
    # A new query sees what arrives after it was added.
    added = [q for q in after.queries if q.id == "crossed"]
    events = events_from_table(stream_of("Stock"), market.table("Stock"))[120:]
    sure = expected(added, {"Stock": events}, market.watermark())
    new = matched((r for r in second.rows if r.query == "crossed"), added)
    assert Counter(k for k in sure.elements() if k[2] >= bound) - new == Counter()
    assert new


def test_constraints_go_on_with_a_checkpoint(market: Market, tmp_path) -> None:
    """The same constraints go on; others are refused, since by them it was decided what is held."""
    checkpoint = tmp_path / "checkpoint"

    def session(*, within: int) -> Session:
        made = market.session({"jump": KEYED})
        made.constraint("together", "clustered", "Stock", "Name", within=within)
        made.execute("CREATE CONSTRAINT rising ON Stock (Lot) ASCENDING WITHIN 10 SECONDS;")
        return made

    market.write("Stock", stock_rows(30, 0, seed=1), "0")
    first = run(session(within=5), checkpoint)
    market.write("Stock", stock_rows(30, 20, seed=2), "1")
    with pytest.raises(CheckpointError, match=r"together: .* within 5 rows then, .* 6 rows now"):
        run(session(within=6), checkpoint)
    with pytest.raises(CheckpointError, match="not declared now"):
        run(market.session({"jump": KEYED}), checkpoint)
    again = session(within=5)
    second = run(again, checkpoint)
    found = matched([*first.rows, *second.rows], again.queries)
    assert found == market.expected(again.queries, before=market.watermark())


def test_a_checkpoint_that_does_not_fit_is_refused(market: Market, tmp_path) -> None:
    """Each refusal says what differs and what to do, before anything is started."""
    checkpoint = tmp_path / "checkpoint"
    market.write("Stock", stock_rows(30, 0, seed=1), "0")
    run(market.session({"jump": KEYED}), checkpoint)

    def refusal(session: Session) -> str:
        with pytest.raises(CheckpointError) as error:
            session.start({"matches": MemorySink()}, checkpoint=checkpoint)
        assert "new checkpoint directory" in str(error.value)
        return str(error.value)

    assert "has 2 shards, this session has 3" in refusal(market.session({"jump": KEYED}, shards=3))
    other = Session(market.spark, shards=2)
    frame = market.frame("Stock", streaming=True)
    other.stream("Stock", frame.withColumn("Lot", frame.Lot.cast("long")), time="ts")
    other.query("jump", KEYED)
    shown = refusal(other)
    assert "columns of Stock: " in shown
    assert "Lot INT" in shown
    more = market.session({"jump": KEYED}, streams=("Stock", "News"))
    assert "stream News is new" in refusal(more)
    reader = "SELECT Name FROM Jump NEXT{} Stock"
    moved = market.session({"jump": KEYED, "reader": reader})
    assert "'reader' added" in refusal(moved)

    plan = checkpoint / "braid" / "plan.json"
    saved = json.loads(plan.read_text())
    (plan.parent / ".plan.json.crc").unlink()
    older = {name: value for name, value in saved.items() if name != "checksum"}
    plan.write_text(json.dumps({**older, "format": 1}))
    assert "has format 1," in refusal(market.session({"jump": KEYED}))
    for damaged in (json.dumps({**saved, "format": 99}), "{"):
        plan.write_text(damaged)
        assert "error[E421]" in refusal(market.session({"jump": KEYED}))


def test_output_of_an_earlier_run_is_not_overwritten(market: Market, tmp_path) -> None:
    """Batch ids of a new checkpoint begin at 0 again."""
    (tmp_path / "out" / "batch=0").mkdir(parents=True)
    session = market.session({"jump": KEYED})
    sink = FileSink(str(tmp_path / "out"))
    with pytest.raises(ConfigError, match="has batches of an earlier run"):
        session.start({"Jump": sink}, checkpoint=tmp_path / "checkpoint")


def test_the_first_query_with_state_needs_a_new_checkpoint(market: Market, tmp_path) -> None:
    """A pipeline of stateless queries has no state store that could be added to."""
    market.write("Stock", stock_rows(30, 0, seed=1), "0")
    run(market.session({"high": SPREAD}), tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match="jump needs some"):
        run(market.session({"high": SPREAD, "jump": KEYED}), tmp_path / "checkpoint")


def test_a_failing_sink_ends_the_run_and_a_restart_repeats_its_batch(market, tmp_path) -> None:
    """The batch was computed, even its state was written, but it was not committed."""
    checkpoint = tmp_path / "checkpoint"
    for i in range(3):
        market.write("Stock", stock_rows(60, 40 * i, seed=i), f"{i}")
    session = market.session({"jump": KEYED})
    sink = MemorySink()

    def failing(frame, batch_id):
        sink.write(frame, batch_id)
        if batch_id == 1:
            raise RuntimeError("disk full")

    running = session.start({"matches": failing}, checkpoint=checkpoint, trigger="available now")
    with pytest.raises(Exception, match="disk full"):
        running.await_termination(300)
    assert "disk full" in str(running.exception)
    half = list(sink.batches[1])
    again = session.start({"matches": sink}, checkpoint=checkpoint, trigger="available now")
    assert again.await_termination(300)
    assert sorted(map(str, sink.batches[1])) == sorted(map(str, half))
    assert matched(sink.rows, session.queries) == market.expected(
        session.queries, before=market.watermark()
    )
