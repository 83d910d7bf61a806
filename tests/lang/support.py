"""The streams that the language tests read, and short ways to bind and to fail."""

from __future__ import annotations

import pytest

from braid.algebra.nodes import Node, Project, Select
from braid.errors import BraidError, QueryError
from braid.lang import Catalog, Registered, compile_query, load

STREAMS = """
CREATE STREAM Stock (Name STRING, Price DOUBLE, Volume BIGINT, ts TIMESTAMP) TIME ts;
CREATE STREAM Tick (Name STRING, n INT, t BIGINT) TIME t;
CREATE STREAM Wide (
  d DECIMAL(10, 2), big DECIMAL(30, 2), i INT, l BIGINT, f FLOAT, x DOUBLE, b BOOLEAN, s STRING,
  day DATE, at TIMESTAMP_NTZ, zoned TIMESTAMP, gap INTERVAL, list ARRAY<STRING>,
  map MAP<STRING, DOUBLE>, rec STRUCT<u: STRING, v: ARRAY<INT>>, t0 TIMESTAMP, t1 TIMESTAMP
) TIME (t0, t1);
CREATE QUERY ibm AS
  SELECT Price AS IBMPrice FROM FILTER{Name= 'IBM' AND Price > 83}(Stock) PUBLISH IBMStock;
"""


def catalog() -> Catalog:
    known = Catalog()
    load(STREAMS, known)
    return known


def compiled(text: str, known: Catalog | None = None) -> Registered:
    return compile_query(text, known or catalog())


def node(text: str) -> Node:
    return compiled(text).query.node


def names(text: str) -> tuple[str, ...]:
    return node(text).schema.names


def types(text: str) -> list[str]:
    return [str(a.type) for a in node(text).schema]


def value(expression: str, stream: str = "Wide") -> object:
    """The bound form of one expression over a stream."""
    bound = node(f"SELECT {expression} AS it FROM {stream}")
    assert isinstance(bound, Project)
    return bound.items[0][1]


def predicate(expression: str, stream: str = "Wide") -> object:
    bound = node(f"FROM FILTER{{{expression}}} {stream}")
    assert isinstance(bound, Select)
    return bound.predicate


def error(text: str, known: Catalog | None = None) -> BraidError:
    with pytest.raises(BraidError) as caught:
        compile_query(text, known or catalog())
    return caught.value


def pointed_at(problem: BraidError) -> str:
    """The part of the source that stands above the caret."""
    assert isinstance(problem, QueryError)
    assert problem.span is not None
    line = problem.text.splitlines()[problem.span.line - 1] if problem.text.strip() else ""
    start = problem.span.column - 1
    return line[start : start + problem.span.length]
