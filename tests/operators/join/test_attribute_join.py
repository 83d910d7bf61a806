"""Joins over different attributes of the same streams: one buffer, an index for each attribute."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braid

COLUMNS = [f"a{number}" for number in range(4)]
PAIRS = list(itertools.product(COLUMNS, COLUMNS))
ALONE: dict[str, Any] = {"rules": {"s_attribute_join": False, "k_join": False}}
SHARED: dict[str, Any] = {"rules": {"k_join": False}}


def engine(of: str = "BIGINT", **options: Any) -> braid.Engine:
    made = braid.Engine(idle_timeout=None, **options)
    for name in "ST":
        columns = ", ".join(f"{column} {of}" for column in COLUMNS)
        made.execute(f"CREATE STREAM {name} ({columns}, t BIGINT) TIME t;")
    return made


def text(left: str, right: str, size: int = 40, how: str = "=") -> str:
    shown = "SELECT S.a1, T.a2 AS b2, S.a0 AS s, T.a3 AS u"
    return f"{shown} FROM S [Range {size}], T [Range {size}] WHERE S.{left} {how} T.{right}"


def batches(count: int = 3, rows: int = 60, of: str = "BIGINT") -> list[dict[str, pa.Table]]:
    draw, found = np.random.default_rng(4), []
    for number in range(count):
        tables = {}
        for name in "ST":
            columns = {}
            for column in COLUMNS:
                words = [None if w == 0 else int(w) for w in draw.integers(0, 7, rows)]
                texts = [None if w is None else f"text {w}" for w in words]
                columns[column] = pa.array(texts if of == "STRING" else words)
            times = number * rows + np.sort(draw.integers(0, rows, rows))
            tables[name] = pa.table({**columns, "t": times})
        found.append(tables)
    return found


def collect(made: braid.Engine, answers: Counter[tuple[Any, ...]]) -> None:
    for (query, _), found in made.results.items():
        answers.update((query, *row.values()) for row in found.to_pylist())


def run(made: braid.Engine, fed: list[dict[str, pa.Table]], *, move: bool = False) -> Counter[Any]:
    answers: Counter[tuple[Any, ...]] = Counter()
    for batch in fed:
        made.process(batch)
        collect(made, answers)
        if move:
            made = braid.Engine.restore(made.snapshot())
    made.finish()
    collect(made, answers)
    return answers


def joins(made: braid.Engine) -> list[dict[str, Any]]:
    return [mop for mop in made.explain().to_dict()["mops"] if mop["kind"] == "join"]


def test_pairs_of_attributes_share_one_buffer() -> None:
    shared, alone = engine(**SHARED), engine(**ALONE)
    for made in (shared, alone):
        for number, (left, right) in enumerate(PAIRS):
            made.query(f"q{number}", text(left, right, 20 + number))
    assert (len(joins(shared)), len(joins(alone))) == (1, 16)
    (join,) = joins(shared)
    assert join["detail"]["forms"] == 16
    assert "s_attribute_join" in str(shared.explain())
    fed = batches()
    for made in (shared, alone):
        made.process(fed[0])
    held = shared.stats["instances"], alone.stats["instances"]
    assert held[0] * 10 < held[1]
    assert shared.stats["state_bytes"] * 2 < alone.stats["state_bytes"]
    assert run(shared, fed[1:]) == run(alone, fed[1:])


@pytest.mark.parametrize("of", ["BIGINT", "STRING", "DOUBLE"])
@pytest.mark.parametrize("move", [False, True])
def test_the_answers_are_those_of_each_join_alone(of: str, move: bool) -> None:
    found = []
    for options in (SHARED, ALONE):
        made = engine(of, **options)
        for number, (left, right) in enumerate(PAIRS[::3]):
            made.query(f"q{number}", text(left, right, 5 * number, "<=>" if number % 2 else "="))
        made.query("two", f"{text('a0', 'a1')} AND S.a2 = T.a3")
        made.query("keys", "SELECT S.a1, T.a1 AS b FROM S [Range 9], T [Now] WHERE S.a1 = T.a2")
        fed = batches(of="BIGINT" if of == "DOUBLE" else of)
        found.append(run(made, fed, move=move))
    assert found[0] == found[1]
    assert len({query for query, *_ in found[0]}) == 8


def test_queries_come_and_go_and_ask_for_more_columns() -> None:
    found = []
    for options in (SHARED, ALONE):
        made, answers = engine(**options), Counter[tuple[Any, ...]]()
        made.query("first", text("a0", "a0"))
        for number, batch in enumerate(batches(5)):
            made.process(batch)
            collect(made, answers)
            if number == 0:
                made.query("late", "SELECT S.a3 FROM S [Range 9], T [Range 9] WHERE S.a3 = T.a2")
                made.query("more", text("a1", "a2"), at=100)
                made.query("other", text("a3", "a2"), at=100)
            if number == 2:
                made.drop("first")
                made = braid.Engine.restore(made.snapshot())
            if number == 3:
                made.drop("other")
        made.finish()
        collect(made, answers)
        found.append(answers)
    assert found[0] == found[1]
    assert {query for query, *_ in found[0]} == {"first", "late", "more", "other"}


def test_a_form_that_is_dropped_gives_its_indexes_back() -> None:
    made = engine(**SHARED)
    made.query("a", text("a0", "a0"))
    made.query("b", text("a0", "a3"))
    made.process(batches(1)[0])
    (join,) = joins(made)
    before = join["detail"]["indexes"]
    made.drop("b")
    made.process(batches(2)[1])
    (join,) = joins(made)
    assert join["detail"]["forms"] == 1
    assert sum(join["detail"]["indexes"]) < sum(before)


def test_a_query_that_holds_too_much_ends_and_others_go_on() -> None:
    made = engine(instance_budget=50, **SHARED)
    made.query("long", text("a0", "a0", 1000))
    made.query("short", text("a0", "a1", 3))
    answers = run(made, batches(3))
    assert list(made.suspended) == ["long"]
    alone = engine(**ALONE)
    alone.query("short", text("a0", "a1", 3))
    wanted = run(alone, batches(3))
    assert Counter({k: v for k, v in answers.items() if k[0] == "short"}) == wanted
