"""`braid stats`: the figures that a running job leaves in its checkpoint."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import braid
from braid.engine.explain.statistics import merged, statistics
from tests.cli.terminal import Terminal

JOB = """
[job]
checkpoint = "state"
[[stream]]
name = "Stock"
format = "rate"
[queries]
files = ["a.cel"]
"""


@pytest.fixture
def job(terminal: Terminal) -> Terminal:
    terminal.file("job.toml", JOB)
    terminal.file("a.cel", "")
    return terminal


def figures(name: str) -> dict[str, Any]:
    """What one shard with two queries has counted."""
    engine = braid.Engine()
    schema = pa.schema([("Name", pa.string()), ("Price", pa.float64()), ("t", pa.int64())])
    engine.stream("Stock", schema, time="t")
    engine.query("cheap", "FROM FILTER{Price < 5} Stock PUBLISH Cheap")
    engine.query("up", "FROM Stock NEXT{$1.Name = $2.Name AND $2.Price > $1.Price} Stock")
    prices = {"Name": [name] * 4, "Price": [1.0, 2.0, 9.0, 9.0], "t": [1, 2, 3, 4]}
    engine.process({"Stock": pa.table(prices, schema)})
    return statistics(engine._running())


def write(job: Terminal, data: object) -> None:
    job.file("state/braid-stats.json", json.dumps(data))


def of_two_shards() -> dict[str, Any]:
    shards = {"0": figures("a"), "1": figures("b")}
    return {"batch": 7, "time": "2024-01-31T09:00:00Z", "shards": shards}


def test_figures_of_all_shards_together(job: Terminal) -> None:
    write(job, of_two_shards())
    assert job.run("stats", "--job", "job.toml") == 0
    lines = [line.split() for line in job.out.splitlines()]
    assert "batch 7, 2 shards, written at 2024-01-31T09:00:00Z" in job.out
    assert ["matches", "8"] in lines
    assert ["answered", "up", "to", "tick", "4"] in lines
    (selection,) = [line for line in lines if len(line) > 2 and line[1] == "selection"]
    assert selection[2:5] == ["1", "6", "4"]
    assert ["cheap", "4", "0"] in lines
    assert "index: none, one predicate after the other; 1 clause" in job.out


def test_one_query(job: Terminal) -> None:
    write(job, of_two_shards())
    assert job.run("stats", "--job", "job.toml", "--query", "up") == 0
    lines = [line.split() for line in job.out.splitlines()]
    assert ["up", "4", "2"] in lines
    assert "cheap" not in job.out
    assert job.run("stats", "--job", "job.toml", "--query", "nobody") == 2
    assert "error[E460]" in job.err
    assert "cheap" in job.err


def test_json(job: Terminal) -> None:
    write(job, of_two_shards())
    assert job.run("stats", "--job", "job.toml", "--format", "json") == 0
    found = json.loads(job.out)
    assert (found["batch"], found["shards"]) == (7, 2)
    assert found["queries"]["up"]["matches"] == 4


def test_figures_that_are_together_already(job: Terminal) -> None:
    together = merged([figures("a"), figures("b")])
    progress = {"batch": 3, "shards": 2, "matches": 9, "late": 1}
    write(job, {**together, "progress": progress})
    assert job.run("stats", "--job", "job.toml", "--format", "json") == 0
    found = json.loads(job.out)
    assert (found["batch"], found["shards"]) == (3, 2)
    assert found["totals"]["matches"] == 8
    assert found["progress"] == {"batch": 3, "shards": 2, "matches": 9, "late": 1}
    assert job.run("stats", "--job", "job.toml") == 0
    lines = [line.split() for line in job.out.splitlines()]
    assert ["matches", "9"] in lines, "those of the run, queries that were dropped included"
    assert ["late", "1"] in lines


def test_an_index_of_bitmaps_shows_its_sequence(job: Terminal) -> None:
    shard = figures("a")
    detail = {
        "form": "asc",
        "columns": ["Name", "Price"],
        "sequence": [1, 0],
        "dropping_ratio": 0.25,
        "rearrangements": 3,
        "clauses": 12,
    }
    next(m for m in shard["mops"] if m["kind"] == "selection")["detail"] = detail
    write(job, shard)
    assert job.run("stats", "--job", "job.toml") == 0
    shown = "ASC in the sequence Price > Name; 25% of events dropped; 3 rearrangements; 12 clauses"
    assert shown in job.out


def test_joins_show_their_constraints_and_the_k_of_each_over_time(job: Terminal) -> None:
    engine = braid.Engine(constraints="monitored")
    engine.execute("""
        CREATE STREAM Orders (id BIGINT, t BIGINT) TIME t;
        CREATE STREAM Items (id BIGINT, t BIGINT) TIME t;
        CREATE CONSTRAINT rising ON Orders (id) ASCENDING WITHIN 3 ROWS;
    """)
    engine.query("q", "Select I.id From Orders [Range 99] O, Items [Range 99] I Where O.id = I.id")
    engine.process(
        {
            "Orders": {"id": [5, 6, 7, 8, 9, 1, 2], "t": [1, 2, 3, 4, 5, 6, 9]},
            "Items": {"id": [0], "t": [9]},
        }
    )
    shard = statistics(engine._running())
    join = next(m for m in shard["mops"] if "one_result" in m["detail"])
    declared = next(c for c in join["detail"]["constraints"] if "declared" in c)
    declared |= {"history": [[1, 3], [6, None]], "saved": 0.25, "cost": 0.125, "refused": 2}
    write(job, shard)
    assert job.run("stats", "--job", "job.toml") == 0
    assert "0: window range 99 inside; holds" in job.out
    assert "is ascending (declared: Orders (id) ascending within 3 rows) not at present" in job.out
    assert "saves 25.0% of memory for 12.5% of time; given up 2 times" in job.out
    assert "its k over time: 3 from 1, none from 6" in job.out


def test_suspended_queries_say_why(job: Terminal) -> None:
    shard = figures("a")
    shard["queries"]["up"]["suspended"] = "more than 2 instances"
    write(job, shard)
    assert job.run("stats", "--job", "job.toml") == 0
    assert "more than 2 instances" in job.out


def test_where_there_are_none(job: Terminal) -> None:
    assert job.run("stats", "--job", "job.toml") == 2
    assert "error[E467]" in job.err
    assert "after its first batch" in job.err
    job.file("job.toml", JOB.replace('checkpoint = "state"', ""))
    assert job.run("stats", "--job", "job.toml") == 2
    assert "error[E461]" in job.err


@pytest.mark.parametrize("text", ["nonsense", "[]", "{}"])
def test_what_is_no_file_of_figures(job: Terminal, text: str) -> None:
    job.file("state/braid-stats.json", text)
    assert job.run("stats", "--job", "job.toml") == 2
    assert "error[E467]" in job.err


def test_another_checkpoint(job: Terminal) -> None:
    job.file("elsewhere/braid-stats.json", json.dumps(of_two_shards()))
    assert job.run("stats", "--job", "job.toml", "--checkpoint", "elsewhere") == 0
