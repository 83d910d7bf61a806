"""The executor: runs the m-ops of a shared plan in order, each over a whole batch.

Queries are members of m-ops. Adding a query gives each m-op on its route a few words of data, and
does not affect other queries. Dropping a query ends it at an event time; when that time has
passed, the executor removes its data from the m-ops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braid.algebra.constraints import Constraint, ConstraintMode
from braid.algebra.templates import Members
from braid.engine.bulk_registration import (
    Forms,
    PendingQueries,
    concatenated,
    constants_of,
    renumbered,
)
from braid.engine.checksums import reading
from braid.engine.compaction import compact_values
from braid.engine.failures import Failures
from braid.engine.io.output_router import OutputRouter
from braid.engine.io.shared_events import with_shared_events
from braid.engine.query_registry import (
    Admitted,
    ExitKey,
    ExitPoint,
    QueryRegistry,
    exit_key,
    longest_results,
)
from braid.engine.suspension import Suspension, ended_outputs
from braid.operators.core.base import Context, Logic, State
from braid.operators.core.batch import Batch, Later
from braid.operators.core.bit_sets import BitSets
from braid.operators.core.checks import held_codes
from braid.operators.core.columnar_input import Columns, Unread
from braid.operators.core.columns import Rows
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin
from braid.operators.core.roles import (
    BrokenConstraint,
    LimitsMemory,
    NodesByPort,
    Publishes,
    TakesFeeds,
    UsesConstraints,
    WatchesConstraint,
)
from braid.operators.core.subscriber_index import ALWAYS
from braid.operators.core.values import Words
from braid.operators.registry import REGISTRY
from braid.plan.channel_specs import EncodeSpec
from braid.plan.plan import Plan, channel_owner, last_uses, moved_by_time, ordered, source_channel
from braid.plan.routes import Exit, Route, Stage
from braid.plan.specs import Shape

#: Compact the tables of values when they have grown by this factor since the last compaction.
GROWTH = 2
COMPACT_FROM = 1 << 20


@dataclass(frozen=True)
class ExitBatch:
    """The events of a batch for one exit, and the number of results that they make."""

    exit: ExitPoint
    batch: Batch
    count: int


class Executor:
    """The running plan of one shard. The caller gives the watermark of each batch."""

    def __init__(self, plan: Plan, context: Context) -> None:
        self.plan = plan
        self.context = context
        self.logics: dict[str, Logic] = {}
        #: The joins that rely on constraints, by m-op.
        self._constraint_joins: dict[str, UsesConstraints] = {}
        #: The m-ops that check declared constraints.
        self._watches: dict[str, WatchesConstraint] = {}
        self.registry = QueryRegistry()
        self.failures = Failures(self)
        self.exits: dict[ExitKey, ExitPoint] = {}
        self.events_in: dict[str, int] = {}
        self.events_out: dict[str, int] = {}
        self._users: dict[str, int] = {}
        self._order: tuple[str, ...] | None = None
        self._moved: tuple[str, ...] = ()
        self._overflowed: dict[str, int] = {}
        self._last_use: dict[str, list[str]] = {}
        #: The streams that some m-op reads directly, not through a shared channel.
        self._direct: set[str] = set()
        #: How many m-ops read each channel.
        self._readers: Counter[str] = Counter()
        self._live_bytes = COMPACT_FROM
        self._output_routers: list[OutputRouter] | None = None

    # ---- members ----

    def admit(self, route: Route, members: Members, births: Words | None = None) -> Admitted:
        """Admit queries of one template; without births they see all events."""
        constants = Constants(members.ids, members.values, self.context.values)
        count = len(members.ids)
        origins: list[Origin] = []
        for stage in route.stages:
            logic = self._logic(stage)
            given = [None if o is None else origins[o] for o in stage.origins]
            origins.append(logic.admit(stage.recipe, constants, given))
            self._users[stage.mop] = self._users.get(stage.mop, 0) + count
        return self._enter(PendingQueries(route, members, births), origins, constants)

    def admit_bulk(self, pending: Sequence[PendingQueries]) -> list[Admitted]:
        """Admit queries of many templates, one form at a time: see `bulk_registration.py`."""
        forms, origins = Forms(), [list[Origin]() for _ in pending]
        for place in range(max((len(entry.route.stages) for entry in pending), default=0)):
            groups: dict[Hashable, list[tuple[int, tuple[int, ...]]]] = {}
            for n, (route, members, _) in enumerate(pending):
                if place < len(route.stages):
                    stage = route.stages[place]
                    self._logic(stage)
                    self._users[stage.mop] = self._users.get(stage.mop, 0) + len(members)
                    form, slots = forms.of(stage.recipe)
                    known = tuple([o is None for o in stage.origins])
                    groups.setdefault((stage.mop, form, known), []).append((n, slots))
            for group in groups.values():
                self._admit_form(pending, origins, place, group)
        return [
            self._enter(
                entry, own, Constants(entry.members.ids, entry.members.values, self.context.values)
            )
            for entry, own in zip(pending, origins, strict=True)
        ]

    def _admit_form(
        self,
        pending: Sequence[PendingQueries],
        origins: list[list[Origin]],
        place: int,
        group: Sequence[tuple[int, tuple[int, ...]]],
    ) -> None:
        """Admit the queries whose recipes have the same form to one m-op, and append their nodes to
        `origins`."""
        stages = [pending[n].route.stages[place] for n, _ in group]
        parts = [(pending[n].members, slots) for n, slots in group]
        given: list[Origin | None] = []
        for k, origin in enumerate(stages[0].origins):
            if origin is None:
                given.append(None)
                continue
            read = [stage.origins[k] for stage in stages]
            given.append(
                concatenated([origins[n][r or 0] for (n, _), r in zip(group, read, strict=True)])
            )
        logic = self.logics[stages[0].mop]
        found = logic.admit(
            renumbered(stages[0].recipe), constants_of(parts, self.context.values), given
        )
        first = 0
        for (n, _), (members, _) in zip(group, parts, strict=True):
            own = slice(first, first + len(members))
            origins[n].append(Origin(found.numbers[own], found.signatures[own]))
            first += len(members)

    def _enter(
        self, entry: PendingQueries, origins: Sequence[Origin], constants: Constants
    ) -> Admitted:
        """Register queries that all m-ops of their route have admitted: they have results from now on."""
        route, members, births = entry
        count = len(members.ids)
        first = self.registry.new_numbers(count)
        admitted = Admitted(
            route,
            members.ids,
            first,
            [origin.numbers.astype(np.int32) for origin in origins],
            [self._exit(e) for e in route.exits],
            np.full(count, ALWAYS) if births is None else births,
            np.zeros(count, np.bool_),
        )
        for exit_, point in zip(route.exits, admitted.exits, strict=True):
            nodes = np.zeros(count, np.int64)
            if exit_.stage is not None:
                nodes = admitted.nodes[exit_.stage].astype(np.int64)
            point.subscribers.add(
                nodes, admitted.numbers, admitted.births, longest_results(exit_, constants)
            )
        self.registry.add(admitted)
        if self.failures.mops or self.failures.queries:
            self.failures.spread()
        return admitted

    def prepare(self, route: Route) -> list[ExitPoint]:
        """Build the m-ops of a route without queries, for the readers of what it publishes."""
        for stage in route.stages:
            self._logic(stage)
        points = [self._exit(e) for e in route.exits]
        for point in points:
            point.stays = True
        return points

    def _logic(self, stage: Stage) -> Logic:
        if self.plan.add(stage):
            logic = self.logics[stage.mop] = REGISTRY.build(stage.spec, self.context, stage.inputs)
            if isinstance(logic, UsesConstraints):
                self._constraint_joins[stage.mop] = logic
            if isinstance(logic, WatchesConstraint):
                self._watches[stage.mop] = logic
            self._order = None
        return self.logics[stage.mop]

    def _exit(self, exit_: Exit) -> ExitPoint:
        key = exit_key(exit_)
        if key not in self.exits:
            self.exits[key] = ExitPoint.of(exit_)
            self._output_routers = None
        return self.exits[key].with_form(exit_)

    def publish(self, stage: Stage, sources: Iterable[ExitPoint]) -> None:
        """Make the events of a published stream a channel that others can read."""
        logic = self._logic(stage)
        assert isinstance(logic, Publishes)
        channels = self.plan.channels
        logic.sources = [point.published(channels[point.channel].layout) for point in sources]

    def changed(self) -> None:
        """Forget the cached order: the inputs of an m-op have changed."""
        self._order = None

    def end(self, numbers: Words, deaths: Words) -> None:
        """End the results of these queries at the given times."""
        points: dict[int, tuple[ExitPoint, list[Words]]] = {}
        order = np.argsort(numbers, kind="stable")
        numbers, deaths = numbers[order], deaths[order]
        for admitted, rows in self.registry.grouped(numbers):
            for point in admitted.exits:
                points.setdefault(id(point), (point, []))[1].append(admitted.first + rows)
        for point, leaving in points.values():
            places = np.searchsorted(numbers, np.unique(np.concatenate(leaving)))
            point.subscribers.end(numbers[places], deaths[places])

    def dismiss(self, numbers: Words) -> None:
        """Remove queries from every m-op on their routes, and free what only they needed.

        All queries are removed together, so that each m-op and each exit scans its tables once.
        """
        points: dict[int, tuple[ExitPoint, list[Words]]] = {}
        nodes: dict[str, dict[str, list[Words]]] = {}
        for admitted, rows in self.registry.grouped(np.sort(numbers)):
            for point in admitted.exits:
                points.setdefault(id(point), (point, []))[1].append(admitted.first + rows)
            for stage, own in zip(admitted.route.stages, admitted.nodes, strict=True):
                ports = nodes.setdefault(stage.mop, {})
                ports.setdefault(stage.recipe.node_port, []).append(own[rows].astype(np.int64))
        for point, leaving in points.values():
            point.subscribers.remove(np.unique(np.concatenate(leaving)))
        for signature in reversed(self.order):  # readers first
            for port, found in nodes.get(signature, {}).items():
                self._dismiss(signature, port, np.concatenate(found))
        self.failures.forget_queries(numbers.tolist())
        self.registry.forget(numbers.tolist())
        self._remove_unused()

    def _dismiss(self, signature: str, port: str, nodes: Words) -> None:
        logic: Any = self.logics[signature]
        self._users[signature] -= len(nodes)
        if signature in self.failures.mops:
            return  # the m-op is removed with its last query
        if isinstance(logic, NodesByPort):
            logic.leave(port, nodes)
        else:
            gone = logic.dismiss(nodes)
            if len(gone):
                logic.nodes.retire(gone)

    def _remove_unused(self) -> None:
        for key, point in list(self.exits.items()):
            if not point.subscribers.count and not point.stays:
                point.gone = True
                del self.exits[key]
                self._output_routers = None
        while True:
            read = {channel_owner(c) for mop in self.plan.mops.values() for c in mop.inputs}
            unused = [s for s in self.logics if s not in read and not self._is_used(s)]
            if not unused:
                return
            for signature in unused:
                self.plan.remove(signature)
                del self.logics[signature]
                self._constraint_joins.pop(signature, None)
                self._watches.pop(signature, None)
                self._users.pop(signature, None)
                self._overflowed.pop(signature, None)
                self.failures.forget(signature)
                self._order = None

    def _is_used(self, signature: str) -> bool:
        """Whether an m-op has queries. The m-ops of a prepared query without members are kept."""
        if isinstance(self.logics[signature], Publishes):
            return False
        return self._users.get(signature, 1) > 0

    # ---- events ----

    @property
    def order(self) -> tuple[str, ...]:
        if self._order is None:
            self._order = ordered(self.plan.mops)
            self._last_use = last_uses(self.plan.mops, self._order)
            self._readers = Counter(c for mop in self.plan.mops.values() for c in mop.inputs)
            self._moved = moved_by_time(self.plan.mops, self._order)
            others = (m for m in self.plan.mops.values() if not isinstance(m.spec, EncodeSpec))
            read = {channel for mop in others for channel in mop.inputs}
            self._direct = {name for name in self.plan.sources if source_channel(name) in read}
        return self._order

    @property
    def moved_by_time(self) -> tuple[str, ...]:
        """The m-ops to run when time passes without events."""
        return self._moved if self.order else ()

    def run(
        self,
        sources: Mapping[str, Rows | Columns],
        bounds: Callable[[str], int],
        feeds: Sequence[tuple[tuple[str, ...], Rows]] = (),
    ) -> list[ExitBatch]:
        """Run a batch of whole epochs and return the events of every exit.

        `sources` has the rows of each stream in order of `end`. `feeds` has the rows that belong to
        several streams of a channel. `bounds` gives the watermark that the clock of an m-op
        advances to. Without input, only the m-ops that depend on time are run.
        """
        channels: dict[str, Batch | Later] = {}
        order = self.order if sources else self.moved_by_time
        whole = with_shared_events(sources, feeds, self._direct) if feeds else {}
        for name, shape in self.plan.sources.items():
            events = whole.get(name, sources.get(name))
            channels[source_channel(name)] = self._source_batch(name, shape, events)
        for logic in self.logics.values():
            if isinstance(logic, TakesFeeds):
                logic.feeds = [f for f in feeds if not set(f[0]).isdisjoint(logic.streams)]
                logic.by_themselves = {name: sources.get(name) for name in whole}
        wanted = {point.channel for point in self.exits.values()}
        for signature in order:
            self._step(signature, channels, bounds(signature))
            for channel in self._last_use.get(signature, ()):
                if channel not in wanted:
                    channels.pop(channel, None)
        for channel in channels:
            self._materialized(channel, channels)
        return [
            found
            for exits in self._by_channel()
            if (batch := self._materialized(exits.points[0].channel, channels)) is not None
            and len(batch)
            for point, part in exits.split(batch)
            if (found := self._exit_batch(point, part)) is not None
        ]

    def _source_batch(self, name: str, shape: Shape, events: Rows | Columns | None) -> Batch:
        """The batch of a source: columns in place if it has one reader, rows if it has several."""
        if events is None:
            return Batch(np.empty((0, shape.layout.width), np.int64))
        if not isinstance(events, Columns):
            return Batch(events)
        alone = self._readers.get(source_channel(name), 0) == 1
        return Unread(events) if alone else Batch(events.rows)

    def _by_channel(self) -> list[OutputRouter]:
        if self._output_routers is None:
            groups: dict[str, list[ExitPoint]] = {}
            for point in self.exits.values():
                groups.setdefault(point.channel, []).append(point)
            self._output_routers = [OutputRouter(points) for points in groups.values()]
        return self._output_routers

    def _materialized(self, channel: str, channels: dict[str, Batch | Later]) -> Batch | None:
        """The batch of a channel, computed now if it is lazy; None if the channel has none."""
        found = channels.get(channel)
        if not callable(found):
            return found
        owner = channel_owner(channel)
        try:
            batch = self._empty_batch(channel) if owner in self.failures.mops else found()
        except Exception as error:
            self.failures.fail(owner, error, None)
            batch = self._empty_batch(channel)
        channels[channel] = batch
        self._note_suspensions(owner)
        self.events_out[owner] = self.events_out.get(owner, 0) + len(batch)
        return batch

    def _note_suspensions(self, signature: str) -> None:
        sums = self.plan.mops[signature].spec.sums
        if signature in self.failures.mops:
            return
        if sums and self.logics[signature].stopped:
            self._end_overflowed(signature)

    def _step(self, signature: str, channels: dict[str, Batch | Later], bound: int) -> None:
        if signature in self.failures.mops:
            return
        mop = self.plan.mops[signature]
        read = [(channel, self._materialized(channel, channels)) for channel in mop.inputs]
        inputs = [self._empty_batch(name) if found is None else found for name, found in read]
        logic = self.logics[signature]
        inputs = [batch if _understands(logic, batch) else batch.spelled() for batch in inputs]
        try:
            output = logic.on_batch(inputs, bound)
        except Exception as error:
            self.failures.fail(signature, error, bound)
            return
        self._note_suspensions(signature)
        made = {"": output} if isinstance(output, Batch) else output
        count = 0
        for port, batch in made.items():
            channels[f"{signature}/{port}" if port else signature] = batch
            count += len(batch) if isinstance(batch, Batch) else 0
        self.events_in[signature] = self.events_in.get(signature, 0) + sum(map(len, inputs))
        self.events_out[signature] = self.events_out.get(signature, 0) + count

    def _empty_batch(self, channel: str) -> Batch:
        """A batch without events, of the channel's width."""
        width = self.plan.channels[channel].layout.width
        none = np.empty(0, np.int32)
        return Batch(np.empty((0, width), np.int64), none, none)

    def _exit_batch(self, point: ExitPoint, batch: Batch) -> ExitBatch | None:
        count = point.subscribers.counted(batch)
        return ExitBatch(point, batch, count) if count else None

    def suspensions(self) -> dict[int, Suspension]:
        """The suspended queries by number."""
        found: dict[int, Suspension] = {}
        for signature, logic in self.logics.items():
            if signature in self.failures.mops or not logic.stopped:
                continue
            overflow = self.plan.mops[signature].spec.sums
            if overflow:
                self._end_overflowed(signature)
            short = logic.out_of_memory if isinstance(logic, LimitsMemory) else ()
            for admitted, stage, number, node, at in self._stopped_in(signature):
                ended = ended_outputs(admitted.route, stage) if overflow else ()
                suspension = Suspension(at, overflow, node in short, ended)
                found[number] = (
                    suspension.with_earlier(found[number]) if number in found else suspension
                )
        return found | self.failures.suspensions()

    def broken(self) -> Iterator[tuple[str, ConstraintMode | None, BrokenConstraint]]:
        """Declared constraints that were broken since the last call, with the queries that join
        their streams, and what these may do if their joins have used them.

        A violation that a join sees is passed to the m-op that checks the constraint, which reports
        it once. No join relies on a constraint that was reported."""
        for join in (
            self._constraint_joins[s] for s in self._constraint_joins if s not in self.failures.mops
        ):
            for broken in join.broken():
                for watch in self._watches.values():
                    if watch.constraint.name == broken.constraint:
                        watch.note(broken)
        for signature, watch in self._watches.items():
            news = None if signature in self.failures.mops else watch.news()
            if news is not None:
                yield from self._queries_of_watch(signature, *news)
                for join in self._constraint_joins.values():
                    join.give_up(news[0])

    @property
    def watches_constraints(self) -> bool:
        """Whether any m-op uses or checks constraints."""
        return bool(self._constraint_joins or self._watches)

    def unused(self) -> Iterator[tuple[str, Constraint, str]]:
        """The queries whose joins don't use a declared constraint, with the reason; each once."""
        for watch in self._watches.values():
            for query, why in watch.unused(self.registry.has):
                yield query, watch.constraint, why

    def constraint_joins(self) -> Iterable[tuple[str, UsesConstraints]]:
        """The joins that use constraints, by m-op."""
        return self._constraint_joins.items()

    def through(self, mop: str) -> Iterator[str]:
        """The queries that go through an m-op."""
        for admitted, rows in self.registry.living():
            if any(stage.mop == mop for stage in admitted.route.stages):
                yield from (self.registry.id_of(admitted.first + row) for row in rows.tolist())

    def _queries_of_watch(
        self, signature: str, broken: BrokenConstraint, to: Collection[str] | None
    ) -> Iterator[tuple[str, ConstraintMode | None, BrokenConstraint]]:
        """The queries that go through a watch: all of them, or those that are named."""
        for admitted, rows in self.registry.living():
            mops = {stage.mop for stage in admitted.route.stages}
            if signature not in mops:
                continue
            joins = [join for mop, join in self._constraint_joins.items() if mop in mops]
            modes = [join.mode for join in joins if join.uses(broken.constraint)]
            for row in rows.tolist():
                name = self.registry.id_of(admitted.first + row)
                if to is None or name in to:
                    yield name, modes[0] if modes else None, broken

    def _stopped_in(self, signature: str) -> Iterator[tuple[Admitted, int, int, int, int]]:
        """Queries with a node that gave up: how they came, the stage, their number, that node,
        and when."""
        logic: Any = self.logics[signature]
        for admitted, rows in self.registry.living():
            for k, stage in enumerate(admitted.route.stages):
                if stage.mop == signature:
                    by_port = isinstance(logic, NodesByPort)
                    stopped = logic.stopped_at(stage.recipe.node_port) if by_port else logic.stopped
                    nodes = np.array(list(stopped), np.int64)
                    own = admitted.nodes[k][rows]
                    for row in rows[np.isin(own, nodes)].tolist():
                        node = int(admitted.nodes[k][row])
                        yield admitted, k, admitted.first + row, node, stopped[node]

    def _end_overflowed(self, signature: str) -> None:
        """A query whose sum does not fit puts out nothing that depends on it from that instant on;
        those who read what it publishes must not see it either, so this is done at once."""
        count = len(self.logics[signature].stopped)
        if self._overflowed.get(signature) == count:
            return
        self._overflowed[signature] = count
        points: dict[int, tuple[ExitPoint, dict[int, int]]] = {}
        for admitted, stage, number, _, at in self._stopped_in(signature):
            for place in admitted.route.exits_after(stage):
                point = admitted.exits[place]
                times = points.setdefault(id(point), (point, {}))[1]
                times[number] = min(at, times.get(number, at))
        for point, times in points.values():
            ends = np.array(list(times.values()), np.int64)
            point.subscribers.end(np.array(list(times), np.int64), ends)

    # ---- state ----

    def snapshots(self) -> dict[str, State]:
        known, failed = self.logics.items(), self.failures.mops
        return {
            signature: logic.snapshot() for signature, logic in known if signature not in failed
        }

    def restore(self, states: Mapping[str, State]) -> None:
        """Restore the state of the m-ops by signature; their members are already admitted."""
        for signature, state in states.items():
            logic = self.logics.get(signature)
            if logic is not None:
                with reading(f"the state of {signature}"):
                    logic.restore(state)
                    held_codes(logic.held(), self.context.values)

    def forget_codes(self) -> None:
        """Strings other than constants have new codes."""
        for logic in self.failures.running():
            logic.forget_codes()

    @property
    def instances(self) -> int:
        return sum(logic.instances for logic in self.failures.running())

    @property
    def state_bytes(self) -> int:
        """Bytes of instances and of the values that they refer to."""
        return self._values_size() + sum(logic.state_bytes for logic in self.failures.running())

    @property
    def index_bytes(self) -> int:
        """Bytes of the indexes of queries."""
        exits = sum(point.subscribers.nbytes for point in self.exits.values())
        return exits + sum(logic.index_bytes for logic in self.logics.values())

    def _values_size(self) -> int:
        values = self.context.values
        return values.strings.size + sum(c.values.nbytes for c in values.carried.values())

    def compact(self) -> None:
        """Remove strings and carried values that no instance refers to, if the tables have grown."""
        values = self.context.values
        if self._values_size() < GROWTH * self._live_bytes:
            return
        compact_values(values, self.failures.running(), self.forget_codes)
        self._live_bytes = max(self._values_size(), COMPACT_FROM)


def _understands(logic: Logic, batch: Batch) -> bool:
    """Whether a logic accepts the encoding of the members of a batch."""
    return logic.takes_bits if isinstance(batch.sets, BitSets) else logic.takes_sets
