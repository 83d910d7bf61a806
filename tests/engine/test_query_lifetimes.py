"""Queries that are dropped at a time: until then nobody notices, from then on they are not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import braid
from braid import BraidError

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("t", pa.int64())])
PAIR = "SELECT x_1 AS one, x AS two FROM S NEXT{$2.k = $1.k AND DUR <= 9} S"
EACH = (
    "CREATE QUERY each FOR EACH (floor BIGINT) AS SELECT x FROM FILTER{x > :floor}(S) PUBLISH Over"
)
Row = tuple[int, int, int]
Found = set[tuple[str, int, int]]


def engine() -> braid.Engine:
    made = braid.Engine(idle_timeout=None)
    made.stream("S", SCHEMA, time="t", lateness=2)
    return made


def events(rows: list[Row]) -> pa.Table:
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return pa.table({name: columns[:, i] for i, name in enumerate(("k", "x", "t"))}, schema=SCHEMA)


def found(made: braid.Engine) -> Found:
    return {(m["query"], m["start"], m["end"]) for m in made.matches.to_pylist()}


def register(made: braid.Engine) -> None:
    made.query("pair", PAIR)
    made.query("same", PAIR)
    made.query("each", EACH, {"id": ["a", "b"], "floor": [1, 2]})


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_an_end_is_a_time_whatever_the_batches_and_restarts(data: st.DataObject) -> None:
    """Results that end before it are those without an end; the others are not there."""
    draw = data.draw
    drawn = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), min_size=4, max_size=30))
    times = np.cumsum(draw(st.lists(st.integers(0, 2), min_size=len(drawn), max_size=len(drawn))))
    late = draw(st.lists(st.integers(0, 2), min_size=len(drawn), max_size=len(drawn)))
    rows = [(*row, int(t) - back) for row, t, back in zip(drawn, times, late, strict=True)]
    whole, ended = engine(), engine()
    for made in (whole, ended):
        register(made)
    name = draw(st.sampled_from(["pair", "each", "each/b"]))
    told = draw(st.integers(0, len(rows) - 1))
    at = int(times[told]) + draw(st.integers(0, 6))
    everything: Found = set()
    seen: Found = set()
    first = 0
    for last in sorted({told, len(rows), draw(st.integers(1, len(rows)))}):
        part = {"S": events(rows[first:last])}
        whole.process(part)
        ended.process(part)
        everything |= found(whole)
        seen |= found(ended)
        if last == told:
            ended.drop(name, at=at)
        if draw(st.booleans()):
            ended = braid.Engine.restore(ended.snapshot())
        first = last
    for made, into in ((whole, everything), (ended, seen)):
        made.finish()
        into |= found(made)
    mine = {name, *(f"{name}/{member}" for member in "ab")}
    assert seen == {(q, start, end) for q, start, end in everything if q not in mine or end < at}


def test_what_ends_is_there_until_then() -> None:
    made = engine()
    register(made)
    made.process({"S": events([(1, 5, 1), (1, 5, 10)])})
    made.drop("each/a", at=20)
    made.drop("pair", at=20)
    made.drop("pair", at=30)  # the earliest counts
    made.query("other", "SELECT k FROM FILTER{k = 1}(S)")  # plans anew: another attribute
    assert "pair" in made.queries
    made.process({"S": events([(1, 5, 15), (1, 5, 21), (1, 5, 30)])})
    assert {q: max(e for n, _, e in found(made) if n == q) for q in ("pair", "same")} == {
        "pair": 15,
        "same": 21,
    }
    assert made.queries == ("same", "other", "each/b")
    made.query("pair", PAIR)  # another one of the same name
    made.process({"S": events([(1, 5, 31), (1, 5, 40)])})
    assert ("pair", 30, 31) in found(made)


def test_members_that_come_to_what_ends_end_with_it() -> None:
    made = engine()
    register(made)
    made.process({"S": events([(1, 5, 1), (1, 5, 10)])})
    made.drop("each", at=20)
    made.query("each", EACH, {"id": ["c"], "floor": [0]})
    made.process({"S": events([(1, 5, 15), (1, 5, 20), (1, 5, 30)])})
    assert {(q, e) for q, _, e in found(made) if e >= 15 and q.startswith("each")} == {
        ("each/a", 15), ("each/b", 15), ("each/c", 15),
    }  # fmt: skip
    assert made.queries == ("pair", "same")


def test_an_end_before_the_first_event() -> None:
    made = engine()
    register(made)
    made.drop("pair", at=3)
    made.process({"S": events([(1, 5, 1), (1, 5, 2), (1, 5, 3), (1, 5, 9)])})
    assert {(s, e) for q, s, e in found(made) if q == "pair"} == {(1, 2)}


def refused(made: braid.Engine, code: str, act: Any) -> None:
    before = made.queries
    with pytest.raises(BraidError, match=code):
        act()
    assert made.queries == before


def test_what_cannot_end() -> None:
    made = engine()
    register(made)
    made.query("reader", "SELECT x FROM Over")
    made.process({"S": events([(1, 5, 1), (1, 5, 10)])})
    refused(made, "E306", lambda: made.drop("pair", at=2))
    refused(made, "E134", lambda: made.drop("nobody", at=20))
    refused(made, "E135", lambda: made.drop("each", at=20))
    made.drop("reader")
    made.drop("each", at=20)
    refused(made, "E139", lambda: made.query("again", "SELECT x FROM Over"))
    refused(made, "E139", lambda: made.execute("CREATE VIEW V AS SELECT x FROM Over;"))
    refused(made, "E131", lambda: made.query("pair", PAIR))
    made.drop("each")  # now after all
    assert made.queries == ("pair", "same")
