"""A shard: ordering, execution and state of a set of queries, independent of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from braid.algebra.queries import Members, Query, Template, members_of
from braid.algebra.schema import TICKS, Schema, shown_names
from braid.algebra.streams import Stream, sharable_classes, unshared
from braid.algebra.types import TIMESTAMP
from braid.distribution.keys import FEED
from braid.documents.reader import DocumentReader
from braid.engine import state
from braid.engine.checksums import reading
from braid.engine.clock_distance import ClockDistance
from braid.engine.constraint_notices import constraint_notices
from braid.engine.constraints import of_channels
from braid.engine.executor import Executor, ExitBatch
from braid.engine.io.ingest import END, START, Ends, plain
from braid.engine.io.ordering import NEVER, Ordering, Part
from braid.engine.io.results import Emission, Paired, ResultGroup
from braid.engine.io.row_encoder import RowEncoder
from braid.engine.options import ShardOptions
from braid.engine.planner import read_shapes
from braid.engine.query_lifetimes import QueryLifetimes
from braid.engine.query_registry import ExitPoint, Form, QueryRegistry
from braid.engine.reports import Reports
from braid.engine.running_plan import NewQueries, RunningPlan, Saved
from braid.engine.state import Meta
from braid.engine.state_pages import Delta, Pages
from braid.engine.unreadable import UnreadableTexts, document_mops
from braid.errors import Notice
from braid.operators.core.base import Context, State
from braid.operators.core.batch import Batch
from braid.operators.core.columnar_input import Columns, rows_of
from braid.operators.core.columns import Rows
from braid.operators.core.selection_choice import Choice
from braid.operators.core.values import Words
from braid.optimizer.driver import Driver, shares_channels
from braid.plan.plan import Plan, channel_owner
from braid.plan.specs import Shape


class Shard:
    """Accepts events in any order, returns results in order of time, can be saved at any time."""

    def __init__(
        self,
        queries: Sequence[Query] | Sequence[Members],
        streams: Mapping[str, Stream],
        *,
        channels: Mapping[str, str] | None = None,
        sharable: Mapping[str, tuple[str, ...]] | None = None,
        awaited: Iterable[str] | None = None,
        options: ShardOptions = ShardOptions(),  # noqa: B008 -- frozen
        resumed: bool = False,
        births: Mapping[str, int] | None = None,
        _pages: Mapping[str, bytes] | None = None,
    ) -> None:
        """`channels`: which declared stream each channel that queries read is a part of (default:
        they read the streams themselves). `sharable`: which channels may be one (default: as the
        streams are declared). `awaited`: the streams whose time this shard follows
        (default: those that its queries read). `births`: since when queries see events that the
        saved state does not know (default: from now on; from the start on if there is none)."""
        meta = Meta.of(_pages) if _pages else None
        if meta is not None:
            meta.check_rules(options.user.rules)
        groups = _grouped(queries)
        names = dict(channels) if channels is not None else {name: name for name in streams}
        self._streams = {channel: streams[stream] for channel, stream in names.items()}
        self.options = options
        self._declared = of_channels(options.declared, names)
        classes = sharable_classes(self._streams) if sharable is None else sharable
        self._sharable = classes if shares_channels(options.user.rules) else {}
        self._shapes = shapes = self._shapes_read(groups)
        read = {channel: names[channel] for channel in shapes}
        followed = frozenset(read.values() if awaited is None else awaited)
        self._clocks = ClockDistance(streams, names)
        self._ordering = Ordering(
            streams, read, followed, options.user.idle_timeout, arrived=self._note_times
        )
        self._context = Context(
            instance_budget=options.user.instance_budget,
            functions=options.functions,
            selection_join=Choice(options.user.selection_join, options.user.member_set_bytes),
            selections=options.user.selection,
            spill_above=options.user.spill_above,
            watching=options.user.watching,
            share=options.share,
        )
        self._encoder = RowEncoder(self._context.values)
        self.suspended: dict[str, str] = {}
        #: Notices for the user from running queries.
        self.notices: list[Notice] = []
        self.reports = Reports(self._context.failures, self.notices)
        if shares_channels(options.user.rules):
            self.reports.unshared(unshared({name: streams[name] for name in read.values()}))
        self._unread = UnreadableTexts()
        self._suspended_at: dict[int, int] = {}
        self._pages = Pages(_pages)
        self._late: list[tuple[str, pa.Table]] = []
        self._counts = {"events": 0, "late": 0}
        self._units: dict[str, str] = {}
        #: The watermark of the last run, by clock.
        self._seen_until: dict[str, int] = {}
        self._addable: dict[Template, bool] = {}
        self._read = set(shapes)
        self._ending: list[tuple[int, int]] = []
        states = self._restore(_pages, meta, resumed=resumed) if _pages and meta else {}
        known = (options.user.constraints, self._declared)
        driver = Driver(self._streams, shapes, options.user.rules, {}, self._sharable, *known)
        driver.constrains_at_once = not options.user.spill_above
        for members, _ in groups:
            self._clocks.add_queries(members)
        self._lifetimes = QueryLifetimes(_pages, births)
        added = [NewQueries(members, self._births(members), s) for members, s in groups]
        saved = None if meta is None else Saved(states, meta.dedicated_joins, meta.failed)
        self._running = RunningPlan(driver, self._context, added, saved)
        self._note_suspended()

    def _shapes_read(self, groups: Sequence[tuple[Members, bool]]) -> dict[str, Shape]:
        if self.options.whole_streams:
            shapes = {name: Shape(stream.schema) for name, stream in self._streams.items()}
        else:
            shapes = read_shapes((m for m, _ in groups), self._streams, self._declared)
        return {name: _merged_shape(shapes, self._sharable.get(name, (name,))) for name in shapes}

    def _births(self, members: Members) -> Words | None:
        """The births of queries: those that the saved state does not contain are born now."""
        now = self._ordering.bound(members.template.outputs[-1].node.unit)
        return self._lifetimes.births(members.ids, now)

    # ---- adding and dropping queries ----

    def bound(self, unit: str) -> int:
        """The watermark of a clock: events that end before it are late."""
        return self._ordering.bound(unit)

    def highest(self, unit: str) -> int | None:
        """The latest `end` of any stream of a clock; None before the first event."""
        streams, known = self._ordering.streams, self._ordering.progress
        ends = [p.highest for n, p in known.items() if n in streams and streams[n].unit == unit]
        return max((end for end in ends if end is not None), default=None)

    def knows(self, query: str) -> bool:
        """Whether a query of this id is in the plan."""
        return self._executor.registry.has(query)

    def can_add(self, members: Members) -> bool:
        """Whether the plan reads all columns of streams that queries of this template need."""
        template = members.template
        if template not in self._addable:
            sources, declared = self.plan.sources, self._declared
            self._addable[template] = all(
                name in sources and set(shape.schema.names) <= set(sources[name].schema.names)
                for name, shape in read_shapes([members], self._streams, declared).items()
            )
        return self._addable[template]

    def add(self, members: Members, birth: int | Words, *, single: bool = False) -> None:
        """Add queries that see the events that start at `birth` (of each) or later. Other queries
        are not affected."""
        self.add_all([NewQueries(members, np.full(len(members), birth, np.int64), single)])

    def add_all(self, added: Sequence[NewQueries]) -> None:
        """Add queries of several templates, as `add` does."""
        before = self._executor.registry
        if self._running.add(added):
            self._take_over(before)
        for members, births, _ in added:
            assert births is not None
            self._lifetimes.record(members.ids, births)
            self._clocks.add_queries(members)
        self._note_suspended()

    def _take_over(self, before: QueryRegistry) -> None:
        """All queries have new numbers: those that end at some time end then still."""
        self.suspended, self._suspended_at, self._units = {}, {}, {}
        ending = [(death, before.id_of(number)) for death, number in self._ending]
        self._ending = []
        for death, name in ending:
            self.drop([name], death)

    def drop(self, ids: Sequence[str], death: int) -> None:
        """End queries at `death`: they have no results that end then or later, and are removed."""
        registry = self._executor.registry
        found = registry.numbers_of_all(ids)
        numbers = np.array(found, np.int64)
        if any(death > self.bound(unit) for unit in self._units_of(numbers).values()):
            self._executor.end(numbers, np.full(len(numbers), death, np.int64))
        leaving = {n: d for d, n in self._ending}
        leaving |= {n: min(death, leaving.get(n, death)) for n in found}
        self._ending = [(d, n) for n, d in leaving.items()]
        self._remove_expired()

    def _remove_expired(self) -> None:
        """Remove the queries whose death has passed."""
        if not self._ending:
            return
        units = self._units_of(np.array([n for _, n in self._ending], np.int64))
        over = sorted(n for death, n in self._ending if death <= self.bound(units[n]))
        if over:
            numbers = np.array(over, np.int64)
            names = self._executor.registry.ids_of(numbers).to_pylist()
            for number, name in zip(over, names, strict=True):
                self.suspended.pop(name, None)
                self._suspended_at.pop(number, None)
                self._lifetimes.forget(name)
            self._executor.dismiss(numbers)
            self._running.forget(names)
            gone = set(over)
            self._ending = [(d, n) for d, n in self._ending if n not in gone]

    def _units_of(self, numbers: Words) -> dict[int, str]:
        """The time unit of each of these queries."""
        found: dict[int, str] = {}
        for admitted, rows in self._executor.registry.grouped(np.sort(numbers)):
            unit = self._unit(admitted.route.exits[-1].channel)
            found |= dict.fromkeys((admitted.first + rows).tolist(), unit)
        return found

    def unit(self, channel: str) -> str:
        """The time unit of a channel or m-op."""
        return self._unit(channel)

    @property
    def plan(self) -> Plan:
        return self._executor.plan

    @property
    def executor(self) -> Executor:
        return self._running.executor

    @property
    def _executor(self) -> Executor:
        return self._running.executor

    @property
    def documents(self) -> DocumentReader:
        """Parses the documents of this shard."""
        return self._context.documents

    @classmethod
    def load(
        cls,
        pages: Mapping[str, bytes],
        queries: Sequence[Query] | Sequence[Members],
        streams: Mapping[str, Stream],
        *,
        channels: Mapping[str, str] | None = None,
        sharable: Mapping[str, tuple[str, ...]] | None = None,
        awaited: Iterable[str] | None = None,
        options: ShardOptions = ShardOptions(),  # noqa: B008 -- frozen
        resumed: bool = False,
        births: Mapping[str, int] | None = None,
    ) -> Shard:
        """Resume from saved pages. Queries may have been added or dropped; the others keep their state.

        `resumed`: nothing ran meanwhile, so that the time that has passed makes no stream idle.
        """
        return cls(
            queries,
            streams,
            channels=channels,
            sharable=sharable,
            awaited=awaited,
            options=options,
            resumed=resumed,
            births=births,
            _pages=pages,
        )

    # ---- events ----

    def accept(
        self, channel: str, events: pa.RecordBatch, *, now: int, ends: Ends | None = None
    ) -> None:
        """Take canonical events of a channel, in any order."""
        if channel not in self._read or not events.num_rows:
            return
        self._counts["events"] += events.num_rows
        events = self._completed(channel, events)
        late = self._ordering.accept(channel, events, now, ends)
        if late is not None:
            self._counts["late"] += late.num_rows
            shown = self._shown(channel, late)
            for stream in channel.split(FEED):
                self._late.append((stream, shown))
                self.reports.late(self._streams[stream].name)

    def _completed(self, channel: str, events: pa.RecordBatch) -> pa.RecordBatch:
        """Events with all attributes of the channel that they are in: NULL where their own stream has
        none. Queries of that stream don't read these."""
        source = channel.split(FEED)[0]
        if source not in self._sharable:
            return events
        known = set(events.schema.names)
        for attribute in self._shapes[source].schema:
            if attribute.name not in known:
                nothing = pa.nulls(events.num_rows, attribute.type)
                events = events.append_column(attribute.name, nothing)
        return events

    def accept_shared(
        self,
        streams: Sequence[str],
        events: pa.RecordBatch,
        *,
        now: int,
        ends: Ends | None = None,
    ) -> None:
        """Take events that belong to several streams at once: as one event of their channel if
        they are sharable, as one of each otherwise."""
        for channel in self._channels_of(FEED.join(streams)):
            self.accept(channel, events, now=now, ends=ends)

    def _note_times(self, channel: str, ends: Ends) -> None:
        for name in channel.split(FEED):
            self._clocks.observe(self._clocks.channels[name], ends.lowest, ends.highest)

    def _channels_of(self, channel: str) -> tuple[str, ...]:
        """Where events go that belong to these streams."""
        read = [stream for stream in channel.split(FEED) if stream in self._read]
        if len(read) < 2 or not set(read) <= set(self._sharable.get(read[0], ())):
            return tuple(read)
        shared = FEED.join(read)
        self._ordering.channels.setdefault(shared, self._ordering.channels[read[0]])
        self._read.add(shared)
        return (shared,)

    def observe(self, stream: str, highest: int | None, *, now: int) -> None:
        """Record the highest time of a declared stream, whichever shard its events went to."""
        if stream in self._ordering.streams:
            self._ordering.observe(stream, highest, now)

    def due(self, *, now: int) -> int | None:
        """The processing time at which `advance` would release something without new events."""
        return self._ordering.due(now)

    def listening_since(self, began: int) -> None:
        """Nobody listened before this processing time: it makes no stream idle."""
        self._ordering.listening_since(began)

    def advance(self, *, now: int) -> Emission:
        """Run everything that is complete at this processing time."""
        return self._run(self._ordering.release(now))

    def finish(self) -> Emission:
        """Run all held events: the input has ended, and all windows expire."""
        ended = {self._unit(signature) for signature in self._executor.moved_by_time}
        return self._run(self._ordering.release_all(ended), ended=True)

    def answer(self, channels: Sequence[str], events: pa.RecordBatch) -> Emission:
        """Run events of these channels by themselves, whatever time it is: for plans without
        state."""
        names = self._channels_of(FEED.join(channels))
        released = {name: [Part.whole(name, self._completed(name, events))] for name in names}
        self._counts["events"] += events.num_rows * len(released)
        return self._run(released)

    def _run(self, released: dict[str, list[Part]], *, ended: bool = False) -> Emission:
        sources = {
            channel: self._source_batch(channel, parts) for channel, parts in released.items()
        }
        groups: list[ResultGroup] = []
        notices: list[Notice] = []
        rejected: list[tuple[str, pa.Table]] = []
        passed = self._has_time_passed()
        if sources or passed:
            feeds = [(tuple(c.split(FEED)), rows_of(s)) for c, s in sources.items() if FEED in c]
            found = self._executor.run(sources, self._bound, feeds)
            self._note_suspended()
            if self._executor.watches_constraints:
                notices += constraint_notices(self._executor)
            if unread := document_mops(self._executor):
                units = [(signature, self._unit(signature)) for signature in unread]
                rejected, told = self._unread.take(self._executor, units)
                notices += told
            groups = [group for f in found if len(group := self._group(f))]
            self._executor.compact()
        notices += self._clocks.notices(self.knows, ended=ended)
        self.notices.extend(notices)
        if self._ending:
            for group in groups:
                group.settle()  # before queries are removed
        self._remove_expired()
        self._context.documents.settle()
        late, self._late = self._late, []
        self.reports.count_rejected(sum(table.num_rows for _, table in rejected))
        counts, told = self.reports.take()
        counts |= self._counts | {"matches": sum(map(len, groups))}
        self._counts = {"events": 0, "late": 0}
        return Emission(groups, late, counts, dict(self.suspended), [*notices, *told], rejected)

    def _has_time_passed(self) -> bool:
        """Whether rows may expire from windows without new events."""
        moved = self._executor.moved_by_time
        if not moved:
            return False
        now = {unit: self.bound(unit) for unit in map(self._unit, moved)}
        passed = any(time > self._seen_until.get(unit, NEVER) for unit, time in now.items())
        self._seen_until.update(now)
        return passed

    def _source_batch(self, channel: str, parts: list[Part]) -> Rows | Columns:
        source = channel.split(FEED)[0]
        return self._encoder(source, parts, self.plan.sources[source])

    def _bound(self, signature: str) -> int:
        """The watermark of an m-op: that of the streams it reads."""
        return self._ordering.bound(self._unit(signature))

    def _unit(self, channel: str) -> str:
        if channel not in self._units:
            mop = self.plan.mops.get(channel_owner(channel))
            if mop is None:
                return self._streams[channel.removeprefix("stream:")].unit
            self._units[channel] = self._unit(mop.inputs[0])
        return self._units[channel]

    def _group(self, found: ExitBatch) -> ResultGroup:
        batch = found.batch.compact()
        point = found.exit
        table = self._table(point, batch.rows)
        pairs = partial(self._paired, point, batch)
        group = ResultGroup(point.stream, table, found.count, pairs, point.shown)
        if self._suspended_at:
            group.settle()
        return group

    def _paired(self, point: ExitPoint, batch: Batch) -> Paired:
        rows, queries = point.subscribers.resolve(batch)
        for number, until in self._suspended_at.items():
            kept = (queries != number) | (batch.rows[rows, 1] <= until)
            rows, queries = rows[kept], queries[kept]
        numbers, codes = _distinct(queries)
        registry = self._executor.registry
        return Paired(rows, codes, registry.ids_of(numbers), registry.forms_of(numbers, point))

    def _table(self, point: ExitPoint, rows: Rows) -> pa.Table:
        return point.table(rows, self.plan.channels[point.channel].layout, self._context.values)

    @property
    def exits(self) -> tuple[ExitPoint, ...]:
        """The exits of the plan."""
        return tuple(self._executor.exits.values())

    def empty(self, point: ExitPoint, form: Form | None = None) -> pa.Table:
        """An empty result as an exit shows it in this form (default: its only one)."""
        width = self.plan.channels[point.channel].layout.width
        table = self._table(point, np.empty((0, width), np.int64))
        return point.shown[point.forms[form or point.form]].of(table)

    def _shown(self, channel: str, events: pa.RecordBatch) -> pa.Table:
        """Late events as a table for the user."""
        stream = self._streams[channel.split(FEED)[0]]
        type_ = pa.int64() if stream.unit == TICKS else stream.time_type
        type_ = type_ if pa.types.is_timestamp(type_) or stream.unit == TICKS else TIMESTAMP
        attributes = [n for n in events.schema.names if n in stream.schema]
        columns = [events.column(START).cast(type_), events.column(END).cast(type_)]
        columns += [plain(events.column(n)) for n in attributes]
        return pa.table(columns, names=list(shown_names(attributes)))

    def _note_suspended(self) -> None:
        """Suspend the queries whose results depend on a state that was given up."""
        for number, suspension in self._executor.suspensions().items():
            name = self._executor.registry.id_of(number)
            if not (suspension.overflow or suspension.failure):
                # Where a sum does not fit, results of that instant and later are nobody's already.
                until = min(suspension.at, self._suspended_at.get(number, suspension.at))
                self._suspended_at[number] = until
                suspension = replace(suspension, at=until)
            self.suspended[name] = suspension.reason(self.options.user.instance_budget)

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the current state. Computing them visits every m-op."""
        return {
            "instances": self._executor.instances,
            "state_bytes": self._executor.state_bytes,
            "index_bytes": self._executor.index_bytes,
            "held": self._ordering.held,
        }

    @property
    def held(self) -> int:
        """The number of events that wait for the watermark."""
        return self._ordering.held

    @property
    def watermark(self) -> dict[str, int]:
        """The watermark of each clock."""
        return dict(self._ordering.bounds)

    # ---- state ----

    def save(self) -> Delta:
        """The changes since the last save, or since the pages that this shard was loaded from."""
        state.save(
            self._pages,
            self._ordering,
            self._context.values,
            self._executor.snapshots(),
            self.options.user.rules,
            self._running.planner.dedicated_joins,
            self._clocks.to_json(),
            self._executor.failures.saved(),
            self._lifetimes.page(self._executor.registry),
        )
        return self._pages.delta()

    def follow(self, pages: Mapping[str, bytes], *, resumed: bool = False) -> bool:
        """Go on from what a shard with the same queries has saved elsewhere meanwhile.

        What is known of the queries stays, which is what takes long to make; all state is that of
        the pages. False if this shard cannot: then it is of no use any more, and one is loaded.
        """
        meta = Meta.of(pages)
        strings = self._context.values.strings
        if self.suspended or self._ending or not self._is_like(pages, meta):
            return False
        constants = strings.constants
        texts = strings.array(constants, None)
        self._ordering.chunks, self._late = [], []
        self._seen_until.clear()  # what is gone on from may be older
        self._context.values.carried.clear()
        states = self._restore(pages, meta, resumed=resumed)
        if int(constants.max(initial=-1)) >= strings.count:
            return False
        if not texts.equals(strings.array(constants, None)):
            return False  # other codes are in the indexes
        strings.hold(constants)
        self._pages = Pages(pages)
        self._executor.forget_codes()
        self._executor.restore(states)
        self._note_suspended()
        return True

    def _is_like(self, pages: Mapping[str, bytes], meta: Meta) -> bool:
        """Whether pages are those of a shard with the same queries and m-ops."""
        saving = {s for s, logic in self._executor.logics.items() if logic.saves}
        return (
            not any(meta.failed.values())
            and meta.rules == self.options.user.rules
            and set(meta.mops) == saving
            and pages["roster"] == self._lifetimes.page(self._executor.registry)
        )

    def _restore(
        self, pages: Mapping[str, bytes], meta: Meta, *, resumed: bool
    ) -> dict[str, State]:
        """Take up what is not an m-op's; the arrays of m-ops."""
        state.restore_time(self._ordering, meta, resumed=resumed)
        with reading("the times of streams"):
            self._clocks.restore(meta.spans)
        for number, channel, events in state.saved_events(pages, meta):
            for part in self._channels_of(channel):
                state.check_events(events, self._shapes[part.split(FEED)[0]], number)
                self._ordering.restore_chunks([(number, part, events)])
        state.restore_values(pages, meta, self._context.values)
        return state.saved_states(pages, meta)


def _distinct(numbers: Words) -> tuple[Words, Words]:
    """The numbers that occur, in order, and for each its place among them.

    Many numbers are not sorted for that: there are about as many as there can be.
    """
    high = int(numbers.max(initial=-1)) + 1
    if high > 16 * len(numbers):
        return np.unique(numbers, return_inverse=True)
    occurs = np.zeros(high, np.bool_)
    occurs[numbers] = True
    places = np.cumsum(occurs, dtype=np.int64) - 1
    return np.flatnonzero(occurs), places[numbers]


def _merged_shape(shapes: Mapping[str, Shape], streams: Sequence[str]) -> Shape:
    """The shape of a channel of several streams: the columns that are read of any of them."""
    known = [shapes[stream] for stream in streams if stream in shapes]
    if all(shape == known[0] for shape in known):
        return known[0]
    asked = {a.name: a for shape in known for a in shape.schema}
    return Shape(Schema(tuple(asked[name] for name in sorted(asked))))


def _grouped(
    queries: Sequence[Query] | Sequence[Members],
) -> list[tuple[Members, bool]]:
    """Queries by template; whether each is a query by itself, which others may inline."""
    groups = [q for q in queries if isinstance(q, Members)]
    alone = [q for q in queries if isinstance(q, Query)]
    return [(m, len(m) == 1) for m in members_of(alone)] + [(m, _is_single(m)) for m in groups]


def _is_single(members: Members) -> bool:
    return len(members) == 1 and "/" not in members.ids[0].as_py()
