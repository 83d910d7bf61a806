"""Queries that mean the same share everything, however they are written, and answer the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from braid.algebra.expressions import Expression, Source
from braid.algebra.nodes import Node
from braid.algebra.queries import Output, Query
from braid.algebra.templates import Template
from braid.algebra.types import BOOLEAN
from braid.engine.shard import Shard
from braid.plan.normal_form import normal
from tests.properties.expressions import expressions, predicates
from tests.properties.law import Feed, compare, expected, feeds, run, start
from tests.properties.plans import SCHEMAS, Workload, workloads
from tests.properties.rewritings import lifted, rewritten, rewritten_node

INPUT = {Source.INPUT: SCHEMAS["S"]}


@given(st.data())
def test_one_normal_form(data: st.DataObject) -> None:
    free = expressions(BOOLEAN, INPUT, 3)
    written: Expression = data.draw(st.one_of(free, predicates(INPUT, "ticks")))
    other = rewritten(data.draw, written)
    note(f"{written}\n{other}")
    assert normal(other) == normal(written)
    assert normal(normal(written)) == normal(written)


def of_template(id: str, node: Node) -> Query:
    """A query as the language makes it: a template with its constants."""
    template, constants = lifted(node)
    types = tuple(constant.type for constant in constants)
    made = Template((Output(template, None),), types)
    return Query.of(id, "", made, tuple(constant.value for constant in constants))


class Written(NamedTuple):
    """A query twice, and the query once more in other words."""

    twice: Workload
    other: Workload


def drawn(data: st.DataObject, query_of: Callable[[str, Node], Query], repeats: bool) -> Written:
    workload = data.draw(workloads(max_queries=1, depth=3))
    node = workload.queries[0].outputs[0].node
    other = rewritten_node(data.draw, node, repeats)
    note(f"{node}\n{other}")
    pairs = [(query_of("q", node), query_of("other", second)) for second in (node, other)]
    return Written(*(Workload(workload.streams, workload.events, pair) for pair in pairs))


def query(id: str, node: Node) -> Query:
    """A query with its constants in it."""
    return Query(id, "", (Output(node, None),))


def mops_of(shard: Shard) -> dict[str, str]:
    return {name: mop.spec.describe() for name, mop in shard.executor.plan.mops.items()}


def check_sharing(data: st.DataObject, written: Written) -> None:
    """Other words add no m-op, and both queries answer what the reference does."""
    twice, other = (mops_of(start(workload).shard) for workload in written)
    assert other == twice
    feed: Feed = data.draw(feeds(written.other))
    compare(run(written.other, feed), expected(written.other, written.other.events))


@given(st.data())
def test_queries_in_other_words_share_all_operators(data: st.DataObject) -> None:
    check_sharing(data, drawn(data, query, repeats=True))


@given(st.data())
def test_templates_in_other_words_share_all_operators(data: st.DataObject) -> None:
    check_sharing(data, drawn(data, of_template, repeats=False))


@pytest.mark.parametrize("query_of", [query, of_template])
@given(data=st.data())
def test_equal_queries_in_other_words_are_the_same_nodes(
    query_of: Callable[[str, Node], Query], data: st.DataObject
) -> None:
    """With equal constants they also share all state."""
    written = drawn(data, query_of, repeats=query_of is query)
    events = written.other.events
    expected(written.other, events)
    sent = tuple((name, event) for name, found in events.items() for event in found)
    twice, other = (run(workload, Feed((sent,))).shard.executor for workload in written)
    assert nodes_of(other) == nodes_of(twice)
    assert other.instances == twice.instances


def nodes_of(executor: Any) -> dict[str, int]:
    found = {}
    for signature, logic in executor.logics.items():
        nodes = getattr(logic, "ports", {"": getattr(logic, "nodes", None)})
        found[signature] = sum(n.count for n in nodes.values() if n is not None)
    return found
