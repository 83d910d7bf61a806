"""The law for selection joins: every form answers what the reference does, whatever comes and goes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, note, settings
from hypothesis import strategies as st

from braid.algebra.queries import members_of
from braid.algebra.schema import Schema
from braid.algebra.streams import Stream
from braid.algebra.types import BIGINT, DOUBLE, STRING
from braid.engine.options import ShardOptions
from braid.jit.runtime import COMPILED
from braid.lang import Catalog, compile_query
from braid.operators.core.selection_choice import CHOICES
from braid.operators.selection_join.spec import SelectionJoinSpec
from braid.reference import Event
from tests.properties.expressions import Draw
from tests.properties.law import OPTIONS, Run, compare, expected, feeds, start, with_user
from tests.properties.plans import Workload
from tests.properties.test_live import EVER, check_lives

ATTRIBUTES = Schema.of([("k", BIGINT), ("x", BIGINT), ("y", DOUBLE), ("s", STRING)])
NAMES = ("A", "B", "C", "D")
STREAMS = {
    name: Stream(
        name,
        Schema.of([*((a.name, a.type) for a in ATTRIBUTES), ("t0", BIGINT), ("t1", BIGINT)]),
        ("t0", "t1"),
        0,
    )
    for name in NAMES
}
#: What a query may ask of a stream; {0} and {1} are small numbers, the second not the smaller one.
TESTS = (
    "{n}.x BETWEEN {0} AND {1}",
    "{n}.x >= {0}",
    "{n}.x < {1}",
    "{n}.x = {0}",
    "{n}.x IN ({0}, {1}, 7)",
    "{n}.x NOT IN ({0}, 7)",
    "{n}.x IS NULL",
    "{n}.x IS NOT NULL",
    "{n}.y <= {1}.5",
    "{n}.y > {0}",
    "{n}.y <> {0}",
    "{n}.s = 's{0}'",
    "{n}.s <> 's{1}'",
    "{n}.s IN ('s{0}', 's{1}')",
    "{n}.k >= {0}",
)
#: Those that most events pass.
WIDE = (
    "{n}.x BETWEEN 0 AND {1}",
    "{n}.x < 3",
    "{n}.y <= {1}.5",
    "{n}.y > -{0}",
    "{n}.s <> 's3'",
    "{n}.s IN ('s0', 's1', 's{1}')",
    "{n}.k >= 0",
)
SHOWN = ("{a}.k AS k, {a}.x AS x, {b}.s AS s", "{a}.x AS x, {b}.x AS other", "{a}.s AS s")
#: Who must know what goes as well: groups, DISTINCT, Dstream and Rstream.
WHOLE = (
    "SELECT {a}.x AS x, count(*) AS n, sum({b}.x) AS s {rest} GROUP BY {a}.x",
    "SELECT count(*) AS n, min({b}.y) AS low {rest}",
    "SELECT {a}.k AS k, max({a}.x) AS high {rest} GROUP BY {a}.k HAVING count(*) > 1",
    "SELECT DISTINCT {b}.x AS x {rest}",
    "Dstream(SELECT {a}.x AS x, {b}.x AS other {rest})",
    "Rstream(SELECT {a}.x AS x {rest})",
)
#: What lists may take: nothing, a few, all.
BYTES = (0, 40, 1 << 20)


@st.composite
def texts(draw: Draw, streams: int) -> str:
    names = NAMES[:streams]
    asked = []
    wide, name = draw(st.integers(0, 3)), st.sampled_from(names)
    for number in range(draw(st.integers(3, 6))):
        low = draw(st.integers(0, 2))
        test = draw(st.sampled_from(TESTS if number >= wide else WIDE))
        asked.append(test.format(low, low + draw(st.integers(1, 2)), n=draw(name)))
    windows = [f"{n} [Range {draw(st.sampled_from([0, 1, 2, 5, 9]))}]" for n in names]
    joins = [f"A.k = {n}.k" for n in names[1:]]
    shown = draw(st.sampled_from(SHOWN)).format(a=names[0], b=names[-1])
    rest = f"FROM {', '.join(windows)} WHERE {' AND '.join([*joins, *asked])}"
    if draw(st.integers(0, 2)):
        return f"SELECT {shown} {rest}"
    return draw(st.sampled_from(WHOLE)).format(a=names[0], b=names[-1], rest=rest)


@st.composite
def events(draw: Draw, most: int) -> list[Event]:
    number = st.sampled_from([0, 0, 0, 1, 1, 2, None])
    value = st.tuples(
        st.sampled_from([0, 0, 0, 0, 0, 1, None]),
        number,
        number.map(lambda v: None if v is None else float(v)),
        number.map(lambda v: None if v is None else f"s{v}"),
    )
    one = st.builds(
        lambda v, end, length: Event(v, end - length, end),
        value,
        st.integers(0, 8),
        st.sampled_from([0, 0, 0, 2]),
    )
    return draw(st.lists(one, min_size=most // 2, max_size=most))


@st.composite
def workloads(draw: Draw) -> Workload:
    streams = draw(st.sampled_from([2, 2, 2, 3, 4]))
    catalog = Catalog()
    for name in NAMES[:streams]:
        catalog.add_stream(STREAMS[name])
    count = draw(st.sampled_from([1, 3, 5, 8]))
    for number in range(count):
        text = draw(texts(streams))
        note(f"q{number}: {text}")
        catalog.add_query(compile_query(text, catalog, query_id=f"q{number}").query)
    sent = {name: draw(events(8 if streams == 2 else 5)) for name in NAMES[:streams]}
    note(str(sent))
    return Workload(dict(catalog.streams), sent, tuple(catalog.queries.values()))


def options_of(data: st.DataObject) -> ShardOptions:
    form, size = data.draw(st.sampled_from(CHOICES)), data.draw(st.sampled_from(BYTES))
    note(f"{form}, {size} bytes")
    whole = replace(OPTIONS, whole_streams=True)
    return with_user(whole, selection_join=form, member_set_bytes=size)


def joins_in(current: Run) -> int:
    mops = current.shard.executor.plan.mops.values()
    return sum(isinstance(mop.spec, SelectionJoinSpec) for mop in mops)


@settings(max_examples=60 if COMPILED else 15, deadline=None)
@given(st.data())
def test_every_form_over_splits_and_restarts(data: st.DataObject) -> None:
    workload = data.draw(workloads())
    wanted = expected(workload, workload.events)
    feed = data.draw(feeds(workload))
    current = start(workload, options_of(data))
    for number, batch in enumerate(feed.batches):
        current.feed(batch, now=number)
        if number in feed.reload_after:
            current.options = options_of(data)  # what is saved does not depend on the form
            current.reload()
        elif number in feed.save_after:
            current.save()
    current.collect(current.shard.finish())
    compare(current, wanted)


@settings(max_examples=60 if COMPILED else 15, deadline=None)
@given(st.data())
def test_every_form_while_queries_come_and_go(data: st.DataObject) -> None:
    workload = data.draw(workloads())
    expected(workload, workload.events)
    first = workload.queries[: (len(workload.queries) + 1) // 2]
    coming = list(workload.queries[len(first) :])
    current = start(Workload(workload.streams, workload.events, first), options_of(data))
    feed = data.draw(feeds(workload, reloads=False))
    lives = {q.id: (-EVER, EVER) if q in first else (EVER, EVER) for q in workload.queries}
    for number, batch in enumerate(feed.batches):
        bound = max(-EVER, current.shard.bound("tick"))
        living = [name for name, (birth, death) in lives.items() if birth < EVER and death == EVER]
        if len(living) > 1 and data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(living))
            current.shard.drop([gone], bound)
            lives[gone] = (lives[gone][0], bound)
        if coming and data.draw(st.booleans()):
            query = coming.pop()
            current.shard.add(members_of([query])[0], bound, single=True)
            lives[query.id] = (bound, EVER)
        current.feed(batch, now=number)
    current.collect(current.shard.finish())
    check_lives(current, workload, lives)


def test_queries_that_restrict_different_attributes_share_one_join() -> None:
    catalog = Catalog()
    for name in NAMES[:2]:
        catalog.add_stream(STREAMS[name])
    asked = (
        "A.x > 1 AND A.y < 2 AND B.x = 5",
        "B.s = 'u' AND B.y > 1 AND B.x < 9",
        "A.s IN ('u', 'v') AND A.x < 3 AND B.x IS NULL",
    )
    for number, tests in enumerate(asked):
        text = f"SELECT A.x AS x FROM A [Range {number}], B [Range 5] WHERE A.k = B.k AND {tests}"
        catalog.add_query(compile_query(text, catalog, query_id=f"q{number}").query)
    workload = Workload(dict(catalog.streams), {}, tuple(catalog.queries.values()))
    current = start(workload)
    assert joins_in(current) == 1
    # A query that comes while it runs has its birth as data, and no m-op of its own.
    text = "SELECT A.x AS x FROM A [Range 1], B [Range 5] WHERE A.k = B.k AND A.x > 1 AND A.y < 2"
    late = compile_query(f"{text} AND B.y = 1", catalog, query_id="late").query
    current.shard.add(members_of([late])[0], 7, single=True)
    assert joins_in(current) == 1
