"""NEXMark's joins, windows and aggregates: in an engine, by plain loops, and as their rows are given."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks import nexmark
from benchmarks.data import real_data
from benchmarks.engines import one_pass
from benchmarks.nexmark_answers import ANSWERS, rows_in, words

GIVEN = real_data("nexmark")
#: Persons, auctions and bids: drawn everywhere, and the fixed ones where they are.
MARKETS = ["drawn", *(["given"] if GIVEN else [])]


@cache
def market(name: str) -> nexmark.Market:
    return nexmark.given(GIVEN or Path()) if name == "given" else nexmark.drawn(1_500, seed=1)


@cache
def found(name: str, seconds: float, rules: str) -> Any:
    batches = market(name).batches(timedelta(seconds=seconds))
    return one_pass(nexmark.statements(), batches, rules=rules).results


@pytest.mark.parametrize("query", nexmark.QUERIES)
@pytest.mark.parametrize("name", MARKETS)
def test_relations_hold_what_plain_loops_find(name: str, query: str) -> None:
    wanted = words(ANSWERS[query](market(name)))
    assert wanted
    assert rows_in(found(name, 4, "all"), query) == wanted
    if name == "given":
        assert wanted == nexmark.given_rows(GIVEN or Path(), query)


@pytest.mark.parametrize(("seconds", "rules"), [(0.5, "all"), (100, "none")])
def test_batches_and_rules_make_no_difference(seconds: float, rules: str) -> None:
    for query in nexmark.QUERIES:
        wanted = words(ANSWERS[query](market("drawn")))
        assert rows_in(found("drawn", seconds, rules), query) == wanted, query
