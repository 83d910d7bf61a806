"""Joins that use constraints: in exact mode what they put out is what plain joins do."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import braid
from braid.algebra.constraints import ConstraintMode
from braid.jit.runtime import COMPILED
from braid.operators.constraint_join.probes import AbsentKeyTable
from braid.operators.constraint_join.watch import cost_probe as constraint_look
from tests.operators.constraint_join.eager import eager

STREAMS = """
CREATE STREAM A (a BIGINT, b BIGINT, x BIGINT, t BIGINT) TIME t;
CREATE STREAM B (a BIGINT, b BIGINT, y BIGINT, t BIGINT) TIME t;
CREATE STREAM C (a BIGINT, b BIGINT, z BIGINT, t BIGINT) TIME t;
"""

#: Shown columns are such that equal results are found often, or never.
QUERIES = [
    "Istream(Select x, y From A {0}, B {1} Where A.a = B.a)",
    "Istream(Select x From A {0}, B {1} Where A.a = B.a and y > 1)",
    "Istream(Select A.a, x, y From A {0}, B {1} Where A.a = B.a and x > y)",
    "Istream(Select x, y From A {0}, B {1} Where A.a = B.a and A.b = B.b)",
    "Istream(Select x, y, z From A {0}, B {1}, C {2} Where A.a = B.a and A.b = C.b)",
    "Istream(Select x, z From A {0}, B {1}, C {2} Where A.a = B.a and B.b = C.b and z < 3)",
    "Istream(Select x, y, z From A {0}, B {1}, C {2} Where A.a = B.a and B.a = C.a)",
    "Istream(Select x, y, z From A {0}, B {1}, C {2} Where A.a = B.a and B.b = C.b and C.a = A.b)",
]

Event = tuple[str, int, tuple[int | None, int | None, int]]


def tables(events: list[Event]) -> dict[str, dict[str, list[Any]]]:
    found: dict[str, dict[str, list[Any]]] = {}
    for stream, last in (("A", "x"), ("B", "y"), ("C", "z")):
        own = sorted((e for e in events if e[0] == stream), key=lambda e: e[1])
        values = {n: [e[2][k] for e in own] for k, n in enumerate(("a", "b", last))}
        found[stream] = {**values, "t": [e[1] for e in own]}
    return found


def results(running: braid.Engine) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for (_, _), table in running.results.items():
        found.update(tuple(row.values()) for row in table.to_pylist())
    return found


def run(
    mode: ConstraintMode, text: str, batches: list[list[Event]], restarts: set[int]
) -> Counter[tuple[Any, ...]]:
    running = braid.Engine(constraints=mode, spill_above=0)
    running.execute(STREAMS)
    running.query("q", text)
    found: Counter[tuple[Any, ...]] = Counter()
    for number, events in enumerate(batches):
        running.process(tables(events))
        found += results(running)
        if number in restarts:
            running = braid.Engine.restore(running.snapshot())
    running.finish()
    return found + results(running)


windows = st.sampled_from(["[Range 2]", "[Range 9]", "[Rows 2]", "[Rows 7]", "", "[Now]"])


@st.composite
def cases(
    draw: st.DrawFn, queries: list[str] = QUERIES, splits: int = 3
) -> tuple[str, list[list[Event]], set[int]]:
    text = draw(st.sampled_from(queries)).format(*(draw(windows) for _ in range(3)))
    key = st.sampled_from([0, 1, 1, 2, 3, None])
    event = st.tuples(
        st.sampled_from("ABC"),
        st.integers(0, 20),
        st.tuples(key, key, st.integers(0, 3)),
    )
    events = draw(st.lists(event, max_size=60))
    events.sort(key=lambda e: e[1])
    cuts = sorted(draw(st.lists(st.integers(0, 21), max_size=splits)))
    edges = [0, *cuts, 22]
    batches = [[e for e in events if low <= e[1] < high] for low, high in itertools.pairwise(edges)]
    return text, batches, draw(st.sets(st.integers(0, splits), max_size=2))


@settings(max_examples=max(60, settings.default.max_examples) if COMPILED else 10, deadline=None)
@given(cases())
def test_exact_joins_equal_plain_ones(case: tuple[str, list[list[Event]], set[int]]) -> None:
    text, batches, restarts = case
    wanted = run(ConstraintMode.OFF, text, batches, set())
    assert run(ConstraintMode.EXACT, text, batches, restarts) == wanted
    with eager():
        assert run(ConstraintMode.EXACT, text, batches, restarts) == wanted
        assert run(ConstraintMode.MONITORED, text, batches, set()) <= wanted


#: Windows by time: such a join can be the plain one for a while.
BY_TIME = [
    "Istream(Select x, y From A [Range 4], B [Range 9] Where A.a = B.a)",
    "Istream(Select x From A [Range 9], B [Range 2] Where A.a = B.a and y > 1)",
    "Istream(Select x, y, z From A [Range 9], B [Range 3], C [Range 5] Where A.a = B.a and A.b = C.b)",
    "Istream(Select x, z From A [Range 5], B [Range 5], C [Range 5] Where A.a = B.a and B.a = C.a)",
]


@settings(max_examples=max(60, settings.default.max_examples) if COMPILED else 8, deadline=None)
@given(cases(BY_TIME, splits=9))
def test_joins_may_use_constraints_and_give_them_up(
    case: tuple[str, list[list[Event]], set[int]],
) -> None:
    """From the plain join to one with constraints and back, some times, with restarts in between."""
    text, batches, restarts = case
    wanted = run(ConstraintMode.OFF, text, batches, set())
    with eager(fickle=True):
        assert run(ConstraintMode.EXACT, text, batches, restarts) == wanted
        assert run(ConstraintMode.MONITORED, text, batches, restarts) <= wanted


def test_a_join_alone_in_its_shape_uses_constraints() -> None:
    running = braid.Engine(spill_above=0)
    running.execute(STREAMS)
    running.query("q", QUERIES[0].format("[Range 5]", "[Rows 9]"))
    assert "constraint join" in str(running.explain())
    running.query("r", QUERIES[0].format("[Range 7]", "[Rows 9]"))
    assert str(running.explain()).count("constraint join {") == 1, "it keeps what it has"
    again = braid.Engine.restore(running.snapshot())
    assert str(again.explain()).count("constraint join {") == 1, "also after a restart"
    together = braid.Engine(spill_above=0)
    together.execute(STREAMS)
    together.query("q", QUERIES[0].format("[Range 5]", "[Rows 9]"))
    together.query("r", QUERIES[0].format("[Range 7]", "[Rows 9]"))
    assert "constraint join {" not in str(together.explain()), "joins of one shape share"


#: Joins of relations that come and go, and what reads all that goes.
CHANGING = [
    "Istream(Select L.a, x, y From A [Partition By a Rows 1] as L, B {1} Where L.a = B.a)",
    "Dstream(Select x, y From A {0}, B {1} Where A.a = B.a)",
    "Rstream(Select x, y From A {0}, B {1} Where A.a = B.a and x < 3)",
    "Istream(Select A.a, count(*) as n, sum(y) as s From A {0}, B {1} Where A.a = B.a Group By A.a)",
    "Istream(Select distinct x, z From A {0}, B {1}, C {2} Where A.a = B.a and B.b = C.b)",
    "Istream(Select x + y as s From A {0}, B {1} Where A.a = B.a)",
    (
        "Istream(Select L.a, D.n From (Select a, count(*) as n From B {1} Group By a) as D, "
        "A [Partition By a Rows 2] as L Where L.a = D.a)"
    ),
]


@settings(max_examples=max(60, settings.default.max_examples) if COMPILED else 10, deadline=None)
@given(cases(CHANGING))
def test_joins_of_changes_equal_plain_ones(case: tuple[str, list[list[Event]], set[int]]) -> None:
    text, batches, restarts = case
    wanted = run(ConstraintMode.OFF, text, batches, set())
    with eager():
        assert run(ConstraintMode.EXACT, text, batches, restarts) == wanted
    if not text.startswith("Istream"):
        assert run(ConstraintMode.MONITORED, text, batches, restarts) == wanted


def test_a_small_join_keeps_what_it_has() -> None:
    """Below `spill_above` memory is no matter: nothing is watched, and nothing goes to a file."""
    for above, is_aside in ((1 << 30, False), (0, True)):
        running = braid.Engine(idle_timeout=None, spill_above=above)
        running.execute("CREATE STREAM A (k BIGINT, v BIGINT, t BIGINT) TIME t;")
        running.execute("CREATE STREAM B (k BIGINT, w BIGINT, t BIGINT) TIME t;")
        running.query(
            "q", "SELECT A.v, B.w FROM A [Range 50000], B [Range 50000] WHERE A.k = B.k PUBLISH O"
        )
        found = 0
        for start in range(0, 30_000, 5_000):
            time = pa.array(range(start, start + 5_000), pa.int64())
            found += len(
                running.process(
                    {
                        "A": pa.table({"k": time, "v": time, "t": time}),
                        "B": pa.table({"k": time, "w": time, "t": time}),
                    }
                )["O"]
            )
        (join,) = [m for m in running.explain().to_dict()["mops"] if m["kind"] == "join"]
        aside = sum(input_.get("aside", 0) for input_ in join["detail"]["inputs"])
        assert ("too little is held" in str(running.explain())) is not is_aside
        assert (aside > 0) is is_aside
        assert found >= 29_999


def test_a_small_join_costs_what_a_plain_one_does() -> None:
    """What WHERE refuses does not come to it, and nothing is laid out for what it does not watch."""
    text = "Select x, y From A [Range 5], B [Range 5] Where A.a = B.a and x > 2 and y < 9"
    found = {}
    for rules in (None, "none"):
        running = braid.Engine(rules=rules)
        running.execute(STREAMS)
        running.query("q", text)
        running.process(tables([("A", 1, (1, 1, 1)), ("A", 2, (1, 1, 3)), ("B", 3, (1, 1, 4))]))
        found[rules] = (
            [mop["kind"] for mop in running.explain().to_dict()["mops"]].count("selection"),
            running.stats["state_bytes"],
        )
    assert found[None][0] == found["none"][0] == 2
    assert found[None][1] < found["none"][1] + 16_384


def test_constraints_are_used_where_they_are_worth_it() -> None:
    """A join looks at a few keys, goes over to constraints if much would leave early, and comes back
    if that was not worth its time; what it shows says so."""

    def batch(start: int, *, prompt: bool) -> dict[str, pa.Table]:
        time = list(range(start, start + 4_000))
        asked = time if prompt else [t // 16 * 7919 % 4_096 for t in time]
        return {
            "A": pa.table({"k": asked, "v": time, "t": time}),
            "B": pa.table({"k": asked, "w": time, "t": time}),
        }

    def joined(running: braid.Engine) -> dict[str, Any]:
        (join,) = [m for m in running.explain().to_dict()["mops"] if m["kind"] == "join"]
        detail: dict[str, Any] = join["detail"]
        return detail

    def running(mode: str) -> braid.Engine:
        made = braid.Engine(idle_timeout=None, constraints=mode, spill_above=0)
        made.execute("CREATE STREAM A (k BIGINT, v BIGINT, t BIGINT) TIME t;")
        made.execute("CREATE STREAM B (k BIGINT, w BIGINT, t BIGINT) TIME t;")
        made.query("q", "SELECT v, w FROM A [Range 9000], B [Range 9000] WHERE A.k = B.k")
        return made

    for mode in ("exact", "monitored"):
        one, plain = running(mode), running("off")
        for start in range(0, 24_000, 4_000):
            for engine in (one, plain):
                engine.process(batch(start, prompt=False))
            assert results(one) == results(plain) != Counter()
        assert not joined(one)["watches"], "many of each key, in any order: nothing leaves"
        assert "joined without constraints" in str(one.explain())
        one = running(mode)
        for start in range(0, 24_000, 4_000):
            one.process(batch(start, prompt=True))
        assert joined(one)["watches"], "each has one partner, at once"
        assert sum(input_["rows"] for input_ in joined(one)["inputs"]) < 6_000
        with patch.object(constraint_look, "cost_of", lambda plain, own: 1e9):
            for start in range(24_000, 80_000, 4_000):
                one.process(batch(start, prompt=True))
        assert not joined(one)["watches"]
        assert joined(one)["looked_in_vain"] == 1


def test_a_join_by_itself_is_found_again_among_many() -> None:
    def running(mode: str) -> braid.Engine:
        made = braid.Engine(idle_timeout=None, constraints=mode, spill_above=0)
        made.execute("CREATE STREAM A (k BIGINT, v BIGINT, t BIGINT) TIME t;")
        made.execute("CREATE STREAM B (k BIGINT, w BIGINT, t BIGINT) TIME t;")
        made.query("q0", text(0))
        made.process(events(0))
        for number in range(1, 30):
            made.query(f"q{number}", text(number))
        return made

    def text(number: int) -> str:
        return (
            f"SELECT A.v, B.w FROM A [Range 500], B [Range 500] WHERE A.k = B.k AND A.v >= {number}"
        )

    def events(start: int) -> dict[str, pa.Table]:
        time = pa.array(range(start, start + 100), pa.int64())
        late = pa.array([t // 2 for t in range(start, start + 100)], pa.int64())
        return {
            "A": pa.table({"k": time, "v": time, "t": time}),
            "B": pa.table({"k": late, "w": time, "t": time}),
        }

    exact, plain = running("exact"), running("off")
    assert "constraint join" in str(exact.explain())
    for start in range(100, 600, 100):
        if start == 300:
            exact = braid.Engine.restore(exact.snapshot())
        for one in (exact, plain):
            one.process(events(start))
        assert results(exact) == results(plain) != Counter()
    assert "constraint join" in str(exact.explain())


@settings(max_examples=30 if COMPILED else 8, deadline=None)
@given(cases(BY_TIME), st.sampled_from([1, 600, 1 << 20]), st.integers(0, 3))
def test_joins_that_rest_equal_plain_ones(
    case: tuple[str, list[list[Event]], set[int]], above: int, woken: int
) -> None:
    """Until so much is held, and after a restart with another limit."""
    text, batches, restarts = case
    wanted = run(ConstraintMode.OFF, text, batches, set())
    running = braid.Engine(spill_above=above)
    running.execute(STREAMS)
    running.query("q", text)
    found: Counter[tuple[Any, ...]] = Counter()
    with eager():
        for number, events in enumerate(batches):
            running.process(tables(events))
            found += results(running)
            if number in restarts:
                running = braid.Engine.restore(running.snapshot())
            if number == woken:
                running.constraint("told", "key", "C", "a")
        running.finish()
    assert found + results(running) == wanted


def test_a_join_of_relations_is_found_again_after_a_restart() -> None:
    running = braid.Engine(constraints="monitored", idle_timeout=None)
    running.execute(STREAMS)
    running.query("q", CHANGING[4].format("[Range 5]", "[Range 5]", ""))
    running.process(tables([("A", 1, (1, 1, 1)), ("C", 1, (1, 1, 2))]))
    running.process(tables([("A", 2, (3, 1, 1))]))
    again = braid.Engine.restore(running.snapshot())
    assert "its rows come and go" in str(again.explain())
    again.process(tables([("B", 3, (1, 1, 0))]))
    again.finish()
    assert [row[-2:] for row in results(again)] == [(1, 2)]


def clustered_batches(keys: int, apart: int) -> list[dict[str, pa.Table]]:
    """A row of T for each key, one of S right after it, and one when so many keys have begun since;
    in batches of a thousand keys. The first ones come twice at once."""
    batches = []
    for first in range(0, keys, 1000):
        key = np.arange(first, first + 1000)
        late = np.where(key < apart, key, key - apart)
        s = {
            "a": np.stack([key, late], 1).ravel(),
            "t": np.stack([3 * key + 1, 3 * key + 2], 1).ravel(),
        }
        t = {"a": key, "t": 3 * key}
        for columns in (s, t):
            columns["a"] = columns["a"] * 7_919 % 104_729  # in no order
        batches.append({"S": pa.table(s), "T": pa.table(t)})
    return batches


@pytest.mark.parametrize("spill_above", [0, 1 << 16])
def test_a_declared_constraint_loses_nothing_while_it_holds(spill_above: int) -> None:
    """However many values are watched, and whenever the join goes over to constraints."""
    found = []
    for mode in ("off", "monitored"):
        engine = braid.Engine(constraints=mode, spill_above=spill_above, idle_timeout=None)
        engine.execute(
            "CREATE STREAM S (a BIGINT, t BIGINT) TIME t; CREATE STREAM T (a BIGINT, t BIGINT) TIME t;"
            "CREATE CONSTRAINT together ON S (a) CLUSTERED WITHIN 3000 ROWS;"
            "CREATE CONSTRAINT refers ON S (a) REFERENCES T (a) WITHIN 0 ROWS;"
            "CREATE QUERY joined AS SELECT S.a FROM S [Range 20000], T [Range 20000] WHERE S.a = T.a;"
        )
        rows = 0
        for batch in clustered_batches(24_000, 1_499):
            engine.process(batch)
            rows += sum(table.num_rows for table in engine.results.values())
        engine.finish()
        rows += sum(table.num_rows for table in engine.results.values())
        found.append(rows)
        assert not engine.notices
    assert found == [2 * 24_000] * 2


def triangle(mode: str, seed: int) -> tuple[Counter[tuple[Any, ...]], int]:
    """A triangle with a filtered window of one row; what is declared is true. Results, and how many
    rows were put aside."""
    chance, events = np.random.default_rng(seed), 3000
    engine = braid.Engine(constraints=mode, idle_timeout=None)
    data = {}
    for number, name in enumerate("ABC"):
        engine.execute(
            f"CREATE STREAM {name} (id BIGINT, u BIGINT, v BIGINT, f BIGINT, t BIGINT) TIME t"
        )
        rising = np.arange(events)
        data[name] = {
            "id": rising,
            "u": rising + chance.integers(-3, 4, events),
            "v": rising + chance.integers(-3, 4, events),
            "f": chance.integers(0, 10, events),
            "t": 3 * rising + number,
        }
    engine.execute("CREATE CONSTRAINT c ON A (u) ASCENDING WITHIN 7 ROWS")
    engine.query(
        "q",
        "Select A.id As a, B.id As b, C.id As c From A, B [Rows 2], C [Rows 1] "
        "Where A.u = B.u And B.v = C.u And A.v = C.v And C.f < 5",
    )
    found: Counter[tuple[Any, ...]] = Counter()
    for low in range(0, events, 500):
        cut = slice(low, low + 500)
        engine.process({n: pa.table({c: v[cut] for c, v in d.items()}) for n, d in data.items()})
        found += results(engine)
    engine.finish()
    found += results(engine)
    inputs = [m["detail"].get("inputs", []) for m in engine.explain().to_dict()["mops"]]
    return found, sum(one.get("evicted", 0) for own in inputs for one in own)


def test_exact_joins_lose_nothing_on_cycles() -> None:
    for seed in range(4):
        wanted, _ = triangle("off", seed)
        found, evicted = triangle("exact", seed)
        assert found == wanted != Counter()
        assert evicted > 1000


def test_a_row_that_waits_is_found_by_whoever_comes_while_another_input_is_empty() -> None:
    """V's row comes when there is nothing of Z; the one of Z asks for X's row by another key."""
    engine = braid.Engine(idle_timeout=None, spill_above=0)
    engine.execute("""
        CREATE STREAM V (k BIGINT, t BIGINT) TIME t; CREATE STREAM X (k BIGINT, j BIGINT, t BIGINT) TIME t;
        CREATE STREAM Z (j BIGINT, t BIGINT) TIME t;
        CREATE CONSTRAINT c ON X (k) REFERENCES V (k) WITHIN 2 ROWS;
    """)
    engine.query("q", "Select X.k, X.j From V, X, Z [Now] Where V.k = X.k And X.j = Z.j")
    found: Counter[tuple[Any, ...]] = Counter()
    engine.process({"X": {"k": [5], "j": [1], "t": [0]}})
    engine.process({"V": {"k": list(range(100, 3100)), "t": list(range(1, 3001))}})
    engine.process({"V": {"k": [5], "t": [3010]}})
    engine.process({"Z": {"j": [1], "t": [3020]}})
    engine.finish()
    found += results(engine)
    assert [row[-2:] for row in found] == [(5, 1)]


def test_what_an_event_has_asked_for_is_not_known_of_those_of_later_batches() -> None:
    absent = AbsentKeyTable()
    absent.note(0, 17, (0, 0))
    places = len(absent.entries)
    absent.begin()
    absent.entries[:] = 0  # rows are on disk again
    absent.note(0, 18, (0, 0))
    absent.note(0, 17, (0, 0))
    assert len(absent.entries) == places, "an event has asked for it once"
    absent.note(0, 18, (0, 0))
    assert len(absent.entries) == 2 * places
    before = np.count_nonzero(absent.entries)
    assert before == 2, "what this event has asked for, and nothing else"
