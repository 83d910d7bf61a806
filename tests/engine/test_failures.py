"""An m-op that raises takes along the queries that depend on it, and nobody else's events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

import braid
from braid.operators.core.batch import Batch

SCHEMA = pa.schema([("Name", pa.string()), ("Price", pa.int64()), ("t", pa.int64())])
PAIR = "SELECT Name, Price FROM Stock NEXT{$1.Name = $2.Name} Stock PUBLISH "
GROUPS = "SELECT Name, count(*) AS n FROM Stock [Rows 3] GROUP BY Name PUBLISH "
CHEAP = "SELECT Name, Price FROM FILTER{Price < 3} Stock PUBLISH "
DEAR = "SELECT Name, Price FROM FILTER{Price > 3} Stock PUBLISH "


def engine(**options: Any) -> braid.Engine:
    made = braid.Engine(**options)
    made.stream("Stock", SCHEMA, time="t")
    return made


def events(first: int, last: int) -> dict[str, pa.Table]:
    times = list(range(first, last))
    return {
        "Stock": pa.table(
            {"Name": [f"n{t % 2}" for t in times], "Price": [t % 6 for t in times], "t": times},
            schema=SCHEMA,
        )
    }


def mops_of(made: braid.Engine, query: str) -> list[str]:
    executor = made._running().executor
    return [
        stage.mop
        for number in executor.registry.numbers_of(query)
        for stage in executor.registry.of(number).route.stages
    ]


def only(made: braid.Engine, query: str, others: tuple[str, ...] = ()) -> str:
    """The last m-op of a query that the others do not go through."""
    theirs = {mop for other in others for mop in mops_of(made, other)}
    return [mop for mop in mops_of(made, query) if mop not in theirs][-1]


def broken(made: braid.Engine, signature: str, *, later: bool = False) -> None:
    """Let an m-op raise from its next batch on, after it has changed its state."""
    logic: Any = made._running().executor.logics[signature]
    run: Callable[..., Any] = logic.on_batch

    def on_batch(inputs: Any, bound: int) -> Any:
        found = run(inputs, bound)
        if not later:
            raise RuntimeError("a defect\nof ours")

        def raises() -> Batch:
            raise RuntimeError("a defect\nof ours")

        ports = found if isinstance(found, Mapping) else {"": found}
        return dict.fromkeys(ports, raises)

    logic.on_batch = on_batch


def rows(found: Mapping[str, pa.Table], stream: str) -> list[Any]:
    return found[stream].to_pylist() if stream in found else []


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("text", [PAIR, GROUPS])
@pytest.mark.parametrize("cut", [(0, 10, 20), (0, 1, 20), (0, 5, 6, 7, 20)])
def test_the_others_have_their_results(text: str, later: bool, cut: tuple[int, ...]) -> None:
    """Also those of the same batch; whoever reads what the query publishes goes with it."""
    alone, both = engine(), engine(rules={"inline": False})
    for made in (alone, both):
        made.query("cheap", CHEAP + "Cheap")
        made.query("dear", DEAR + "Dear")
    both.query("bad", text + "Bad")
    both.query("reader", "SELECT Name FROM Bad PUBLISH Read")
    both.query("second", "SELECT Name FROM FILTER{Name = 'n1'} Read PUBLISH Second")
    expected: dict[str, list[Any]] = {"Cheap": [], "Dear": []}
    got: dict[str, list[Any]] = {name: [] for name in (*expected, "Bad", "Read", "Second")}
    for number, (first, last) in enumerate(pairwise(cut)):
        if number == 1:
            broken(both, only(both, "bad", ("cheap", "dear")), later=later)
        for made, results in ((alone, expected), (both, got)):
            found = made.process(events(first, last))
            for name, known in results.items():
                known += rows(found, name)
        if number == 1:
            before = {name: len(known) for name, known in got.items()}
    for made, results in ((alone, expected), (both, got)):
        found = made.finish()
        for name, known in results.items():
            known += rows(found, name)
    assert {name: got[name] for name in expected} == expected
    assert expected["Cheap"]
    assert {n: len(got[n]) for n in ("Bad", "Read", "Second")} == {
        n: before[n] for n in ("Bad", "Read", "Second")
    }
    assert set(both.suspended) == {"bad", "reader", "second"}
    assert both.suspended["bad"].startswith("E320")
    assert "RuntimeError: a defect of ours" in both.suspended["reader"]


def test_queries_that_share_the_operator_go_with_it() -> None:
    made = engine()
    for number in range(3):
        text = f"FROM FILTER{{Price > {number}}} Stock NEXT{{$1.Name = $2.Name}} Stock PUBLISH P{number}"
        made.query(f"pair{number}", text)
    made.query("cheap", CHEAP + "Cheap")
    made.process(events(0, 5))
    signature = only(made, "pair0", ("cheap",))
    sharing = {q for q in made.queries if signature in mops_of(made, q)}
    broken(made, signature)
    found = made.process(events(5, 12))
    assert found["Cheap"].num_rows
    assert set(made.suspended) == sharing >= {"pair0", "pair1", "pair2"}


def test_a_restart_remembers_and_a_new_registration_begins_anew() -> None:
    made = engine()
    made.query("bad", PAIR + "Bad")
    made.query("cheap", CHEAP + "Cheap")
    made.process(events(0, 5))
    broken(made, only(made, "bad", ("cheap",)))
    made.process(events(5, 8))
    reason = made.suspended["bad"]
    again = braid.Engine.restore(made.snapshot())
    for each in (made, again):
        found = each.process(events(8, 14))
        assert (found["Bad"].num_rows, each.suspended) == (0, {"bad": reason})
        assert found["Cheap"].num_rows
        each.query("like it", PAIR + "Alike")
        assert each.process(events(14, 16))["Alike"].num_rows == 0
        assert set(each.suspended) == {"bad", "like it"}
        each.drop("bad")
        each.drop("like it")
        each.query("anew", PAIR + "Anew")
        each.process(events(16, 20))
        assert each.finish()["Anew"].num_rows
        assert each.suspended == {}


def test_a_plan_that_changes_keeps_it() -> None:
    made = engine()
    made.query("bad", PAIR + "Bad")
    made.process(events(0, 5))
    broken(made, only(made, "bad"))
    made.process(events(5, 8))
    made.execute("CREATE QUERY other AS SELECT Name FROM FILTER{Price = 1} Stock PUBLISH Other;")
    found = made.process(events(8, 14))
    assert found["Other"].num_rows
    assert found["Bad"].num_rows == 0
    assert set(made.suspended) == {"bad"}


def test_a_disk_that_fails_is_not_the_querys_doing() -> None:
    made = engine()
    made.query("pair", PAIR + "Pair")
    logic: Any = made._running().executor.logics[only(made, "pair")]

    def on_batch(inputs: Any, bound: int) -> Any:
        raise OSError(28, "No space left on device")

    logic.on_batch = on_batch
    with pytest.raises(OSError, match="No space"):
        made.process(events(0, 5))


HUGE = 2**62
DETECT = (
    f"DETECT Huge FROM Stock [Rows {HUGE}] AS a, Stock [Range {HUGE}] AS b "
    f"WHERE a.Name = b.Name BATCH {2**31 - 1} WITHIN {HUGE}"
)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT Name, count(*) AS n FROM Stock [Rows {HUGE}] GROUP BY Name PUBLISH Huge",
        f"SELECT Name, count(*) AS n FROM Stock [Range {HUGE}] GROUP BY Name PUBLISH Huge",
        f"SELECT a.Name FROM Stock [Rows {HUGE}] a, Stock [Range {HUGE}] b WHERE a.t_ = b.t_ PUBLISH Huge",
        f"FROM Stock NEXT{{DUR <= {HUGE}}} Stock PUBLISH Huge",
        DETECT,
    ],
)
def test_the_largest_numbers_do_not_raise(text: str) -> None:
    made = engine()
    made.query("cheap", CHEAP + "Cheap")
    made.query("huge", text.replace("t_", "Name"))
    for first in (0, 10):
        assert made.process(events(first, first + 10))["Cheap"].num_rows
    made.finish()
    assert made.suspended == {}


@pytest.mark.parametrize("window", ["Rows", "Range"])
def test_larger_windows_are_refused(window: str) -> None:
    """In a text, in one of a known shape, and in rows of parameters."""
    made = engine()
    text = f"SELECT Name, count(*) AS n FROM Stock [{window} %s] GROUP BY Name"
    for number in (5, 6, HUGE):
        made.query(f"q{number}", text % number)
    with pytest.raises(braid.BraidError, match="E177"):
        made.query("larger", text % (HUGE + 1))
    each = f"CREATE QUERY p FOR EACH (n BIGINT) AS {text % ':n'}"
    made.query("p", each, {"n": [5, HUGE, HUGE + 1]})
    assert [(refused.row, refused.code) for refused in made.refused] == [(2, "E186")]
