"""`DUR <= c` becomes the horizon of patterns, and what has none is warned of."""

from __future__ import annotations

import pytest

from braid.algebra.bounds import bound_durations
from braid.algebra.nodes import Iterate, Node, Select, Sequence, walk_nodes
from tests.lang.support import compiled, node

SAME = "$1.Name = $2.Name"


def horizons(text: str) -> list[int | None]:
    """The horizons of all patterns, outermost first."""
    found: Node = node(text)
    return [n.horizon for n in walk_nodes(found) if isinstance(n, Sequence | Iterate)]


@pytest.mark.parametrize(
    ("predicate", "horizon"),
    [
        ("DUR <= 10 us", 10),
        ("DUR < 10 us", 10),
        ("DUR = 10 us", 10),
        ("10 us >= DUR", 10),
        ("10 us > DUR", 10),
        ("DUR < 10", 10),
        ("DUR < 10.5", 10),
        ("DUR BETWEEN 5 us AND 10 us", 10),
        ("DUR <= 10 us AND DUR <= 7 us", 7),
        ("DUR >= 10 us", None),
        ("10 us < DUR", None),
        ("NOT DUR > 10 us", None),
        ("DUR < 10 us OR $1.Price > 5", None),
        ("DUR != 10 us", None),
    ],
)
def test_conjuncts_of_next(predicate: str, horizon: int | None) -> None:
    assert horizons(f"FROM Stock NEXT{{{SAME} AND {predicate}}} Stock") == [horizon]
    assert horizons(f"FROM Stock NEXT{{{predicate}}} Stock") == [horizon]


def test_both_predicates_of_fold_count() -> None:
    assert horizons("FROM Stock FOLD{DUR < 1s,,} Stock") == [1_000_000]
    assert horizons("FROM Stock FOLD{,DUR < 1s,} Stock") == [1_000_000]
    assert horizons("FROM Stock FOLD{DUR < 2s,DUR < 1s,} Stock") == [1_000_000]


def test_a_filter_above_counts_and_stays() -> None:
    text = (
        f"FROM FILTER{{DUR <= 1s}}(FILTER{{Price > 1}}(SELECT * FROM Stock NEXT{{{SAME}}} Stock))"
    )
    assert horizons(text) == [1_000_000]
    assert isinstance(node(text), Select)
    through = "FROM FILTER{DUR <= 1s}(SELECT Price_1 AS p FROM Stock NEXT{$1.Name = $2.Name} Stock)"
    assert horizons(through) == [1_000_000]


def test_a_bound_holds_for_the_parts_too() -> None:
    text = f"FROM Stock NEXT{{{SAME}}} Stock NEXT{{{SAME} AND DUR < 5s}} Stock"
    assert horizons(text) == [5_000_000, 5_000_000]
    tighter = f"FROM Stock NEXT{{{SAME} AND DUR < 1s}} Stock NEXT{{{SAME} AND DUR < 5s}} Stock"
    assert horizons(tighter) == [5_000_000, 1_000_000]


def test_sametime_hides_how_long_its_events_were() -> None:
    text = f"FROM FILTER{{DUR < 1s}} SAMETIME{{count(*)}}(Stock NEXT{{{SAME}}} Stock)"
    assert horizons(text) == [None]


def test_a_filter_beside_does_not_count() -> None:
    assert horizons("FROM FILTER{DUR < 1s} Stock NEXT{$1.Name = $2.Name} Stock") == [None]


def test_twice_is_once() -> None:
    bounded = node(f"FROM FILTER{{DUR <= 1s}}(Stock NEXT{{{SAME}}} Stock)")
    assert bound_durations(bounded) is bounded


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("FROM Stock", False),
        ("FROM Stock NEXT Stock", False),
        (f"FROM Stock NEXT{{{SAME}}} Stock", True),
        (f"FROM Stock NEXT{{{SAME} AND DUR < 1h}} Stock", False),
        (f"FROM FILTER{{DUR < 1h}}(Stock NEXT{{{SAME}}} Stock)", False),
        ("FROM Stock FOLD{,,} Stock", True),
        ("FROM Stock FOLD{DUR < 1h,,} Stock", False),
    ],
)
def test_unbounded_patterns_are_warned_of(text: str, warned: bool) -> None:
    registered = compiled(text)
    assert [n.code for n in registered.notices] == (["W201"] if warned else [])
    assert all(n.query == registered.query.id for n in registered.notices)
