"""Queries that come and go while a shard runs: nobody else notices, and each lives as stated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, note
from hypothesis import strategies as st

from braid.algebra.queries import Query, members_of
from braid.engine.running_plan import NewQueries
from braid.reference import Event, answer
from tests.properties.law import (
    OPTIONS,
    RULE_SETS,
    SELECTIONS,
    Run,
    expected,
    feeds,
    start,
    with_user,
)
from tests.properties.plans import (
    ATTRIBUTE_JOINS,
    DETECTIONS,
    DISJUNCTIONS,
    RELATIONAL,
    SAME_TIMES,
    WINDOW_JOINS,
    Workload,
    describe,
    views,
    workloads,
)
from tests.scenarios.comparison import assert_same

EVER = 2**62
NOW = -(2**63)
WHOLE = replace(OPTIONS, whole_streams=True)
Lives = dict[str, tuple[int, int]]


def lived(workload: Workload, lives: Lives) -> dict[tuple[str, str | None], list[Event]]:
    """What the reference says: each query sees what starts at its birth or later, of whatever it
    reads, and puts out what ends before its death."""
    known = {name: list(events) for name, events in workload.events.items()}
    found = {}
    for query in workload.queries:
        birth, death = lives[query.id]
        seen = {name: [e for e in events if e.start >= birth] for name, events in known.items()}
        for key, events in answer([query], seen).items():
            found[key] = [e for e in events if e.start >= birth and e.end < death]
            if key[1] is not None:
                known[key[1]] = found[key]
    return found


def check_lives(current: Run, workload: Workload, lives: Lives) -> None:
    wanted = lived(workload, lives)
    for query in workload.queries:
        for output in query.outputs:
            key = (query.id, output.publish)
            assert_same(current.results.get(key, []), wanted[key], f"output {key}")


def clock(query: Query) -> str:
    return query.outputs[-1].node.unit


@given(st.data())
def test_queries_come_and_go(data: st.DataObject) -> None:
    kinds = [
        (),
        RELATIONAL,
        WINDOW_JOINS,
        ATTRIBUTE_JOINS,
        DETECTIONS,
        DISJUNCTIONS,
        SAME_TIMES,
    ]
    shapes = data.draw(st.sampled_from(kinds))
    come_and_go(data, data.draw(workloads(max_queries=4, shapes=shapes)))


def come_and_go(data: st.DataObject, workload: Workload) -> None:
    """One query comes, another goes, at any time; perhaps with restarts in between."""
    expected(workload, workload.events)
    note(describe(workload))
    read = {name for q in workload.queries for name in q.reads}
    late = workload.queries[-1]
    # What others read cannot be dropped before them.
    leaving = next((q for q in workload.queries if not read & set(q.publishes)), late)
    rules = data.draw(st.sampled_from(RULE_SETS))
    selections = data.draw(st.sampled_from(SELECTIONS))
    options = with_user(WHOLE, rules=rules, selection=selections)
    first = Workload(workload.streams, workload.events, workload.queries[:-1])
    current = start(first, options)
    feed = data.draw(feeds(workload, reloads=False))
    comes = data.draw(st.integers(0, len(feed.batches)))
    goes = data.draw(st.integers(comes, len(feed.batches)))
    ahead = data.draw(st.integers(0, 5))
    lives = {q.id: (-EVER, EVER) for q in workload.queries}
    lives[late.id] = (EVER, EVER)
    reloads = data.draw(st.booleans())
    for number, batch in enumerate(feed.batches):
        if number == comes:
            birth = max(-EVER, current.shard.bound(clock(late))) + ahead
            current.shard.add(members_of([late])[0], birth, single=True)
            lives[late.id] = (birth, EVER)
            current.workload = workload
        if number == goes:
            death = max(-EVER, current.shard.bound(clock(leaving))) + ahead
            current.shard.drop([leaving.id], death)
            lives[leaving.id] = (lives[leaving.id][0], death)
        current.feed(batch, now=number)
        if reloads and comes <= number < goes:
            current.reload()
    current.collect(current.shard.finish())
    check_lives(current, workload, lives)


@given(st.data())
def test_queries_that_need_other_columns_come_and_go(data: st.DataObject) -> None:
    come_and_go(data, data.draw(views()))


@given(st.data())
def test_queries_come_one_after_the_other(data: st.DataObject) -> None:
    """Each may need more columns of the m-ops that run, while these hold instances."""
    workload = data.draw(views())
    expected(workload, workload.events)
    note(describe(workload))
    rules = data.draw(st.sampled_from(RULE_SETS))
    there = data.draw(st.integers(0, len(workload.queries) - 1))
    first = Workload(workload.streams, workload.events, workload.queries[:there])
    current = start(first, with_user(WHOLE, rules=rules))
    feed = data.draw(feeds(workload, reloads=False))
    lives = {q.id: (-EVER, EVER) for q in workload.queries[:there]}
    waiting = list(workload.queries[there:])
    for number, batch in enumerate(feed.batches):
        left = len(waiting) if number == len(feed.batches) - 1 else 2
        coming = [waiting.pop(0) for _ in range(min(len(waiting), data.draw(st.integers(0, left))))]
        births = {q.id: max(-EVER, current.shard.bound(clock(q))) for q in coming}
        new = [
            NewQueries(
                members, np.array([births[n] for n in members.ids.to_pylist()]), len(members) == 1
            )
            for members in members_of(coming)
        ]
        current.shard.add_all(new)
        lives |= {name: (birth, EVER) for name, birth in births.items()}
        there += len(coming)
        current.workload = replace(workload, queries=workload.queries[:there])
        current.feed(batch, now=number)
        if data.draw(st.booleans()):
            current.reload()
    current.collect(current.shard.finish())
    lives |= {q.id: (EVER, EVER) for q in waiting}
    check_lives(current, workload, lives)


@given(st.data())
def test_what_is_dropped_leaves_nothing(data: st.DataObject) -> None:
    """Dropping everybody frees every m-op; what comes afterwards starts anew."""
    workload = data.draw(workloads(max_queries=3))
    expected(workload, workload.events)
    rules, selections = (
        data.draw(st.sampled_from(RULE_SETS)),
        data.draw(st.sampled_from(SELECTIONS)),
    )
    options = with_user(WHOLE, rules=rules, selection=selections)
    current = start(workload, options)
    feed = data.draw(feeds(workload, reloads=False))
    middle = len(feed.batches) // 2
    for number, batch in enumerate(feed.batches[:middle]):
        current.feed(batch, now=number)
    for query in reversed(workload.queries):
        current.shard.drop([query.id], NOW)
    assert not current.shard.executor.logics
    assert current.shard.executor.instances == 0
    births = {q.id: max(-EVER, current.shard.bound(clock(q))) for q in workload.queries}
    before = {key: list(events) for key, events in current.results.items()}
    for query in workload.queries:
        current.shard.add(members_of([query])[0], births[query.id], single=True)
    for number, batch in enumerate(feed.batches[middle:], middle):
        current.feed(batch, now=number)
    current.collect(current.shard.finish())
    wanted = lived(workload, {name: (birth, EVER) for name, birth in births.items()})
    for key, kept in wanted.items():
        came = current.results.get(key, [])[len(before.get(key, [])) :]
        assert_same(came, kept, f"output {key}")
