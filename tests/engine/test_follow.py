"""A shard that falls behind because another process runs its events, and follows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from braid.engine import executor
from braid.engine.options import Options, ShardOptions
from braid.engine.shard import Shard
from braid.lang import Catalog, compile_query, stream_from_schema
from tests.properties.law import OPTIONS, Arrival, Run, compare, expected, feeds, start
from tests.properties.plans import RELATIONAL, WINDOW_JOINS, describe, workloads

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.float64()), ("t", pa.int64())])
PAIR = "SELECT k, x_1 AS low, x AS high FROM FILTER{k <> 'no'}(S) NEXT{$1.k = $2.k AND DUR <= 9} S"


def catalog(**queries: str) -> Catalog:
    made = Catalog()
    made.add_stream(stream_from_schema("S", SCHEMA, time="t"))
    for name, text in queries.items():
        made.add_query(compile_query(text, made, query_id=name).query)
    return made


def shard(known: Catalog, pages: dict[str, bytes] | None = None, budget: int = 1_000) -> Shard:
    options = ShardOptions(Options(instance_budget=budget, idle_timeout=None))
    if pages is None:
        return Shard(known.members(), known.streams, options=options)
    return Shard.load(pages, known.members(), known.streams, options=options)


def fed(made: Shard, pages: dict[str, bytes], *rows: tuple[str, float, int]) -> list[tuple]:
    """Results of events up to now; `pages` becomes what is saved afterwards."""
    columns = {"__start": [r[2] for r in rows], "__end": [r[2] for r in rows]}
    columns |= {"k": [r[0] for r in rows], "x": [r[1] for r in rows]}
    made.accept("S", pa.RecordBatch.from_pydict(columns), now=0)
    made.observe("S", rows[-1][2], now=0)
    emission = made.advance(now=0)
    delta = made.save()
    for name in delta.removals:
        del pages[name]
    pages |= delta.puts
    return [tuple(row.values()) for r in emission.results for row in r.table.to_pylist()]


def test_a_shard_that_fell_behind_follows() -> None:
    known, pages = catalog(pair=PAIR), {}
    one = shard(known)
    assert fed(one, pages, ("a", 1.0, 1), ("b", 2.0, 2), ("c", 0.0, 3)) == []
    two = shard(known, pages)
    # Strings that the first has never seen, and instances that it still holds are over.
    assert fed(two, pages, ("new", 5.0, 4), ("a", 3.0, 5), ("b", 4.0, 6), ("z", 0.0, 20)) == [
        (1, 5, "a", 1.0, 3.0),
        (2, 6, "b", 2.0, 4.0),
    ]
    assert one.follow(pages)
    assert fed(one, pages, ("z", 7.0, 22), ("new", 8.0, 23), ("y", 0.0, 40)) == [
        (20, 22, "z", 0.0, 7.0)
    ]
    assert two.follow(pages)
    assert fed(two, pages, ("y", 1.0, 41), ("q", 0.0, 50)) == [(40, 41, "y", 0.0, 1.0)]


def test_a_shard_with_windows_follows_back_and_forth() -> None:
    texts = {
        "sums": "SELECT k, sum(x) AS s FROM S [Range 4] GROUP BY k",
        "all": "SELECT Rstream(count(*) AS n) FROM S [Rows 3]",
        "both": "SELECT A.x, B.k FROM S [Range 3] AS A, S [Range 2] AS B WHERE A.k = B.k",
    }
    known, pages = catalog(**texts), {}
    one = shard(known)
    fed(one, pages, ("a", 1.0, 1), ("b", 2.0, 2), ("a", 4.0, 3))
    behind = dict(pages)
    rest = (("a", 3.0, 4), ("b", 1.0, 5), ("c", 2.0, 20))
    wanted = fed(shard(known, dict(behind)), dict(behind), *rest)
    assert sorted(fed(one, dict(pages), *rest), key=repr) == sorted(wanted, key=repr)
    assert one.follow(dict(behind))
    assert sorted(fed(one, dict(behind), *rest), key=repr) == sorted(wanted, key=repr)
    assert wanted


def test_what_it_saves_can_be_loaded() -> None:
    known, pages = catalog(pair=PAIR), {}
    one = shard(known)
    fed(one, pages, ("a", 1.0, 1), ("b", 2.0, 2))
    fed(shard(known, pages), pages, ("c", 1.0, 3), ("d", 2.0, 4))
    assert one.follow(pages)
    fed(one, pages, ("a", 1.5, 5), ("e", 2.0, 6))
    last = shard(known, pages)
    found = fed(last, pages, *((k, 9.0, 7 + i) for i, k in enumerate("abcde")), ("z", 0.0, 13))
    assert [(start, end, k) for start, end, k, _, _ in found] == [
        (5, 7, "a"),
        (2, 8, "b"),
        (3, 9, "c"),
        (4, 10, "d"),
        (6, 11, "e"),
    ]


def test_other_queries_cannot_be_followed() -> None:
    pages: dict[str, bytes] = {}
    fed(shard(catalog(pair=PAIR)), pages, ("a", 1.0, 1), ("b", 2.0, 2))
    assert not shard(catalog(pair=PAIR, more="SELECT k FROM S")).follow(pages)
    assert not shard(catalog(pair="SELECT k FROM S")).follow(pages)


def test_a_shard_with_a_suspended_query_does_not_follow() -> None:
    """What it gave up cannot be taken back."""
    known, pages = catalog(pair=PAIR), {}
    one = shard(known, budget=2)
    fed(one, pages, ("a", 1.0, 1), ("z", 0.0, 2))
    behind = dict(pages)
    fed(one, pages, *((f"n{i}", 1.0, 3 + i) for i in range(5)))
    assert one.suspended
    assert not one.follow(behind)


@given(st.data())
def test_processes_in_turns(data: st.DataObject) -> None:
    """The law, whoever has a batch: a process goes on from what others have saved, or from what
    it has saved itself before a batch that it has to run again."""
    shapes = data.draw(st.sampled_from([(), RELATIONAL, WINDOW_JOINS]))
    workload = data.draw(workloads(shapes=shapes, depth=_depth(shapes)))
    wanted = expected(workload, workload.events)
    describe(workload)
    forgets = {"GROWTH": 0, "COMPACT_FROM": 0} if data.draw(st.booleans()) else {}
    with patch.multiple(executor, **forgets) if forgets else patch.object(executor, "GROWTH", 2):
        current = start(workload)
        idle: Shard | None = None
        for number, batch in enumerate(data.draw(feeds(workload, reloads=False)).batches):
            if current.pages and data.draw(st.booleans()):
                _attempt(current, batch, number)
            current.feed(batch, now=number)
            current.save()
            if data.draw(st.booleans()):
                idle = _swapped(current, idle)
        current.collect(current.shard.finish())
    assert not any(current.late.values())
    compare(current, wanted)


def _attempt(current: Run, batch: Sequence[Arrival], number: int) -> None:
    """A batch whose results are lost."""
    lost = replace(current, results=defaultdict(list), highest=dict(current.highest))
    lost.feed(batch, now=number)
    if not current.shard.follow(current.pages):
        current.shard = Shard.load(
            current.pages, current.workload.queries, current.workload.streams, options=OPTIONS
        )


def _swapped(current: Run, idle: Shard | None) -> Shard:
    """Another process has the next batch; the one that had this."""
    gone = current.shard
    if idle is not None and idle.follow(current.pages):
        current.shard = idle
    else:
        current.reload()
    return gone


def _depth(shapes: tuple[str, ...]) -> int:
    return {RELATIONAL: 2, WINDOW_JOINS: 1}.get(shapes, 3)


def test_a_join_that_follows_forgets_what_has_left() -> None:
    text = "SELECT A.x AS one, B.x AS two FROM S [Range 3] AS A, S [Range 3] AS B WHERE A.k = B.k"
    known: Catalog = catalog(both=text)
    pages: dict[str, bytes] = {}
    one = shard(known)
    fed(one, pages, ("a", 1.0, 1), ("z", 0.0, 2))
    fed(shard(known, pages), pages, ("b", 5.0, 10), ("z", 0.0, 20))  # a and b have left
    assert one.follow(pages)
    found = fed(one, pages, ("a", 2.0, 21), ("y", 0.0, 30))
    assert found == [(20, 20, 0.0, 0.0), (21, 21, 2.0, 2.0)]
