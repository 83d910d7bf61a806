"""Figures of a running engine: for each m-op, for some queries, in total."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

import braid
from braid.engine.explain.statistics import counted, merged, statistics

STOCK = pa.schema([("Name", pa.string()), ("Price", pa.float64()), ("t", pa.int64())])
JUMP = "FROM Stock NEXT{$1.Name = $2.Name AND $2.Price > $1.Price AND DUR <= 100} Stock"

LOWS = pa.table({"low": [0.0, 1.0, 2.0, 3.0]})


def engine(**options: object) -> braid.Engine:
    made = braid.Engine(**options)
    made.stream("Stock", STOCK, time="t")
    return made


def stock(*rows: tuple[str, float, int]) -> pa.Table:
    return pa.table(dict(zip(STOCK.names, map(list, zip(*rows, strict=True)), strict=True)), STOCK)


def figures(e: braid.Engine, *queries: str) -> dict[str, Any]:
    found = statistics(e._running(), queries or None)
    return json.loads(json.dumps(found))


def by_kind(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {mop["kind"]: mop for mop in found["mops"]}


def test_figures_of_m_ops_and_in_total() -> None:
    e = engine()
    e.query("jump", f"{JUMP} PUBLISH Jump")
    e.query("cheap", "FROM FILTER{Price < 2} Stock PUBLISH Cheap")
    e.process({"Stock": stock(("a", 1.0, 1), ("b", 5.0, 2), ("a", 3.0, 3), ("c", 9.0, 4))})
    found = figures(e)
    assert found["totals"]["queries"] == 2
    assert found["totals"]["matches"] == 2
    assert found["totals"]["held"] == 1
    assert found["watermarks"] == {"tick": 4}
    mops = by_kind(found)
    assert (mops["selection"]["events_in"], mops["selection"]["events_out"]) == (3, 1)
    assert (mops["sequence"]["events_out"], mops["sequence"]["instances"]) == (1, 2)
    assert mops["sequence"]["state_bytes"] > 0
    assert mops["selection"]["index_bytes"] > 0
    assert mops["selection"]["members"] == 1
    assert mops["selection"]["detail"]["clauses"] == 1


def test_figures_of_queries() -> None:
    e = engine()
    e.query("jump", JUMP)
    e.query("cheap", "FROM FILTER{Price < 2} Stock")
    e.process({"Stock": stock(("a", 1.0, 1), ("b", 5.0, 2), ("a", 3.0, 3), ("c", 9.0, 4))})
    found = figures(e)["queries"]
    assert found["cheap"] == {"matches": 1, "instances": 0, "suspended": None}
    assert found["jump"] == {"matches": 1, "instances": 2, "suspended": None}


def test_matches_add_up_over_batches() -> None:
    e = engine()
    e.query("all", "SELECT Name FROM Stock PUBLISH All")
    for t in range(5):
        e.process({"Stock": stock(("a", 1.0, 2 * t), ("b", 1.0, 2 * t + 1))})
    e.finish()
    assert figures(e)["queries"]["all"]["matches"] == 10


def test_members_of_one_node_are_counted_each() -> None:
    """Results that many queries share are counted for each, whenever each was born."""
    e = engine()
    rows = pa.table({"who": ["a", "a", "b"], "id": ["x", "y", "z"]})
    text = "CREATE QUERY q FOR EACH (who STRING) AS FROM FILTER{Name = :who} Stock"
    e.query("q", text, rows)
    e.process({"Stock": stock(("a", 1.0, 1), ("b", 1.0, 2), ("a", 1.0, 3), ("x", 1.0, 4))})
    e.query("late", "FROM FILTER{Name = 'a'} Stock")
    e.process({"Stock": stock(("a", 1.0, 5), ("x", 1.0, 6))})
    found = figures(e)["queries"]
    counts = {name: own["matches"] for name, own in found.items()}
    assert counts == {"q/x": 3, "q/y": 3, "q/z": 1, "late": 1}


def test_instances_are_those_that_a_query_waits_with() -> None:
    e = engine()
    text = "CREATE QUERY q FOR EACH (who STRING, long BIGINT) AS SELECT Price FROM "
    text += "FILTER{Name = :who}(Stock) NEXT{$2.Price > $1.Price AND DUR <= :long} Stock"
    e.query("q", text, pa.table({"who": ["a", "a", "b"], "long": [100, 2, 100]}))
    e.process({"Stock": stock(("a", 9.0, 1), ("a", 9.0, 2), ("b", 9.0, 3), ("x", 1.0, 9))})
    found = figures(e, "q")["queries"]
    assert found["q/0"]["instances"] == 2
    assert found["q/2"]["instances"] == 1
    assert set(figures(e, "q/1")["queries"]) == {"q/1"}


def test_only_the_busiest_unless_asked_by_name() -> None:
    e = engine()
    rows = pa.table({"who": [f"n{i}" for i in range(50)]})
    e.query("q", "CREATE QUERY q FOR EACH (who STRING) AS FROM FILTER{Name = :who} Stock", rows)
    e.process({"Stock": stock(("n7", 1.0, 1), ("n7", 1.0, 2), ("n9", 1.0, 3), ("x", 1.0, 4))})
    few = statistics(e._running(), most=2)["queries"]
    assert list(few) == ["q/7", "q/9"]
    assert len(figures(e, "q")["queries"]) == 50
    assert figures(e, "nobody")["queries"] == {}


def test_suspended_queries_are_always_there() -> None:
    e = engine(instance_budget=2)
    e.query("wide", "FROM Stock NEXT{$2.Price > $1.Price + 1000} Stock PUBLISH Wide")
    e.query("all", "SELECT Name FROM Stock PUBLISH All")
    e.process({"Stock": stock(*((f"n{i}", float(i), i) for i in range(10)))})
    found = statistics(e._running(), most=1)
    assert "instance_budget" in found["queries"]["wide"]["suspended"]
    assert found["totals"]["suspended"] == 1


def test_figures_are_forgotten_with_their_query() -> None:
    e = engine()
    e.query("a", "FROM FILTER{Price < 2} Stock PUBLISH A")
    e.query("b", "FROM FILTER{Price < 2} Stock PUBLISH B")
    e.process({"Stock": stock(("a", 1.0, 1), ("b", 1.0, 2))})
    e.drop("a")
    assert list(figures(e)["queries"]) == ["b"]
    assert figures(e)["totals"]["matches"] == 1


def test_figures_of_shards_together() -> None:
    parts = []
    for name in ("a", "b"):
        e = engine()
        e.query("jump", JUMP)
        e.process({"Stock": stock((name, 1.0, 1), (name, 2.0, 2), (name, 3.0, 3 + len(parts)))})
        parts.append(figures(e))
    found = merged(parts)
    assert found["totals"]["queries"] == 1
    assert found["totals"]["matches"] == 2
    assert found["watermarks"] == {"tick": 3}
    (mop,) = found["mops"]
    assert mop["members"] == 1
    assert mop["events_out"] == 2
    assert found["queries"]["jump"]["matches"] == 2
    assert merged([])["totals"] == {"queries": 0, "suspended": 0}


def test_an_engine_that_has_no_shard_any_more_has_counted_and_holds_nothing() -> None:
    e = engine()
    e.query("jump", JUMP)
    e.process({"Stock": stock(("a", 1.0, 1), ("a", 2.0, 2), ("a", 3.0, 3), ("a", 1.0, 4))})
    present = figures(e)
    assert present["totals"]["instances"] > 0
    found = merged([counted(present), present])
    for name in ("instances", "state_bytes", "index_bytes", "held"):
        assert found["totals"][name] == present["totals"][name]
    assert found["totals"]["matches"] == 2 * present["totals"]["matches"] > 0
    assert found["watermarks"] == present["watermarks"]
    assert found["mops"][0]["instances"] == present["mops"][0]["instances"]
    assert found["queries"]["jump"]["matches"] == 2 * present["queries"]["jump"]["matches"]


def test_the_busiest_of_many_shards() -> None:
    e = engine()
    e.query("q", "CREATE QUERY q FOR EACH (low DOUBLE) AS FROM FILTER{Price > :low} Stock", LOWS)
    e.process({"Stock": stock(*(("a", float(i), i) for i in range(6)))})
    assert list(merged([figures(e)] * 2, most=2)["queries"]) == ["q/0", "q/1"]
