"""Joins over streams with constraints, in every mode, against the reference.

Without constraints and in exact mode the answer is the reference's, whether a constraint holds, was
declared, or was declared wrongly; in monitored mode it is a part of it. However the events are cut
into batches, with events of one instant, late ones, over a restart, and with a query that
comes and goes. Windows are by time, by rows, or partitions, whose rows come and go.

What a monitored join loses is little, or is told: over longer streams of orders and their statuses, of
which WHERE refuses some, however often and however late a key comes again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given, note, settings
from hypothesis import strategies as st

import braid
from benchmarks import k_joins, k_streams
from benchmarks.k_streams import Ints, KStreams
from braid.algebra.constraints import ConstraintKind
from braid.lang import Catalog, load
from braid.operators.constraint_join.delta import logic as constraint_changes
from braid.operators.constraint_join.delta import spill as constraint_change_aside
from braid.operators.constraint_join.watch import cost_probe as constraint_look
from braid.reference import Event, answer, events_from_result, events_from_table
from braid.reference.constraints import Arrival, keeps

#: By what they keep: the join graph, and what draws the streams from events, k and seed.
DRAWN: dict[str, tuple[str, Callable[[int, int, int], KStreams]]] = {
    "rids": ("a", partial(k_streams.referring, recent=3)),
    "ca": ("b", partial(k_streams.arranged, arrangement="clustered")),
    "oap": ("b", partial(k_streams.arranged, arrangement="scrambled")),
    "oac": ("c", partial(k_streams.ordered_children, recent=3)),
    "ca and oac": ("a", k_streams.clusters_and_order),
    "ca and rids": ("c", lambda events, k, seed: k_streams.clusters_that_refer(events, 4, k, seed)),
}
#: Constraints that hold within k, or do not: nothing may be lost by them.
DECLARED = {
    "a": "CREATE CONSTRAINT c ON S1 (a) REFERENCES S2 (a) WITHIN {0} ROWS;"
    "CREATE CONSTRAINT d ON S3 (b) ASCENDING WITHIN {0} ROWS;",
    "b": "CREATE CONSTRAINT c ON S1 (a) CLUSTERED WITHIN {0} ROWS;"
    "CREATE CONSTRAINT d ON S2 (a) ASCENDING WITHIN {0} TICKS;"
    "CREATE CONSTRAINT e ON S3 (a) KEY;",
    "c": "CREATE CONSTRAINT c ON S2 (a) ASCENDING WITHIN {0} ROWS;"
    "CREATE CONSTRAINT d ON S1 (a) REFERENCES S2 (a) WITHIN {0} TICKS;"
    "CREATE CONSTRAINT e ON S2 (a) KEY;",
}


@dataclass(frozen=True)
class Drawn:
    statements: str
    tables: Mapping[str, pa.Table]
    #: When each event comes, by stream: its time, or up to the lateness after it.
    comes: Mapping[str, Ints]
    cuts: tuple[int, ...]
    restart: int
    #: Before which batch another query of the same shape comes, and after which it is dropped.
    other: tuple[int, int] | None


@st.composite
def joins(draw: st.DrawFn) -> Drawn:
    kind = draw(st.sampled_from(sorted(DRAWN)))
    graph, make = DRAWN[kind]
    streams = make(draw(st.integers(24, 90)), draw(st.integers(0, 8)), draw(st.integers(0, 999)))
    together = draw(st.sampled_from([1, 1, 2, 5]))
    tables = {
        name: pa.table({n: v // together if n == "t" else v for n, v in columns.items()})
        for name, columns in streams.columns.items()
    }
    if floating := draw(st.integers(0, 2)) == 0:
        tables = _with_doubles(tables, draw(st.integers(0, 999)))
    rates = {name: len(c["t"]) / streams.events for name, c in streams.columns.items()}
    declared = [DECLARED[graph].format(draw(st.integers(0, 8)))] if draw(st.booleans()) else []
    rows, third = draw(st.integers(1, 8 if graph == "c" else 4)), "b" if graph == "a" else "a"
    text = k_joins.statements(graph, rows * together, rates, constraints=declared)
    window = draw(st.sampled_from(["[Range", "[Range", "[Rows", "[Partition By a Rows"]))
    text = text.replace("[Range", window).replace("S3 [Partition By a", f"S3 [Partition By {third}")
    if floating:
        text = text.replace("(a BIGINT", "(a DOUBLE").replace("b BIGINT", "b DOUBLE")
    late = draw(st.sampled_from([0, 0, 3, 20]))
    text = text.replace("TIME t;", f"TIME t LATENESS {late};")
    random = np.random.default_rng(draw(st.integers(0, 999)))
    comes = {n: t["t"].to_numpy() + random.integers(0, late + 1, len(t)) for n, t in tables.items()}
    last = streams.events // together + late
    cuts = draw(st.lists(st.integers(0, last), max_size=6, unique=True))
    note(f"{kind}: {text}")
    batch = st.integers(0, len(cuts))
    other = draw(st.none() | st.tuples(batch, batch))
    restart = draw(st.integers(-1, len(cuts)))
    return Drawn(text, tables, comes, (*sorted(cuts), last + 1), restart, other)


def _with_doubles(tables: Mapping[str, pa.Table], seed: int) -> dict[str, pa.Table]:
    """The keys as DOUBLE, in the order that they have: below zero and above, both zeros in turn,
    infinities and, above all, NaN; and some NULL."""
    random = np.random.default_rng(seed)
    drawn = [t[n].to_numpy() for t in tables.values() for n in ("a", "b") if n in t.column_names]
    values = np.unique(np.concatenate(drawn))
    special = {values[0]: -np.inf, values[-1]: np.nan}
    if len(values) > 2:
        special[values[-2]] = np.inf
    middle = values[len(values) // 2]

    def as_doubles(column: Ints) -> pa.Array:
        floats = (column - middle) / 3.0
        for value, double in special.items():
            floats = np.where(column == value, double, floats)
        floats = np.where((floats == 0) & (random.integers(0, 2, len(column)) == 0), -0.0, floats)
        return pa.array(floats, pa.float64(), mask=random.integers(0, 20, len(column)) == 0)

    return {
        name: pa.table(
            {
                n: as_doubles(column.to_numpy()) if n in ("a", "b") else column
                for n, column in zip(table.column_names, table.columns, strict=True)
            }
        )
        for name, table in tables.items()
    }


def _batches(drawn: Drawn) -> list[dict[str, pa.Table]]:
    found, start = [], -1
    for cut in drawn.cuts:
        part = {}
        for name, table in drawn.tables.items():
            comes = drawn.comes[name]
            part[name] = table.filter(pa.array((comes > start) & (comes <= cut)))
        found.append(part)
        start = cut
    return found


def by_engine(
    drawn: Drawn, mode: str, above: int = 0, told: Counter[str] | None = None
) -> Counter[Event]:
    """`above`: from how many bytes on rows are put aside: from the beginning, or on the way. `told`
    gets the constraints that the query was told to be broken."""
    engine = braid.Engine(idle_timeout=None, constraints=mode, spill_above=above)
    engine.execute(drawn.statements)
    text = drawn.statements.rpartition(" AS ")[2]
    coming, going = drawn.other or (-1, -1)
    found: Counter[Event] = Counter()
    for number, batch in enumerate(_batches(drawn)):
        if number == coming:
            engine.query("other", text.replace("Out;", "Other").replace("< 50", "< 80"))
        found.update(_comparable(events_from_result(engine.process(batch)["Out"])))
        assert not engine.late.num_rows
        if number == going and "other" in engine.queries:
            engine.drop("other")
        if number == drawn.restart:
            _note_told(engine, told)
            engine = braid.Engine.restore(engine.snapshot())
    found.update(_comparable(events_from_result(engine.finish()["Out"])))
    _note_told(engine, told)
    return found


def _comparable(events: Iterable[Event]) -> Iterator[Event]:
    """All NaN are one value, as in the language; Python tells two of them apart."""
    for event in events:
        values = tuple("NaN" if value != value else value for value in event.values)
        yield replace(event, values=values)


def _note_told(engine: braid.Engine, told: Counter[str] | None) -> None:
    if told is not None:
        own = [n for n in engine.notices if (n.code, n.query) == ("W205", "joined")]
        told.update(notice.message.split("'")[1] for notice in own)


def check_told(drawn: Drawn, told: Counter[str]) -> None:
    """What was told is true, once; and but for REFERENCES, of which the first partner counts, all that
    is broken was told. Of late events of one instant it is not known which came first."""
    known = Catalog()
    load(drawn.statements, known)
    came = [
        Arrival(name, row.pop("t"), row)
        for name, table in drawn.tables.items()
        for row in table.to_pylist()
    ]
    came.sort(key=lambda arrival: arrival.time)
    broken = {c.name for c in known.constraints.values() if not keeps(c, came)}
    assert set(told.values()) <= {1}
    if all((drawn.comes[name] == t["t"].to_numpy()).all() for name, t in drawn.tables.items()):
        assert set(told) <= broken
        kinds = {c.name: c.kind for c in known.constraints.values()}
        assert {n for n in broken if kinds[n] is not ConstraintKind.REFERENCES} <= set(told)


def by_reference(drawn: Drawn) -> Counter[Event]:
    known = Catalog()
    load(drawn.statements, known)
    streams = known.streams
    events = {name: events_from_table(streams[name], table) for name, table in drawn.tables.items()}
    (query,) = known.queries.values()
    return Counter(_comparable(answer([query], events)["joined", "Out"]))


@settings(max_examples=30)
@given(joins())
def test_nothing_is_lost_and_nothing_added(drawn: Drawn) -> None:
    expected = by_reference(drawn)
    # After some events without constraints these are used, whatever they are worth; rows of relations
    # leave as soon as anything speaks for it.
    with (
        patch.multiple(constraint_look, LEAST=8, SUPPOSED=-1.0),
        patch.multiple(constraint_changes, JUDGED=4, _ROUND=8),
        patch.object(constraint_change_aside, "_RARELY", 0),
    ):
        for mode, above in (("off", 0), ("exact", 0), ("exact", 3_000)):
            told: Counter[str] = Counter()
            assert by_engine(drawn, mode, above, told) == expected, (mode, above)
            check_told(drawn, told)
        assert not by_engine(drawn, "monitored") - expected


@st.composite
def orders(draw: st.DrawFn) -> tuple[str, list[dict[str, dict[str, list[int]]]]]:
    """Orders with one to three statuses each, some of which WHERE refuses, as batches."""
    count, gap = 3_000, draw(st.integers(1, 10))
    delays = draw(st.lists(st.integers(0, 150), min_size=1, max_size=3))
    # By status: of how many orders there is one, and which state it has (WHERE keeps 2).
    every = [draw(st.sampled_from([1, 1, 2, 7])) for _ in delays]
    states = [draw(st.sampled_from([1, 2, 2])) for _ in delays]
    mixed = draw(st.booleans())
    begins = draw(st.sampled_from([0, 0, count // 2]))
    events = [(gap * i, 0, i, i % 5) for i in range(count)]
    for number, (delay, some, state) in enumerate(zip(delays, every, states, strict=True)):
        first = begins if number else 0
        for i in range(first, count, some):
            shown = 1 + i % 2 if mixed and not number else state
            events.append((gap * (i + delay) + 1 + number, 1, i, shown))
    events.sort()
    sizes = [gap * draw(st.sampled_from([20, 200, 600])) for _ in range(2)]
    window = draw(st.sampled_from(["Range {}", "Range {}", "Rows {}"]))
    windows = [f"[{window.format(size if 'Range' in window else size // gap)}]" for size in sizes]
    kept = draw(st.sampled_from(["S.state = 2", "S.state = 2 And O.c < 4"]))
    text = (
        f"Select O.id, O.c, S.state From Orders {windows[0]} As O, Status {windows[1]} As S"
        f" Where O.id = S.id And {kept} Publish Out"
    )
    note(f"{text}: delays {delays}, every {every}, states {states}, gap {gap}, mixed {mixed}")
    batches = []
    for low in range(0, len(events), 1_500):
        part = events[low : low + 1_500]
        own = [[e for e in part if e[1] == stream] for stream in (0, 1)]
        columns = [list(map(list, zip(*rows, strict=True))) if rows else [[]] * 4 for rows in own]
        batches.append(
            {
                name: {"id": c[2], last: c[3], "t": c[0]}
                for name, last, c in zip(("Orders", "Status"), ("c", "state"), columns, strict=True)
            }
        )
    return text, batches


@settings(max_examples=12, deadline=None)
@given(orders(), st.sampled_from([{}, {"worth": 0}, {"worth": 0, "sample": 0.1}]))
def test_what_is_lost_is_little_or_is_told(
    drawn: tuple[str, list[dict[str, dict[str, list[int]]]]], watching: dict[str, float]
) -> None:
    text, batches = drawn
    found = []
    for mode in ("off", "monitored"):
        engine = braid.Engine(idle_timeout=None, constraints=mode, watching=watching)
        engine.execute("CREATE STREAM Orders (id BIGINT, c BIGINT, t BIGINT) TIME t;")
        engine.execute("CREATE STREAM Status (id BIGINT, state BIGINT, t BIGINT) TIME t;")
        engine.query("joined", text)
        rows: Counter[Event] = Counter()
        for batch in batches:
            rows.update(events_from_result(engine.process(batch)["Out"]))
        rows.update(events_from_result(engine.finish()["Out"]))
        found.append(rows)
    expected, own = found
    assert not own - expected
    lost, told = expected.total() - own.total(), [n.code for n in engine.notices]
    # Of what is lost until it is noticed, a window's worth; no sample is needed to see a key again.
    assert lost <= 0.01 * expected.total() + 200 or "W206" in told
