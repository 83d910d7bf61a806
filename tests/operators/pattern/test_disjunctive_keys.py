"""By which equalities the clauses of a disjunction find instances."""

from __future__ import annotations

import pytest

from braid.algebra.nodes import Sequence, walk_nodes
from braid.lang import Catalog, compile_query, load
from braid.operators.pattern.planning import parts_of

STREAM = "CREATE STREAM S (n STRING, c BIGINT, i INTEGER, p DOUBLE, t BIGINT) TIME t;"

#: The predicate of NEXT, and the keys of each way: what the event has, what it is compared with.
CASES = {
    "$2.n = $1.n OR $2.c = $1.c": [["n f:n"], ["c f:c"]],
    "$2.n = $1.n OR $2.c = 7": [["n f:n"], ["c :0"]],
    "$2.n = 'a' OR 7 = $2.c": [["n :0"], ["c :1"]],
    "$2.c IN (1, 2) OR $2.n = $1.n": [["c :0"], ["c :1"], ["n f:n"]],
    "$2.i = $1.c OR $2.n = $1.n": [["i f:c"], ["n f:n"]],
    # What stands beside an equality narrows a way if it is one, too.
    "$2.n = $1.n AND $2.p > $1.p OR $2.c = $1.c AND $2.i = 3": [["n f:n"], ["c f:c", "i :0"]],
    "($2.n = $1.n OR $2.c = 1) AND ($2.p = $1.p OR $2.i = 2 OR $2.i = 3)": [["n f:n"], ["c :0"]],
    # All clauses ask the same: then there is one way.
    "$2.n = $1.n AND $2.p > 5 OR $2.n = $1.n AND $2.c < $1.c": [["n f:n"]],
    # A clause without an equality: everybody is asked.
    "$2.n = $1.n OR $2.p > $1.p": [],
    "$2.n = $1.n OR $2.p = $1.c": [],
    "$2.n = $1.n OR NOT $2.c = 7": [],
    "$2.c IN (1, 2, 3, 4, 5, 6, 7, 8) OR $2.n = $1.n": [],
    "$2.n = $1.n OR $2.c IN (1, NULL)": [],
    # No disjunction: keys and tests, as ever.
    "$2.n = $1.n AND $2.c = 7": [],
}


def ways(predicate: str, *, bound: bool = True, static: bool = True) -> list[list[str]]:
    catalog = Catalog()
    load(STREAM, catalog)
    text = f"SELECT * FROM S NEXT{{{predicate}}} S"
    node = compile_query(text, catalog, query_id="q").query.template.outputs[-1].node
    (pattern,) = (inner for inner in walk_nodes(node) if isinstance(inner, Sequence))
    parts = parts_of(pattern, (), (), bound, static)
    return [
        [f"{key.event} {key.instance or f':{key.constant}'}" for key in way]
        for way in parts.alternatives
    ]


@pytest.mark.parametrize("predicate", CASES)
def test_ways(predicate: str) -> None:
    assert ways(predicate) == CASES[predicate]


def test_without_an_index() -> None:
    mixed = "$2.n = $1.n OR $2.c = 7"
    assert ways(mixed, bound=False) == ways(mixed, static=False) == []
    assert ways("$2.n = 'a' OR $2.c = 7", bound=False) == [["n :0"], ["c :1"]]
    assert ways("$2.n = $1.n OR $2.c = $1.c", static=False) == [["n f:n"], ["c f:c"]]
