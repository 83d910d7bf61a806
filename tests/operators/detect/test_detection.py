"""Detections in a running engine: what they share, what they keep, what `explain` tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import braid
from braid.engine.explain.statistics import statistics
from braid.lang import Catalog, compile_query, load
from braid.optimizer.rules import NAMES
from braid.reference import answer, events_from_table
from braid.spark.pipeline.routing import shard_of

STREAMS = """
CREATE STREAM A (x BIGINT, v DOUBLE, t BIGINT) TIME t;
CREATE STREAM B (x BIGINT, y STRING, t BIGINT) TIME t;
CREATE STREAM C (y STRING, t BIGINT) TIME t;
"""
FROM = "FROM A [Rows 100], B [Range 50], C [Rows 100] WHERE A.x = B.x AND B.y = C.y"


def engine(**options: Any) -> braid.Engine:
    made = braid.Engine(idle_timeout=None, **options)
    made.execute(STREAMS)
    return made


def events(first: int, count: int) -> dict[str, pa.Table]:
    """Three events a tick that match each other, and others that do not."""
    ticks = list(range(first, first + count))
    return {
        "A": pa.table({"x": ticks, "v": [float(t % 5) for t in ticks], "t": ticks}),
        "B": pa.table({"x": ticks, "y": [f"y{t % 7}" for t in ticks], "t": ticks}),
        "C": pa.table({"y": [f"y{t % 11}" for t in ticks], "t": ticks}),
    }


def rows(made: braid.Engine, name: str) -> list[tuple[Any, ...]]:
    tables = [table for (query, _), table in made.results.items() if query == name]
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def mop(made: braid.Engine) -> dict[str, Any]:
    (found,) = [m for m in made.explain().to_dict()["mops"] if m["kind"] == "detection"]
    return dict(found)


def detail(made: braid.Engine) -> dict[str, Any]:
    (found,) = [m for m in statistics(made._running())["mops"] if m["kind"] == "detection"]
    return dict(found["detail"])


def test_synopses_are_shared() -> None:
    made = engine()
    made.query("few", f"DETECT F1 {FROM} VERIFY NEVER")
    made.query("same", f"DETECT F2 {FROM} VERIFY NEVER BITMAPS")
    made.query("more", f"DETECT F3 {FROM} VERIFY NEVER BUCKETS 1024")
    other = "FROM C [Rows 100], A [Rows 100], B [Range 50] WHERE B.x = A.x AND C.y = B.y"
    made.query("other", f"DETECT F4 {other} VERIFY NEVER")
    made.process(events(0, 20))
    found = detail(made)
    assert found["detections"] == 4
    assert found["logs"] == 3  # one for each input, whoever asks
    assert found["synopses"] == 9  # 256 buckets as counts and as bitmaps, and 1024
    alone = engine(rules={"s_detect": False})
    alone.query("few", f"DETECT F1 {FROM} VERIFY NEVER")
    alone.query("same", f"DETECT F2 {FROM} VERIFY NEVER BITMAPS")
    alone.process(events(0, 20))
    apart = [m for m in statistics(alone._running())["mops"] if m["kind"] == "detection"]
    assert [m["detail"]["logs"] for m in apart] == [3, 3]


def test_it_is_a_rule() -> None:
    assert "s_detect" in NAMES


def test_members_of_a_prepared_query() -> None:
    made = engine()
    text = f"""CREATE QUERY alarm FOR EACH (above DOUBLE, span BIGINT) AS
      DETECT Alarm {FROM.replace("50", ":span")} AND A.v > :above VERIFY ALWAYS"""
    made.query("alarm", text, {"id": ["low", "high"], "above": [0.0, 99.0], "span": [50, 50]})
    made.process(events(0, 30))
    assert rows(made, "alarm/low")
    assert not rows(made, "alarm/high")
    assert detail(made)["logs"] == 4  # B and C once, A for each selection


def test_what_is_kept_is_bounded_by_windows() -> None:
    made = engine()
    made.query("q", f"DETECT F {FROM} BATCH 10 WITHIN 20")
    sizes = []
    for first in range(0, 2000, 200):
        made.process(events(first, 200))
        sizes.append(made.stats["instances"])
    assert max(sizes[1:]) <= 100 + 50 + 100 + 4 * 20
    made.drop("q")
    made.process(events(2000, 1))
    assert made.stats["instances"] == 0


def test_invalidation_waits_in_the_engine_too() -> None:
    made = engine()
    text = "DETECT F FROM A [Rows 9], B [Rows 1] WHERE A.x = B.x BATCH 2 VERIFY ALWAYS"
    made.query("q", text)
    b = [(1, 1), (5, 2), (1, 3), (5, 4), (6, 5), (7, 6), (8, 20)]
    for x, t in b[:3]:
        made.process({"B": pa.table({"x": [x], "y": ["-"], "t": [t]})})
    made.process({"A": pa.table({"x": [1], "v": [0.0], "t": [3]})})
    for x, t in b[3:]:
        made.process({"B": pa.table({"x": [x], "y": ["-"], "t": [t]})})
    made.process({"A": pa.table({"x": [9], "v": [0.0], "t": [9]})})
    made.finish()
    assert [(row[0], row[2]) for row in rows(made, "q")] == [(9, "A")]


def test_after_a_restart() -> None:
    whole, part = engine(), engine()
    text = f"DETECT F {FROM} BATCH 7 VERIFY ALWAYS"
    for made in (whole, part):
        made.query("q", text)
    whole.process(events(0, 30))
    part.process(events(0, 30))
    again = braid.Engine.restore(part.snapshot())
    for first in (30, 60):
        whole.process(events(first, 30))
        again.process(events(first, 30))
        assert sorted(rows(whole, "q")) == sorted(rows(again, "q"))
        assert rows(whole, "q")


def test_what_explain_tells() -> None:
    made = engine()
    made.query("q", f"DETECT F {FROM} BUCKETS 4, 2 VERIFY ALWAYS")
    made.process(events(0, 30))
    text = str(made.explain())
    assert "equation A[1×4] × B[4×2] × C[1×2]" in text
    assert "bytes; keys of" in text
    assert "of them without a result" in text
    assert mop(made)["kind"] == "detection"


def test_trees_and_cycles() -> None:
    made = engine()
    star = "A [Rows 9] AS a, A [Rows 9] AS b, A [Rows 9] AS c, A [Rows 9] AS d"
    made.query("star", f"DETECT F FROM {star} WHERE a.x = b.x AND a.x = c.x AND a.v = d.v")
    ring = "A [Rows 9] AS a, A [Rows 9] AS b, A [Rows 9] AS c"
    made.query("ring", f"DETECT G FROM {ring} WHERE a.x = b.x AND b.v = c.v AND a.x = c.x")
    made.process(events(0, 5))
    assert len(rows(made, "star")) == 4 * 4  # the epoch of the newest tick is still open
    assert len(rows(made, "ring")) == 3 * 4
    assert "equation b[1×256] × a[1×256] × c[1×256]" in str(made.explain())


def test_too_much_to_keep() -> None:
    made = engine(instance_budget=50)
    made.query("q", "DETECT F FROM A, B WHERE A.x = B.x VERIFY NEVER")
    made.query("other", "DETECT G FROM A [Rows 5], B [Rows 5] WHERE A.x = B.x VERIFY NEVER")
    made.process(events(0, 40))
    made.process(events(40, 40))
    assert "budget" in made.suspended["q"]
    assert "other" not in made.suspended
    made.process(events(80, 5))
    assert not rows(made, "q")
    assert rows(made, "other")
    again = braid.Engine.restore(made.snapshot())
    again.process(events(85, 5))
    assert "budget" in again.suspended["q"]
    assert rows(again, "other")


def test_memory_bounds_what_windows_hold() -> None:
    made = engine()
    made.query("small", f"DETECT F {FROM} BATCH 50 BITMAPS MEMORY 4 KB")
    made.query("large", f"DETECT G {FROM} BATCH 50 BITMAPS MEMORY 64 KB")
    for first in range(0, 400, 100):
        made.process(events(first, 100))
    assert "E211" in made.suspended["small"]
    assert "large" not in made.suspended
    assert rows(made, "large")
    assert detail(made)["synopsis_bytes"] + detail(made)["key_bytes"] <= 64 << 10
    again = braid.Engine.restore(made.snapshot())
    again.process(events(400, 5))
    assert "E211" in again.suspended["small"]


@pytest.mark.parametrize("form", ["COUNTS", "BITMAPS"])
def test_patterns_read_what_is_detected(form: str) -> None:
    made = engine()
    made.query("q", f"DETECT F {FROM} {form} VERIFY ALWAYS")
    made.query("twice", "SELECT input FROM F NEXT{$1.input = $2.input AND DUR <= 1} F")
    made.process(events(0, 10))
    assert rows(made, "twice")


CHAIN = """
CREATE STREAM P (k BIGINT, n BIGINT, t BIGINT) TIME t;
CREATE STREAM Q (k BIGINT, m STRING, t BIGINT) TIME t;
CREATE STREAM R (m STRING, n BIGINT, t BIGINT) TIME t;
"""
LONG = {
    "rows": "FROM P [Rows 60], Q [Rows 40], R [Rows 50] WHERE P.k = Q.k AND Q.m = R.m",
    "time": "FROM P [Range 90], Q [Range 50], R [Now] WHERE P.k = Q.k AND Q.m = R.m AND P.n < 6",
    "ring": "FROM P [Rows 30], Q [Range 60], R [Rows 9] "
    "WHERE P.k = Q.k AND Q.m = R.m AND P.n = R.n AND R.n > 1",
}


def tables_of(count: int, instants: int, random: np.random.Generator) -> dict[str, pa.Table]:
    """Random events of P, Q and R, many of them at one instant."""

    def column(name: str) -> Any:
        drawn = random.integers(0, {"k": 30, "n": 9, "m": 40}[name], count)
        return [f"m{x}" for x in drawn] if name == "m" else drawn

    names = {"P": "kn", "Q": "km", "R": "mn"}
    return {
        stream: pa.table(
            {name: column(name) for name in columns}
            | {"t": np.sort(random.integers(0, instants, count))}
        )
        for stream, columns in names.items()
    }


def told(text: str, tables: dict[str, pa.Table]) -> list[tuple[Any, ...]]:
    """What the reference says."""
    catalog = Catalog()
    load(CHAIN, catalog)
    query = compile_query(text, catalog, query_id="q").query
    known = {name: events_from_table(catalog.streams[name], t) for name, t in tables.items()}
    ((_, wanted),) = answer([query], known).items()
    return sorted(((e.start, e.end, *e.values) for e in wanted), key=repr)


BY_KEY = {
    "rows": "FROM P [Rows 4], Q [Rows 3] WHERE P.k = Q.k",
    "time": "FROM P [Range 60], Q [Range 90] WHERE P.k = Q.k AND P.n < 7",
    "path": "FROM P [Rows 5] AS A, Q [Range 99], P [Rows 3] AS B WHERE A.k = Q.k AND Q.k = B.k AND A.n = B.n",
}


@pytest.mark.parametrize("inputs", BY_KEY.values(), ids=BY_KEY.keys())
@pytest.mark.parametrize(
    "settings", ["VERIFY ALWAYS", "BATCH 3 WITHIN 25 BUCKETS 3", "BATCH 2 BITMAPS PACKING 0.01"]
)
def test_any_number_of_shards(inputs: str, settings: str) -> None:
    """By key, shards that know their own events only say together what the reference says; also if
    each is saved and taken up again, and keys come, go and come again."""
    tables = tables_of(160, 300, np.random.default_rng(7))
    text = f"DETECT Found {inputs} {settings} PARTITION BY k".replace("BY k", "BY Q.k")
    wanted = told(text, tables)
    assert wanted
    for shards in (1, 2, 3):
        found: list[tuple[Any, ...]] = []
        for shard in range(shards):
            made = braid.Engine(idle_timeout=None)
            made.execute(CHAIN)
            made.query("q", text)
            for low in range(0, 300, 37):
                span = pa.array(range(low, low + 37))
                own = {n: t.filter(pc.is_in(t["t"], span)) for n, t in tables.items() if n != "R"}
                made.process(
                    {
                        n: t.filter(pa.array(shard_of(t["k"], shards) == shard))
                        for n, t in own.items()
                    }
                )
                found += rows(made, "q")
                if low == 148:
                    made = braid.Engine.restore(made.snapshot())
            made.finish()
            found += rows(made, "q")
        assert sorted(found, key=repr) == wanted


def test_what_is_kept_of_keys_is_given_back() -> None:
    """Keys that do not come again are forgotten; what comes takes their room."""
    made = engine()
    made.query("q", "DETECT F FROM A [Range 50], B [Range 50] WHERE A.x = B.x PARTITION BY x")
    sizes, values = [], []
    for first in range(0, 20_000, 200):
        made.process(events(first, 200))
        found = detail(made)
        sizes.append(found["synopsis_bytes"] + found["key_bytes"])
        values.append(found["values"])
    assert max(values) < 32 * 200 + 400
    assert max(sizes[50:]) <= max(sizes[:50])
    assert "each of" in str(made.explain())
    made.drop("q")
    made.process(events(20_000, 1))
    assert made.stats["instances"] == 0


@pytest.mark.parametrize("inputs", LONG.values(), ids=LONG.keys())
@pytest.mark.parametrize(
    "settings",
    [
        "VERIFY ALWAYS",
        "BATCH 10 WITHIN 25 BUCKETS 3",
        "BATCH 25 BITMAPS VERIFY ALWAYS",
        "BATCH 4 PACKING 0.4 BUCKETS 16",
    ],
)
def test_long_runs(inputs: str, settings: str) -> None:
    """Windows that move many times over, tables that grow: the reference says the same."""
    tables = tables_of(140, 200, np.random.default_rng(7))
    made = braid.Engine(idle_timeout=None)
    made.execute(CHAIN)
    text = f"DETECT Found {inputs} {settings}"
    made.query("q", text)
    found: list[tuple[Any, ...]] = []
    for low in (*range(0, 200, 37), None):
        if low is None:
            made.finish()
        else:
            part = {
                n: t.filter(pc.is_in(t["t"], pa.array(range(low, low + 37))))
                for n, t in tables.items()
            }
            made.process(part)
        found += rows(made, "q")
    assert sorted(found, key=repr) == told(text, tables)
    assert found
