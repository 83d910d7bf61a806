"""Silent streams: what the clock releases, what is late after it, over any batches and restarts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st

import braid
from braid.algebra.queries import Query
from braid.reference import Acceptance, Event, answer, events_from_result
from tests.scenarios.comparison import assert_same

TEXTS = {
    "both": "SELECT n FROM A UNION B PUBLISH Both",
    "pair": "SELECT n_1 AS m, n FROM A NEXT{DUR <= 4} B PUBLISH Pair",
    "count": "SELECT count(*) AS c FROM A [Range 3] PUBLISH Counted",
}
STAMPED = {"now": "SELECT n FROM U PUBLISH Stamped"}


@dataclass(frozen=True)
class Batch:
    ends: dict[str, list[int]]
    #: How long after the batch before it, in microseconds.
    pause: int
    restarts: bool


@dataclass(frozen=True)
class Case:
    type: str
    lateness: tuple[int, int]
    timeout: int | None
    #: Whether a stream that is stamped on arrival is waited for, too.
    stamped: bool
    #: Where the clock starts: before the events, or after them.
    clock: int
    batches: list[Batch]


_ENDS = st.lists(st.integers(0, 12), max_size=3)
_BATCHES = st.builds(
    Batch,
    st.fixed_dictionaries({}, optional={"A": _ENDS, "B": _ENDS}),
    st.integers(0, 6),
    st.sampled_from([False, False, False, True]),
)
CASES = st.builds(
    Case,
    st.sampled_from(["TIMESTAMP", "BIGINT"]),
    st.tuples(st.integers(0, 5), st.integers(0, 5)),
    st.sampled_from([None, 0, 2, 4]),
    st.booleans(),
    st.sampled_from([-100, 0, 100]),
    st.lists(_BATCHES, min_size=1, max_size=8),
)


def engine_of(case: Case, now: list[int]) -> braid.Engine:
    engine = braid.Engine(idle_timeout=case.timeout, clock=lambda: now[0])
    type_ = pa.int64() if case.type == "BIGINT" else pa.timestamp("us", "UTC")
    for name, lateness in zip("AB", case.lateness, strict=True):
        schema = pa.schema([("n", pa.int64()), ("t", type_)])
        engine.stream(name, schema, time="t", lateness=lateness)
    engine.stream("U", pa.schema([("n", pa.int64())]))
    for name, text in {**TEXTS, **(STAMPED if case.stamped else {})}.items():
        engine.query(name, text)
    return engine


def is_waited_for(case: Case, name: str) -> bool:
    """Streams of one clock that some query reads."""
    return name != "U" or (case.stamped and case.type != "BIGINT")


@given(CASES)
def test_the_clock_releases_what_the_definition_says(case: Case) -> None:
    now = [case.clock]
    engine = engine_of(case, now)
    streams = {n: s for n, s in engine.streams.items() if is_waited_for(case, n)}
    acceptance = Acceptance(streams, case.timeout)
    queries = [engine._catalog.queries[name] for name in TEXTS]
    accepted: dict[str, list[Event]] = {"A": [], "B": []}
    found: dict[str, list[Event]] = defaultdict(list)
    number = 0
    for batch in case.batches:
        if batch.restarts:
            engine = braid.Engine.restore(engine.snapshot(), clock=lambda: now[0])
            acceptance.restart()
        now[0] += batch.pause
        tables = {}
        late = acceptance.batch(batch.ends, now[0])
        for name, ends in batch.ends.items():
            numbers = list(range(number, number + len(ends)))
            number += len(ends)
            column = pa.array(ends, pa.int64()).cast(engine.streams[name].time_type)
            tables[name] = pa.table({"n": pa.array(numbers, pa.int64()), "t": column})
            for end, n, is_late in zip(ends, numbers, late[name], strict=True):
                if not is_late:
                    accepted[name].append(Event((n,), end, end))
        engine.process(tables)
        note(f"{now[0]}: {batch.ends} -> {acceptance.watermark}")
        assert engine.late.num_rows == sum(map(sum, late.values()))
        collect(engine, found)
        check(queries, accepted, found, acceptance.watermark)
    engine.finish()
    collect(engine, found)
    check(queries, accepted, found, 2**62)


def collect(engine: braid.Engine, found: dict[str, list[Event]]) -> None:
    for (query, _), table in engine.results.items():
        found[query] += events_from_result(table)


def check(
    queries: list[Query],
    accepted: dict[str, list[Event]],
    found: dict[str, list[Event]],
    watermark: int | None,
) -> None:
    """Nothing that is complete is missing, and nothing comes early."""
    for (query, _), events in answer(queries, accepted).items():
        known = [e for e in events if watermark is not None and e.end < watermark]
        assert_same(found[query], known, query)
