"""Constants of members: computed ones, and those that may stand in any order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import braid

STREAMS = (
    "CREATE STREAM A (k BIGINT, x BIGINT, n STRING, t BIGINT) TIME t;"
    "CREATE STREAM B (k BIGINT, x BIGINT, n STRING, t BIGINT) TIME t;"
)
ROWS = {"k": [1, 2, 3], "x": [4, 5, 6], "n": ["ab", "ba", "cc"], "t": [1, 2, 3]}


def engine() -> braid.Engine:
    made = braid.Engine(idle_timeout=None)
    made.execute(STREAMS)
    return made


def mops(made: braid.Engine) -> list[dict[str, Any]]:
    made.process({"A": ROWS, "B": {name: [] for name in ROWS}})
    found: list[dict[str, Any]] = made.explain().to_dict()["mops"]
    return found


def answers(made: braid.Engine, *names: str) -> Counter[str]:
    """How many results each query has of the rows of these streams."""
    found: Counter[str] = Counter()
    for step in (lambda: made.process(dict.fromkeys(names, ROWS)), made.finish):
        step()
        found.update({query: table.num_rows for (query, _), table in made.results.items()})
    return found


def instances(*texts: str) -> tuple[int, int]:
    """The steps and the instances of patterns, after three events."""
    made = engine()
    for number, text in enumerate(texts):
        made.query(f"q{number}", text)
    steps = sum(mop["kind"] == "sequence" for mop in mops(made))
    made.finish()
    return steps, made.stats["instances"]


PATTERN = "SELECT x_1 AS x FROM A NEXT{{({0}) AND DUR <= 90}} B"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("$2.x > $1.x + 1 AND $2.x > $1.k + 5", "$1.k + 5 < $2.x AND $1.x + 1 < $2.x"),
        ("$2.x > $1.x + 1 AND $2.x > $1.x + 5", "$2.x > $1.x + 5 AND $2.x > $1.x + 1"),
        ("$2.x > $1.x + 1 AND $2.x > $1.x + 1", "$2.x > $1.x + 1"),
        ("$2.n LIKE 'a%' AND $2.n LIKE '%b'", "$2.n LIKE '%b' AND $2.n LIKE 'a%'"),
        ("$2.x = 5 OR $2.x = 7", "$2.x IN (7, 5)"),
        ("$2.x <> 5 AND $2.x <> 7", "$2.x NOT IN (7, 5)"),
        ("$2.x > 2 * 3", "$2.x > 6"),
        ("$2.x * 2 > $1.x + 2 * 3", "$1.x + 6 < 2 * $2.x"),
    ],
)
def test_equal_conditions_with_constants_are_one_state(one: str, other: str) -> None:
    texts = PATTERN.format(one), PATTERN.format(other)
    assert instances(*texts) == instances(texts[0])


def test_conditions_with_other_constants_are_members_of_one_step() -> None:
    texts = [PATTERN.format(f"$2.x > $1.x + {n} AND $2.x > $1.x + 9") for n in (1, 2)]
    assert instances(*texts)[0] == 1


def test_a_computed_bound_is_an_index_key() -> None:
    """Members with a computed bound and members with the bound itself have the same m-op."""
    texts = {
        "own": ("lo BIGINT, hi BIGINT", ":hi", {"lo": [4, 5], "hi": [5, 6]}),
        "computed": ("lo BIGINT, w BIGINT", ":lo + :w", {"lo": [4, 5], "w": [1, 1]}),
    }
    made = engine()
    for name, (declared, bound, rows) in texts.items():
        text = (
            f"CREATE QUERY {name} FOR EACH ({declared}) AS SELECT A.x AS x FROM A [Range 9], B"
            f" [Range 9] WHERE A.k = B.k AND A.x >= :lo AND A.x <= {bound} AND B.x >= :lo"
        )
        made.query(name, text, rows)
    found = answers(made, "A", "B")
    assert [mop["kind"] for mop in made.explain().to_dict()["mops"]].count("join") == 1
    assert found == {"own/0": 2, "own/1": 2, "computed/0": 2, "computed/1": 2}


def test_a_bound_that_is_null_has_no_results() -> None:
    """Its members keep the expression, and the others have the constant."""
    made = engine()
    text = "CREATE QUERY q FOR EACH (a BIGINT, b BIGINT) AS SELECT x FROM FILTER{x >= :a DIV :b}(A)"
    made.query("q", text, {"a": [10, 10, 2**63 - 1], "b": [2, 0, -1]})
    assert answers(made, "A") == {"q/0": 2, "q/2": 3}


def test_state_of_sorted_constants_is_found_again() -> None:
    made = engine()
    made.query("q", PATTERN.format("$2.x > $1.x + 5 AND $2.x > $1.x + 1"))
    made.process({"A": ROWS, "B": {name: [] for name in ROWS}})
    made.finish()
    again = braid.Engine.restore(made.snapshot())
    again.process({"B": {"k": [1], "x": [40], "n": ["x"], "t": [9]}})
    again.finish()
    assert again.matches.num_rows == 3
