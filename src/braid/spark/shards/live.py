"""Live changes: adds and drops queries on a running shard.

Every shard gets every change and decides about it from data that all shards share: the registered
queries, the routes, and the watermark when the batch began. These are part of the state that the
previous batch committed, and Spark records which batch has which change before the batch runs. So
all shards agree without communication, and a batch that is replayed after a crash decides the same.
The decisions are part of the shard's state.

- *added*: text, birth and placement of each added query; a restart binds the texts again.
- *ending*: dropped queries whose death has not been reached.
- *dropped*: queries of the session that were dropped; they stay dropped after a restart.
- *waiting*: changes that need a route that does not exist. They are retried after the pipeline has
  restarted with the route.
- *floors*: since when each channel has been filled. A query on a new channel is born no earlier, so
  that it sees all its events.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.queries import Query, members_of
from braid.algebra.schema import MICROSECONDS, TICKS
from braid.algebra.templates import Members, Template
from braid.distribution.distribution import Distribution, Placement, Standing
from braid.distribution.keys import split_channel
from braid.distribution.live_placement import LivePlacement, PlacementRefused
from braid.distribution.placement import Renamer, chosen
from braid.engine.checksums import reading
from braid.engine.io.ordering import NEVER
from braid.engine.running_plan import NewQueries
from braid.engine.shard import Shard
from braid.errors import BraidError
from braid.lang import Catalog, compile_query
from braid.spark.pipeline.control import APPLIED, REFUSED, WAITING, Change, ChangeResult

#: The shard's pages that are not the engine's.
PAGE = "~live"
ADDED = "~added/"

#: Added queries of one page: what a change rewrites.
SEGMENT = 256


@dataclass(frozen=True)
class Added:
    """A query that was added while the pipeline ran."""

    text: str
    birth: int
    placement: Placement
    segment: int

    def to_json(self) -> list[Any]:
        p = self.placement
        return [self.text, self.birth, [p.mode, p.shard, p.routes]]

    @staticmethod
    def from_json(data: Sequence[Any], segment: int) -> Added:
        text, birth, (mode, shard, routes) = data
        placement = Placement(mode, tuple(tuple(r) for r in routes), shard)
        return Added(text, birth, placement, segment)


@dataclass
class Outcome:
    """The outcome of the changes of a batch."""

    refused: list[tuple[Change, str]] = field(default_factory=list)
    applied: int = 0
    #: Every change that came or had waited, in order.
    taken: list[ChangeResult] = field(default_factory=list)
    #: Channels that would have to be filled for those that wait.
    wanted: set[Standing] = field(default_factory=set)
    #: Queries that could not be taken along over a restart, with the reason.
    lost: dict[str, str] = field(default_factory=dict)


class _Refusal(Exception):
    """Why a change is not made."""


class Live:
    """The changes of one shard since it was started: added, ending, dropped and waiting queries."""

    def __init__(
        self,
        catalog: Catalog,
        distribution: Distribution,
        shard: int,
        pages: Mapping[str, bytes] | None = None,
    ) -> None:
        self._catalog = catalog.copy()
        self._distribution = distribution
        self._number = shard
        self._live_placement = LivePlacement(distribution)
        self._renamer = Renamer()
        self._templates: dict[str, Template] = {}
        self.added: dict[str, Added] = {}
        self.ending: dict[str, tuple[int, str]] = {}
        self.dropped: dict[str, None] = {}
        self.waiting: list[Change] = []
        self._floors: dict[str, int] = {}
        self._segments: dict[int, dict[str, Added]] = {}
        self._changed: set[int] = set()
        self._next = 0
        self._saved = b""
        self.lost: dict[str, str] = {}
        self._pending_adds, self._pending_drops = _PendingAdds(), _PendingDrops()
        if pages:
            with reading("the list of queries that came while the pipeline ran"):
                self._read(pages)

    # ---- starting ----

    def members(self, base: Sequence[Members]) -> list[Members]:
        """Everything that this shard runs: of `base` what has not been dropped, and the added."""
        for name in list(self.dropped):
            if name not in self._catalog.queries and name not in self._catalog.prepared:
                del self.dropped[name]  # the session no longer has it: nothing to keep away
        for name in [n for n in self.ending if n not in self.added]:
            if name not in self._catalog.queries and name not in self._catalog.prepared:
                del self.ending[name]
        gone = [*self.dropped, *(n for n in self.ending if n not in self.added)]
        left = [self._without(members) for members in base]
        for name in gone:
            self._remove_from_catalog(name)
        queries = [query for name in list(self.added) if (query := self._rebind(name)) is not None]
        return [*left, *members_of(queries)]

    def _without(self, members: Members) -> Members:
        names = [name for name in self.dropped if name not in self._catalog.prepared]
        away = pc.is_in(members.ids, value_set=pa.array(names, pa.string()))
        for name in self.dropped:
            if name in self._catalog.prepared:
                away = pc.or_(away, pc.starts_with(members.ids, f"{name}/"))
        return chosen(members, np.flatnonzero(~np.asarray(away)))

    def _remove_from_catalog(self, name: str) -> None:
        prepared = self._catalog.prepared.get(name)
        template = prepared.template if prepared else self._catalog.queries[name].template
        try:
            self._catalog.remove_query(name)
            self._templates[name] = template
            if name in self.dropped:
                self._live_placement.remove(template)
        except BraidError as error:
            # The session has got a reader of it meanwhile: then it is there for that.
            self.lost[name] = f"was dropped, but is still read: {error.message}"
            self.dropped.pop(name, None)

    def _rebind(self, name: str) -> Query | None:
        """A query that came earlier, bound again; None if this shard does not run it."""
        added = self.added[name]
        try:
            query = compile_query(added.text, self._catalog, query_id=name).query
            if not self._live_placement.are_filled(added.placement, query.publishes):
                raise BraidError("E414", "its events are routed otherwise now")
            self._catalog.add_query(query)
        except BraidError as error:
            self._forget(name)
            if name not in self._catalog.queries:
                self.lost[name] = f"came while the pipeline ran and no longer fits: {error.message}"
            return None
        self._live_placement.add(query.template, added.placement)
        self._templates[name] = query.template
        if name in self.ending:
            self._catalog.remove_query(name)
        return self._placed(query, added.placement) if self._runs_here(added.placement) else None

    def begin(self, shard: Shard) -> None:
        """Start with a new shard: continue pending drops, and record where new channels begin."""
        for name, (death, _) in self.ending.items():
            if name in self._catalog.prepared or shard.knows(name):
                shard.drop([name], death)
        fresh = not self._floors and not self._saved
        for name, home in self._distribution.filled:
            floor = NEVER if fresh else _after(shard, self._unit(name))
            self._floors.setdefault(_floor(name, home), floor)

    def _unit(self, name: str) -> str:
        return self._distribution.streams[split_channel(name)[0]].unit

    # ---- changes ----

    def apply(self, changes: Sequence[Change], shard: Shard) -> Outcome:
        """Apply all changes of a batch, after its events were accepted and before they are run."""
        outcome = Outcome(lost=self.lost)
        self.lost = {}
        waited = self.waiting
        self.waiting = []
        for number, change in enumerate([*waited, *changes]):
            try:
                if number < len(waited):  # it was in time when it came
                    change = self._not_before(change, shard)
                taken = self._apply(change, shard, outcome)
                if number >= len(waited) or taken.state != WAITING:  # that it waits is known
                    outcome.taken.append(taken)
            except _Refusal as refusal:
                _refuse(change, str(refusal), outcome)
            except BraidError as error:
                _refuse(change, f"{error.code}: {error.message}", outcome)
        self._pending_adds.flush(shard)
        self._pending_drops.flush(shard)
        return outcome

    def _not_before(self, change: Change, shard: Shard) -> Change:
        """A change that has waited, at the earliest time that there still is."""
        bound = shard.bound(MICROSECONDS if change.timed else TICKS)
        return change if change.at is None or change.at >= bound else replace(change, at=bound)

    def _apply(self, change: Change, shard: Shard, outcome: Outcome) -> ChangeResult:
        if not change.id:
            raise _Refusal("a change needs the id of a query")
        if change.op == "add":
            return self._add(change, change.id, shard, outcome)
        if change.op == "drop":
            taken = self._drop(change, change.id, shard)
            outcome.applied += 1
            return taken
        raise _Refusal(f"there is no change {change.op!r}: write add or drop")

    def _add(self, change: Change, name: str, shard: Shard, outcome: Outcome) -> ChangeResult:
        if change.text is None:
            raise _Refusal("to add a query takes its text")
        self._check_free(name)
        query = compile_query(change.text, self._catalog, query_id=name).query
        self._check_streams_free(query.template)
        unit = query.template.outputs[-1].node.unit
        born = self._moment(change, unit, shard)
        self._catalog.add_query(query)
        try:
            placement = self._live_placement.place(name, query.template, query.values)
        except PlacementRefused as refusal:
            self._catalog.remove_query(name)
            if not refusal.wanted:
                raise _Refusal(f"it cannot run beside what it reads: {refusal}") from None
            self.waiting.append(change)
            outcome.wanted.update(refusal.wanted)
            return ChangeResult.of(change, WAITING, unit=unit)
        birth = max(born, self._floor_of(placement))
        self._record_added(name, Added(change.text, birth, placement, self._next // SEGMENT))
        self._live_placement.add(query.template, placement)
        self._templates[name] = query.template
        if self._runs_here(placement):
            self._pending_adds.add(self._placed(query, placement), birth)
        outcome.applied += 1
        return ChangeResult.of(change, APPLIED, unit=unit, time=_reached(birth))

    def _drop(self, change: Change, name: str, shard: Shard) -> ChangeResult:
        if any(waiting.id == name for waiting in self.waiting):
            self.waiting = [waiting for waiting in self.waiting if waiting.id != name]
            return ChangeResult.of(change, APPLIED)
        if name in self.ending:
            raise _Refusal(f"query {name!r} is being dropped already, at {self.ending[name][0]}")
        prepared = self._catalog.prepared.get(name)
        if prepared is None and name not in self._catalog.queries:
            raise _Refusal(f"there is no query {name!r}")
        template = prepared.template if prepared else self._catalog.queries[name].template
        unit = template.outputs[-1].node.unit
        death = self._moment(change, unit, shard)
        self._catalog.remove_query(name)
        self._templates.setdefault(name, template)
        self.ending[name] = (death, unit)
        if prepared is not None or name in self._pending_adds or shard.knows(name):
            self._pending_drops.add(name, death)
        return ChangeResult.of(change, APPLIED, unit=unit, time=_reached(death))

    def _moment(self, change: Change, unit: str, shard: Shard) -> int:
        """The event time of a change; without one, where time stands.

        That is the time which the last committed batch has reached, and not the one that the batch
        at hand will reach: how far that comes depends on which streams are idle, and so on when it
        is run.
        """
        if change.at is None:
            return shard.bound(unit)
        if change.timed and unit != MICROSECONDS:
            raise _Refusal("at is a timestamp, and the streams of the query count ticks")
        bound = shard.bound(unit)
        if change.at < bound:
            raise _Refusal(f"at is in the past: events up to {bound} have been answered")
        return change.at

    def _check_free(self, name: str) -> None:
        if name in self.ending:
            raise _Refusal(
                f"there is a query {name!r} until it is dropped at {self.ending[name][0]}"
            )
        if any(waiting.id == name for waiting in self.waiting):
            raise _Refusal(f"there is a query {name!r} already: it waits for a restart")

    def _check_streams_free(self, template: Template) -> None:
        for name in self.ending:
            ending = self._templates.get(name)
            both = set(template.publishes) & set(ending.publishes if ending is not None else ())
            if both:
                raise _Refusal(f"query {name!r} publishes {min(both)!r} until it is dropped")

    def _placed(self, query: Query, placement: Placement) -> Query:
        template = self._renamer.template(query.template, placement.routes)
        return Query.of(query.id, query.text, template, query.values)

    def _runs_here(self, placement: Placement) -> bool:
        return placement.shard in (None, self._number)

    def _floor_of(self, placement: Placement) -> int:
        names = {name for routes in placement.routes for name in routes}
        floors = (self._floors.get(_floor(n, placement.shard), NEVER) for n in names)
        return max(floors, default=NEVER)

    def remove_expired(self, shard: Shard) -> None:
        """Remove the queries whose death has been reached."""
        over = [n for n, (death, unit) in self.ending.items() if death <= shard.bound(unit)]
        for name in over:
            del self.ending[name]
            template = self._templates.pop(name, None)
            if template is not None:
                self._live_placement.remove(template)
            if name in self.added:
                self._forget(name)
            else:
                self.dropped[name] = None

    # ---- state ----

    def _record_added(self, name: str, added: Added) -> None:
        self.added[name] = added
        self._segments.setdefault(added.segment, {})[name] = added
        self._changed.add(added.segment)
        self._next += 1

    def _forget(self, name: str) -> None:
        added = self.added.pop(name)
        del self._segments[added.segment][name]
        self._changed.add(added.segment)

    def save(self) -> tuple[dict[str, bytes], list[str]]:
        """The pages that changed, and those that are gone."""
        puts: dict[str, bytes] = {}
        removals: list[str] = []
        for number in sorted(self._changed):
            held = self._segments.get(number)
            if held:
                puts[f"{ADDED}{number}"] = _packed([[n, *a.to_json()] for n, a in held.items()])
            else:
                self._segments.pop(number, None)
                removals.append(f"{ADDED}{number}")
        self._changed = set()
        page = _packed(
            {
                "next": self._next,
                "floors": self._floors,
                "dying": self.ending,
                "dead": list(self.dropped),
                "waiting": [change.to_json() for change in self.waiting],
            }
        )
        if page != self._saved:
            puts[PAGE] = self._saved = page
        return puts, removals

    def _read(self, pages: Mapping[str, bytes]) -> None:
        self._saved = pages[PAGE]
        saved = json.loads(zlib.decompress(self._saved))
        self._next = saved["next"]
        self._floors = saved["floors"]
        self.ending = {name: (death, unit) for name, (death, unit) in saved["dying"].items()}
        self.dropped = dict.fromkeys(saved["dead"])
        self.waiting = [Change(**change) for change in saved["waiting"]]
        numbers = sorted(int(k.removeprefix(ADDED)) for k in pages if k.startswith(ADDED))
        for number in numbers:
            for name, *data in json.loads(zlib.decompress(pages[f"{ADDED}{number}"])):
                self.added[name] = Added.from_json(data, number)
                self._segments.setdefault(number, {})[name] = self.added[name]


class _PendingAdds:
    """Queries to add, grouped by template and birth, in the order of templates."""

    def __init__(self) -> None:
        self._queries: dict[str, tuple[Query, int]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._queries

    def add(self, query: Query, birth: int) -> None:
        self._queries[query.id] = (query, birth)

    def flush(self, shard: Shard) -> None:
        groups: dict[tuple[Template, int], list[Query]] = {}
        for query, birth in self._queries.values():
            groups.setdefault((query.template, birth), []).append(query)
        added = []
        for (_, birth), queries in groups.items():
            (members,) = members_of(queries)
            # As after a restart: a query by itself may be inlined by those that read it.
            single = len(queries) == 1 and "/" not in queries[0].id
            added.append(NewQueries(members, np.full(len(members), birth, np.int64), single))
        if added:
            shard.add_all(added)
        self._queries = {}


class _PendingDrops:
    """Queries to drop, grouped by death."""

    def __init__(self) -> None:
        self._names: dict[int, list[str]] = {}

    def add(self, name: str, death: int) -> None:
        self._names.setdefault(death, []).append(name)

    def flush(self, shard: Shard) -> None:
        for death, names in self._names.items():
            shard.drop(names, death)
        self._names = {}


def _refuse(change: Change, reason: str, outcome: Outcome) -> None:
    outcome.refused.append((change, reason))
    outcome.taken.append(ChangeResult.of(change, REFUSED, reason=reason))


def _reached(time: int) -> int | None:
    """The time of a change as users see it; None: from the beginning."""
    return None if time == NEVER else time


def _packed(value: Any) -> bytes:
    return zlib.compress(json.dumps(value).encode(), 1)


def _floor(name: str, shard: int | None) -> str:
    """`Stock@*` begins on each shard by itself."""
    return f"{name}#{shard}" if split_channel(name)[1] == "*" else name


def _after(shard: Shard, unit: str) -> int:
    """The first time that no event so far has reached."""
    highest = shard.highest(unit)
    return NEVER if highest is None else highest + 1


def split_pages(pages: dict[str, bytes]) -> dict[str, bytes]:
    """Take the pages of `Live` out of a shard's."""
    own: Iterable[str] = [name for name in pages if name == PAGE or name.startswith(ADDED)]
    return {name: pages.pop(name) for name in own}
