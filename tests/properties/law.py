"""The one law: what the engine emits for a query equals the reference over the accepted events.

A `Feed` says how the events reach the engine: in which order, in which batches, and after which
batches its state is saved, or saved and loaded into a new shard.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import assume, note
from hypothesis import strategies as st

from braid.algebra.queries import Query
from braid.algebra.schema import Schema
from braid.engine.io.results import Emission
from braid.engine.options import Options, ShardOptions
from braid.engine.shard import Shard
from braid.operators.core.selection_settings import STRATEGIES, Form, Selections, SelectionSettings
from braid.optimizer.rules import NAMES
from braid.reference import Event, Overflow, TooMany, answer, events_from_result
from braid.reference.tables import to_array
from tests.properties.expressions import Draw
from tests.properties.plans import Workload, describe
from tests.scenarios.comparison import assert_same, multiset

Key = tuple[str, str | None]
Arrival = tuple[str, Event]

#: Larger answers are not interesting enough for the time that the reference takes.
LIMIT = 120
OPTIONS = ShardOptions(Options(instance_budget=1_000_000, idle_timeout=None))


def with_user(options: ShardOptions = OPTIONS, **given: Any) -> ShardOptions:
    """The same options, but for what users choose."""
    return replace(options, user=replace(options.user, **given))


#: All rules, none, each one alone, all but each one.
RULE_SETS = (
    frozenset(NAMES),
    frozenset(),
    *(frozenset({name}) for name in NAMES),
    *(frozenset(NAMES) - {name} for name in NAMES),
)


#: Every form of the index of selections; bitmaps with monitors that decide after a few rows.
SELECTIONS = (
    Selections(),
    *(
        Selections({"*": SelectionSettings(form, strategy, tau=2, recompute=3, mu=mu, sample=1)})
        for form in Form
        for strategy in (STRATEGIES if form is Form.ASC else STRATEGIES[:1])
        for mu in ((0.0, 0.3) if form is Form.ASC else (0.0,))
    ),
)


@dataclass(frozen=True)
class Feed:
    batches: tuple[tuple[Arrival, ...], ...]
    save_after: frozenset[int] = frozenset()
    reload_after: frozenset[int] = frozenset()
    rules: frozenset[str] = RULE_SETS[0]
    selections: Selections = SELECTIONS[0]

    @property
    def options(self) -> ShardOptions:
        return with_user(rules=self.rules, selection=self.selections)


@dataclass
class Run:
    """A shard being fed, with what it has emitted so far and the pages that it has saved."""

    shard: Shard
    workload: Workload
    results: dict[Key, list[Event]] = field(default_factory=lambda: defaultdict(list))
    late: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    pages: dict[str, bytes] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)
    options: ShardOptions = OPTIONS

    def feed(self, batch: Sequence[Arrival], now: int) -> None:
        for name in dict.fromkeys(name for name, _ in batch):
            arrived = [event for of, event in batch if of == name]
            schema = self.workload.streams[name].schema
            self.shard.accept(name, to_batch(arrived, schema), now=now)
            known = [self.highest[name]] if name in self.highest else []
            self.highest[name] = max([*known, *(e.end for e in arrived)])
        for name, highest in self.highest.items():
            self.shard.observe(name, highest, now=now)
        self.collect(self.shard.advance(now=now))

    def collect(self, emission: Emission) -> None:
        for result in emission.results:
            self.results[result.query, result.stream] += events_from_result(result.table)
        for channel, table in emission.late:
            self.late[channel] += events_from_result(table)
        assert not emission.suspended

    def save(self) -> None:
        delta = self.shard.save()
        for key in delta.removals:
            self.pages.pop(key, None)
        self.pages.update(delta.puts)

    def reload(self, queries: Sequence[Query] | None = None) -> None:
        self.save()
        chosen = self.workload.queries if queries is None else queries
        self.shard = Shard.load(self.pages, chosen, self.workload.streams, options=self.options)


def to_batch(events: Sequence[Event], schema: Schema) -> pa.RecordBatch:
    """Events as ingest hands them over: the interval, then the attributes."""
    columns: dict[str, Any] = {
        "__start": pa.array([e.start for e in events], pa.int64()),
        "__end": pa.array([e.end for e in events], pa.int64()),
    }
    for i, attribute in enumerate(schema):
        columns[attribute.name] = to_array([e.values[i] for e in events], attribute.type)
    return pa.RecordBatch.from_pydict(columns)


def start(workload: Workload, options: ShardOptions = OPTIONS) -> Run:
    shard = Shard(workload.queries, workload.streams, options=options)
    return Run(shard, workload, options=options)


def run(workload: Workload, feed: Feed) -> Run:
    current = start(workload, feed.options)
    for number, batch in enumerate(feed.batches):
        current.feed(batch, now=number)
        if number in feed.reload_after:
            current.reload()
        elif number in feed.save_after:
            current.save()
    current.collect(current.shard.finish())
    return current


def expected(workload: Workload, events: dict[str, list[Event]]) -> dict[Key, list[Event]]:
    """What the reference says; examples with huge answers are not used."""
    try:
        return answer(workload.queries, events, limit=LIMIT)
    except (TooMany, Overflow):
        assume(False)
        raise


def check(workload: Workload, feed: Feed) -> None:
    """The law, where every event arrives in time."""
    wanted = expected(workload, workload.events)
    note(describe(workload))
    actual = run(workload, feed)
    assert not any(actual.late.values()), f"late: {dict(actual.late)}"
    compare(actual, wanted)


def check_with_late(workload: Workload, feed: Feed) -> None:
    """The law, where some events come too late: over those that did not."""
    expected(workload, workload.events)
    note(describe(workload))
    actual = run(workload, feed)
    accepted = {
        name: remove(sent, actual.late.get(name, [])) for name, sent in workload.events.items()
    }
    compare(actual, expected(workload, accepted))


def compare(actual: Run, wanted: dict[Key, list[Event]]) -> None:
    for key, events in wanted.items():
        assert_same(actual.results.get(key, []), events, f"output {key}")
    assert set(actual.results) <= set(wanted)


def stay(data: st.DataObject, workload: Workload, others: Sequence[Query]) -> None:
    """A restart with some of the queries, somewhere: they do not notice."""
    wanted = expected(workload, workload.events)
    feed = data.draw(feeds(workload, reloads=False))
    current = start(workload)
    change = data.draw(st.integers(0, len(feed.batches)))
    for number, batch in enumerate(feed.batches):
        if number == change:
            current.reload(others)
        current.feed(batch, now=number)
    current.collect(current.shard.finish())
    for query in others:
        for output in query.outputs:
            key = (query.id, output.publish)
            assert_same(current.results.get(key, []), wanted[key], f"output {key}")


def remove(events: Sequence[Event], gone: Sequence[Event]) -> list[Event]:
    """The events without those that are gone, each of which must be among them."""
    left = multiset(gone)
    kept = []
    for event in events:
        (key,) = multiset([event])
        if left[key]:
            left[key] -= 1
        else:
            kept.append(event)
    assert not +left, "something is late that was never sent"
    return kept


# ---- feeds -----------------------------------------------------------------------------------------


@st.composite
def feeds(draw: Draw, workload: Workload, lateness: int = 0, reloads: bool = True) -> Feed:
    """Any order in which no event is later than `lateness`, cut into batches anywhere."""
    sent = [(name, e) for name, found in workload.events.items() for e in found]
    delays = [draw(st.integers(0, lateness)) for _ in sent] if lateness else [0] * len(sent)
    order = draw(st.permutations(range(len(sent))))
    order.sort(key=lambda i: sent[i][1].end + delays[i])
    return draw(cut([sent[i] for i in order], reloads))


@st.composite
def unordered_feeds(draw: Draw, workload: Workload) -> Feed:
    """Any order at all: some events may come too late."""
    sent = [(name, e) for name, found in workload.events.items() for e in found]
    return draw(cut(draw(st.permutations(sent)), reloads=True))


@st.composite
def cut(draw: Draw, sent: Sequence[Arrival], reloads: bool) -> Feed:
    cuts = sorted(draw(st.sets(st.integers(0, len(sent)), max_size=5)))
    batches = tuple(tuple(sent[a:b]) for a, b in pairwise([0, *cuts, len(sent)]))
    if draw(st.integers(0, 9)) == 0:
        batches = tuple((arrival,) for arrival in sent)
    numbers = st.sets(st.integers(0, max(0, len(batches) - 1)), max_size=3).map(frozenset)
    nothing: frozenset[int] = frozenset()
    rules = draw(st.sampled_from(RULE_SETS))
    selections = draw(st.sampled_from(SELECTIONS))
    return Feed(batches, draw(numbers), draw(numbers) if reloads else nothing, rules, selections)
