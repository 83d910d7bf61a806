"""Theorem 1, on random streams: the automaton of a linear-plus expression computes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.lang import Catalog, compile_query, stream_from_schema
from braid.operators.pattern.automaton import Automaton, Kind, describe, translate
from braid.reference import Event, evaluate
from tests.operators.pattern.automaton_model import run

EXAMPLES = {
    "selection": "SELECT Price AS p FROM FILTER{Name = 'a' AND DUR <= 1} Stock",
    "next": "FROM Stock NEXT{$1.Name = $2.Name} Stock",
    "example 10": """
        SELECT Name, MaxPrice, MinPrice, Price AS FinalPrice
        FROM FILTER{Price > 1.05 * MinPrice_1} (
          FILTER{DUR >= 2} (SELECT Name, Price_1 AS MaxPrice, Price AS MinPrice
            FROM FILTER{Volume > 1} Stock FOLD{$2.Name = $.Name, $2.Price < $.Price, } Stock)
          NEXT{$2.Name = $1.Name} Stock)""",
    "count": """
        FROM FILTER{cnt > 1} ((SELECT *, 1 AS cnt FROM FILTER{Volume > 1} Stock)
          FOLD{$2.Name = $.Name, $2.Price > $.Price, $.cnt + 1 AS cnt} Stock)""",
    "union": "FROM (Stock NEXT{$2.Price > $1.Price} Stock) UNION (Stock NEXT Stock)",
    "filtered second input": """
        FROM Stock NEXT{$2.P2 < $1.Price}
          (SELECT Price + 1 AS P2 FROM FILTER{Name = 'b' AND DUR < 2} Stock)""",
    "stacked": "FROM Stock NEXT{$1.Name = $2.Name} Stock NEXT{$2.Price > $1.Price_1} Stock",
}


def catalog() -> Catalog:
    made = Catalog()
    columns = [("Name", pa.string()), ("Price", pa.int64()), ("Volume", pa.int64())]
    schema = pa.schema([*columns, ("t0", pa.int64()), ("t1", pa.int64())])
    made.add_stream(
        stream_from_schema("Stock", schema, time=("t0", "t1"), lateness=0, sequence=None)
    )
    return made


def automaton(text: str) -> tuple[Any, Automaton]:
    node = compile_query(text, catalog(), query_id="q").query.node
    return node, translate(node)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(0, 4),
        st.integers(0, 3),
        st.integers(0, 9),
        st.integers(0, 2),
    ),
    max_size=12,
).map(lambda rows: [Event((n, p, v), t, t + d) for n, p, v, t, d in rows])


@pytest.mark.parametrize("text", EXAMPLES.values(), ids=EXAMPLES)
@given(events=EVENTS)
def test_an_automaton_computes_its_expression(text: str, events: Sequence[Event]) -> None:
    node, made = automaton(text)
    named = [(dict(zip(("Name", "Price", "Volume"), e.values, strict=True)), e) for e in events]
    assert Counter(run(made, {"Stock": named})) == Counter(evaluate(node, {"Stock": events}))


def test_what_is_not_linear_plus_is_cut_into_several_automata() -> None:
    _, made = automaton("FROM Stock NEXT (SELECT Name AS n FROM Stock NEXT Stock)")
    assert [p.name for p in made.parts] == ["query#1"]
    assert "query#1" in made.streams.values()


def test_a_fold_has_a_filter_a_rebind_and_a_forward_edge() -> None:
    _, made = automaton(EXAMPLES["count"])
    (state,) = {e.source for e in made.edges if e.kind is Kind.REBIND}
    assert {e.kind for e in made.edges if e.source == state} == set(Kind)


def test_an_edge_that_breaks_an_invariant_is_noticed() -> None:
    _, made = automaton(EXAMPLES["next"])
    made.edges = [
        e if e.kind is Kind.FILTER else type(e)(e.kind, e.source, e.target, (), e.items)
        for e in made.edges
    ]
    with pytest.raises(AssertionError, match="forward implies filter"):
        made.check()


def test_description_names_states_and_edges() -> None:
    text = describe(automaton(EXAMPLES["example 10"])[1])
    assert "rebind to q1 if $2.Name = $.Name AND $2.Price < $.Price" in text
    assert "DUR >= 2" in text
