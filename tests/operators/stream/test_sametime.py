"""SAMETIME of many queries: one m-op, a node for each different set of events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import braid

TEXT = "SELECT v FROM SAMETIME{{ARG_MAX(v)}}(FILTER{{k = {k}}} A)"


def engine(**options: Any) -> braid.Engine:
    made = braid.Engine(idle_timeout=None, **options)
    made.execute("CREATE STREAM A (k BIGINT, v BIGINT, t BIGINT) TIME t;")
    return made


def table(*rows: tuple[int, int, int]) -> pa.Table:
    columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
    return pa.table(columns, ["k", "v", "t"])


def mops(of: braid.Engine) -> list[str]:
    return [mop["kind"] for mop in of.explain().to_dict()["mops"]]


def collect(of: braid.Engine, answers: dict[str, list[tuple[int, ...]]]) -> None:
    for (query, _), found in of.results.items():
        names = [name for name in found.column_names if name != "start"]
        rows = zip(*(found.column(name).to_pylist() for name in names), strict=True)
        answers.setdefault(query, []).extend(rows)


def run(of: braid.Engine, *batches: pa.Table) -> dict[str, list[tuple[int, ...]]]:
    answers: dict[str, list[tuple[int, ...]]] = {}
    for batch in batches:
        of.process({"A": batch})
        collect(of, answers)
    of.finish()
    collect(of, answers)
    return answers


def test_selections_below_share_one_aggregation() -> None:
    shared, alone = engine(), engine(rules="none")
    for of in (shared, alone):
        for k in range(30):
            of.query(f"q{k}", TEXT.format(k=k))
    assert sorted(mops(shared)) == ["aggregation", "selection"]
    assert len(mops(alone)) == 60
    draw = np.random.default_rng(5)
    batches = [
        table(*zip(draw.integers(0, 40, 300), draw.integers(0, 9, 300), times, strict=True))
        for times in (np.arange(300) // 7, 43 + np.arange(300) // 7)
    ]
    found = run(shared, *batches)
    assert len(found) == 30
    assert found == run(alone, *batches)


def test_members_of_a_prepared_query_share_one_aggregation() -> None:
    made = engine()
    made.query(
        "best",
        "CREATE QUERY best FOR EACH (k BIGINT, plus BIGINT) AS "
        "SELECT n FROM SAMETIME{max(v + :plus) AS n}(FILTER{k = :k} A)",
        {"id": ["a", "b", "c"], "k": [1, 2, 1], "plus": [10, 20, 10]},
    )
    (aggregation,) = (m for m in made.explain().to_dict()["mops"] if m["kind"] == "aggregation")
    assert aggregation["members"] == 3
    assert aggregation["detail"] == {"nodes": 2, "births": 1}
    answers = run(made, table((1, 5, 1), (2, 6, 1), (1, 7, 1), (2, 1, 2)))
    assert answers == {
        "best/a": [(1, 17)],
        "best/b": [(1, 26), (2, 21)],
        "best/c": [(1, 17)],
    }


def test_queries_of_different_births_share_one_aggregation() -> None:
    made = braid.Engine(idle_timeout=None)
    made.execute("CREATE STREAM A (v BIGINT, t0 BIGINT, t1 BIGINT) TIME (t0, t1);")
    text = "SELECT n, total FROM SAMETIME{count(*) AS n, sum(v) AS total} A"

    def batch(*rows: tuple[int, int, int]) -> dict[str, pa.Table]:
        columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
        return {"A": pa.table(columns, ["v", "t0", "t1"])}

    answers: dict[str, list[tuple[int, ...]]] = {}
    made.query("old", text)
    made.process(batch((1, 0, 5), (2, 3, 6)))
    collect(made, answers)
    made.query("new", text, at=7)
    made.query("newer", text, at=9)
    made.query("equal", text, at=9)
    (aggregation,) = (m for m in made.explain().to_dict()["mops"] if m["kind"] == "aggregation")
    assert aggregation["detail"] == {"nodes": 3, "births": 3}
    made = braid.Engine.restore(made.snapshot())
    made.process(batch((1, 6, 10), (2, 7, 10), (4, 9, 10), (8, 9, 12), (16, 10, 12)))
    collect(made, answers)
    made.drop("new")
    made.process(batch((1, 20, 20), (1, 30, 30)))
    collect(made, answers)
    made.finish()
    collect(made, answers)
    assert answers == {
        "old": [(5, 1, 1), (6, 1, 2), (10, 3, 7), (12, 2, 24), (20, 1, 1), (30, 1, 1)],
        "new": [(10, 2, 6)],
        "newer": [(10, 1, 4), (12, 2, 24), (20, 1, 1), (30, 1, 1)],
        "equal": [(10, 1, 4), (12, 2, 24), (20, 1, 1), (30, 1, 1)],
    }


def test_streams_of_one_channel_share_one_aggregation() -> None:
    made = braid.Engine(idle_timeout=None)
    made.execute(
        "CREATE STREAM A (k BIGINT, v BIGINT, t BIGINT) TIME t;"
        "CREATE STREAM B (k BIGINT, v BIGINT, t BIGINT) TIME t SHARABLE WITH A;"
    )
    for name in "AB":
        made.query(name, f"SELECT v, n FROM SAMETIME{{max(v) AS v, count(*) AS n}} {name}")
    (aggregation,) = (m for m in made.explain().to_dict()["mops"] if m["kind"] == "aggregation")
    assert aggregation["members"] == 2
    assert "computed once for all nodes that see the same events of an instant" in str(
        made.explain()
    )
    made.process(
        {
            ("A", "B"): {"k": [1, 2, 3, 4], "v": [5, 3, 9, 1], "t": [1, 1, 2, 3]},
            "A": {"k": [7], "v": [4], "t": [3]},
        }
    )
    answers: dict[str, list[tuple[int, ...]]] = {}
    collect(made, answers)
    made.finish()
    collect(made, answers)
    assert answers == {
        "A": [(1, 5, 2), (2, 9, 1), (3, 4, 2)],
        "B": [(1, 5, 2), (2, 9, 1), (3, 1, 1)],
    }
