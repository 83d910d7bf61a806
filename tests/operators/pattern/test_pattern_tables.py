"""States that are laid together change their numbers, and nothing else."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import braid
from braid.operators.pattern import pattern_tables as states

SCHEMA = pa.schema([("n", pa.int64()), ("c", pa.int64()), ("p", pa.float64()), ("t", pa.int64())])


def text(number: int) -> str:
    """Patterns of two steps; some states have so many edges that these are in an index."""
    name, code = number % 7, 0 if number % 3 else number % 5
    return (
        f"SELECT * FROM FILTER{{p > {number % 11 / 11}}}(FILTER{{n = {name} AND c >= {code}}}(S)"
        f" NEXT{{$2.c = {number % 4} AND DUR <= {5 + number % 2}}} S)"
    )


def events(batch: int) -> pa.Table:
    random, count = np.random.default_rng(batch), 60
    values = {"n": random.integers(0, 7, count), "c": random.integers(0, 5, count)}
    times = np.sort(random.integers(0, count // 2, count)) + 100 * batch
    return pa.table({**values, "p": random.random(count), "t": times}, schema=SCHEMA)


def found(engine: braid.Engine) -> dict[Any, list[Any]]:
    return {
        key: sorted(map(str, table.to_pylist())) for key, table in sorted(engine.results.items())
    }


def run(many: int) -> tuple[list[dict[Any, list[Any]]], int]:
    """What each batch gives, with queries that come and go and a restart, and how often states
    were laid together."""
    renumbered, results = 0, []
    renumber = states.Nodes.renumber

    def counted(nodes: states.Nodes, new: np.ndarray) -> None:
        nonlocal renumbered
        renumbered += int((new != np.arange(len(new))).any())
        renumber(nodes, new)

    with patch.object(states, "MANY_STATES", many), patch.object(states.Nodes, "renumber", counted):
        engine = braid.Engine(idle_timeout=None)
        engine.stream("S", SCHEMA, time="t")
        for number in np.random.default_rng(1).permutation(90).tolist():
            engine.query(f"q{number}", text(number))
        for batch in range(6):
            engine.process({"S": events(batch)})
            results.append(found(engine))
            for number in range(10 * batch, 10 * batch + 10):
                engine.drop(f"q{number}")
            for number in range(90 + 40 * batch, 130 + 40 * batch):
                engine.query(f"q{number}", text(number))
            if batch == 3:
                engine = braid.Engine.restore(engine.snapshot())
        engine.finish()
        results.append(found(engine))
    return results, renumbered


def test_nobody_notices_that_states_are_laid_together() -> None:
    usual, never = run(states.MANY_STATES)
    moved, often = run(2)
    assert never == 0
    assert often > 1
    assert moved == usual
    assert sum(map(len, usual)) > 100


WANTED = {
    "k": pa.array([0, 1, -1, 2**40, 2**40 + 1, 2**62, None], pa.int64()),
    "x": pa.array([0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), None], pa.float64()),
    "s": pa.array(["", "a", "b", "ab", None, "c", "d"], pa.string()),
}


def wanting(number: int) -> str:
    """Queries of first nodes that events have in common; what they ask next is a value, a value or more, or several."""
    written = {
        "k": ["0", "1", "-1", str(2**40), str(2**40 + 1), str(2**62)],
        "x": ["0.0", "1.5", "-1.5"],
        "s": ["''", "'a'", "'b'", "'ab'"],
    }
    column = "kxs"[number % 3]
    values = written[column]
    asked = f"{column} = {values[number // 3 % len(values)]}"
    if number % 10 == 9:
        asked = f"k > {number % 4}"
    elif number % 7 == 6:
        asked += " AND n >= 1"
    first, last = f"FILTER{{n >= {number % 23}}}(W)", f"NEXT{{DUR <= {8 + number % 2}}} W"
    return f"SELECT * FROM FILTER{{{asked}}}({first} {last})"


def test_members_that_a_digest_rules_out_want_nothing() -> None:
    """Digests of one value, of a few in one or two states, and none of too many."""
    schema = pa.schema([("n", pa.int64()), *((c, a.type) for c, a in WANTED.items())])
    results, kinds = [], set()
    know = states.States._write_digests

    def noted(tables: states.States, nodes: np.ndarray) -> None:
        know(tables, nodes)
        for digest in tables.heads["digest"][nodes[nodes >= 0]].tolist():
            kinds.add("one" if digest >= 0 else "none" if digest == -1 else "few")

    for known in (noted, lambda *_: None):
        patched = patch.object(states.States, "_write_digests", known)
        patched.start()
        engine = braid.Engine(idle_timeout=None)
        engine.stream("W", schema.append(pa.field("t", pa.int64())), time="t")
        for number in range(60):
            engine.query(f"q{number}", wanting(number))
        for batch in range(4):
            random, count = np.random.default_rng(batch), 80
            chosen = {c: a.take(random.integers(0, len(a), count)) for c, a in WANTED.items()}
            n, t = random.integers(0, 41, count), np.arange(count) // 2 + 100 * batch
            engine.process({"W": pa.table({"n": n, **chosen, "t": t})})
            results.append(found(engine))
            for number in range(12 * batch, 12 * batch + 12):  # some nodes are left with one edge
                engine.drop(f"q{number}")
            for number in range(60 + 15 * batch, 75 + 15 * batch):
                engine.query(f"q{number}", wanting(number))
        engine.finish()
        results.append(found(engine))
        patched.stop()
    with_digests, without = results[:5], results[5:]
    assert with_digests == without
    assert sum(map(len, without)) > 60
    assert kinds == {"one", "few", "none"}


def test_what_a_step_says_is_not_asked_again_of_those_that_say_it() -> None:
    """Queries of one template, of which some ask for the same value in both conditions: the others
    want what there cannot be."""
    asked = []
    unsaid = states.States._unsaid

    def noted(*args: Any) -> Any:
        found = list(unsaid(*args))
        asked.extend((len(rest.clauses[0]), len(some)) for rest, some in found)
        return found

    def results(pairs: list[tuple[int, int]]) -> list[Any]:
        engine = braid.Engine(idle_timeout=None)
        engine.stream("S", SCHEMA, time="t")
        rules = pa.table({"a": [a for a, _ in pairs], "b": [b for _, b in pairs]})
        text = "SELECT * FROM FILTER{c = :b}(FILTER{n >= 0}(S) NEXT{$2.c = :a} S)"
        with patch.object(states.States, "_unsaid", noted):
            engine.query("q", f"CREATE QUERY q FOR EACH (a BIGINT, b BIGINT) AS {text}", rules)
            engine.process({"S": events(0)})
        return list(found(engine).values())

    equal = [(a, a) for a in range(3)]
    both = results([(a, b) for a in range(3) for b in range(3)])
    assert sorted(asked) == [(0, 3), (1, 6)]
    assert both == results(equal) != []
