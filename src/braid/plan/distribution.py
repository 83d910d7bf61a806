"""Where queries run: which can be split by a key, which can go anywhere, which stay whole.

Queries that are linked by what they publish and read form a *component*, the unit of
placement. A component is

- `spread` if it has no state: each event goes to any shard, once;
- `keyed` if its streams can be routed by attributes so that no pattern is torn apart
  (`plan/keys.py` says when): it runs on every shard, each with its share of the events;
- `whole` otherwise: it lives on one shard, which gets all events of its streams.

A shard reads *channels*: a stream by one route, such as `Stock@Name` (routed by the hash of
Name), `Stock@?` (each event to some shard) or `Stock@*` (all events, to the shards that need
them). `channels_for` gives a shard its queries with every `Read` of a declared stream renamed
to its channel.

State lives where events were sent, so a placement, once used, is kept: `distribute` takes the
placements of an earlier run and leaves those queries where they are, or refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from braid.algebra import nodes as algebra
from braid.algebra.nodes import Iterate, Node, Project, Read, SameTime, Select, Union
from braid.algebra.queries import Output, Query
from braid.algebra.streams import Stream
from braid.errors import CheckpointError
from braid.plan.keys import (
    SPREAD,
    WHOLE,
    Option,
    Router,
    Unkeyable,
    channel,
    correlating,
    is_stateless,
    leaves,
    split_channel,
)

KEYED_MODE = "keyed"
SPREAD_MODE = "spread"
WHOLE_MODE = "whole"

#: How many choices the search for a consistent routing of a component may try.
MAX_STEPS = 10_000


@dataclass(frozen=True)
class Placement:
    """Where one query runs: for each of its outputs the channels of the leaves, in order."""

    mode: str
    routes: tuple[tuple[str, ...], ...]
    shard: int | None = None


@dataclass(frozen=True)
class Component:
    """Queries that run together, and why they run as they do."""

    queries: tuple[Query, ...]
    mode: str
    reason: str
    routes: tuple[tuple[tuple[str, ...], ...], ...]
    shard: int | None = None

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels of declared streams that the component reads."""
        own = {name for query in self.queries for name in query.publishes}
        names = (name for query in self.routes for output in query for name in output)
        return tuple(dict.fromkeys(name for name in names if name not in own))


@dataclass(frozen=True)
class Routes:
    """What ingest does with the events of one stream."""

    keys: tuple[str, ...]
    spread: bool
    whole: tuple[int, ...]
    #: The one channel whose late events are shown: an event may come by several.
    primary: str


@dataclass(frozen=True)
class Distribution:
    """All components of a set of queries over a number of shards."""

    streams: Mapping[str, Stream]
    components: tuple[Component, ...]
    shards: int

    @property
    def is_stateless(self) -> bool:
        return all(c.mode == SPREAD_MODE for c in self.components)

    @cached_property
    def placements(self) -> dict[str, Placement]:
        return {
            query.id: Placement(c.mode, routes, c.shard)
            for c in self.components
            for query, routes in zip(c.queries, c.routes, strict=True)
        }

    @cached_property
    def read_streams(self) -> tuple[str, ...]:
        """The declared streams that some query reads; time is the earliest of theirs."""
        used = {split_channel(name)[0] for c in self.components for name in c.channels}
        return tuple(name for name in self.streams if name in used)

    @cached_property
    def routes(self) -> dict[str, Routes]:
        """How the events of each stream that is read are sent."""
        return {name: self._routes(name) for name in self.read_streams}

    def _routes(self, stream: str) -> Routes:
        keys: dict[str, None] = {}
        spread = False
        whole: set[int] = set()
        for component in self.components:
            for name in component.channels:
                base, route = split_channel(name)
                if base != stream:
                    continue
                if route == WHOLE:
                    assert component.shard is not None
                    whole.add(component.shard)
                elif route == SPREAD:
                    spread = True
                else:
                    keys[route] = None
        chosen = next(iter(keys)) if keys else SPREAD if spread else WHOLE
        return Routes(tuple(keys), spread, tuple(sorted(whole)), channel(stream, chosen))

    def shows_late(self, shard: int, name: str) -> bool:
        """Whether late events that `shard` gets by the channel `name` go to the late output."""
        routes = self.routes[split_channel(name)[0]]
        if name != routes.primary:
            return False
        return split_channel(name)[1] != WHOLE or shard == routes.whole[0]


@dataclass(frozen=True)
class ShardPlan:
    """What one shard runs; the arguments of `engine.shard.Shard`."""

    queries: tuple[Query, ...]
    streams: dict[str, Stream]
    channels: dict[str, str]


def channels_for(distribution: Distribution, shard: int) -> ShardPlan:
    """The queries of one shard, reading channels.

    `streams` are all that any query reads, also if this shard gets none of their events: time
    must be the same on every shard, so that they agree on what is late.
    """
    queries: list[Query] = []
    channels: dict[str, str] = {}
    for component in distribution.components:
        if component.shard not in (None, shard):
            continue
        for query, routes in zip(component.queries, component.routes, strict=True):
            queries.append(_with_channels(query, routes))
        channels.update((name, split_channel(name)[0]) for name in component.channels)
    streams = {name: distribution.streams[name] for name in distribution.read_streams}
    return ShardPlan(tuple(queries), streams, channels)


def _with_channels(query: Query, routes: tuple[tuple[str, ...], ...]) -> Query:
    outputs = tuple(
        Output(_rename(output.node, iter(names)), output.publish)
        for output, names in zip(query.outputs, routes, strict=True)
    )
    return Query(query.id, query.text, outputs)


def _rename(node: Node, names: Iterator[str]) -> Node:
    match node:
        case Read():
            return replace(node, stream=next(names))
        case Select():
            return replace(node, input=_rename(node.input, names))
        case Project():
            return replace(node, input=_rename(node.input, names))
        case SameTime():
            return replace(node, input=_rename(node.input, names))
        case Union():
            first = _rename(node.first, names)
            return replace(node, first=first, second=_rename(node.second, names))
        case algebra.Sequence():
            first = _rename(node.first, names)
            return replace(node, first=first, second=_rename(node.second, names))
        case Iterate():
            first = _rename(node.first, names)
            return replace(node, first=first, second=_rename(node.second, names))


def distribute(
    queries: Sequence[Query],
    streams: Mapping[str, Stream],
    shards: int,
    kept: Mapping[str, Placement] | None = None,
) -> Distribution:
    """Place queries; those in `kept` stay where they are, or it is a `CheckpointError`."""
    kept = kept or {}
    planner = _Planner(queries, shards, kept)
    return Distribution(dict(streams), planner.components(), shards)


def linked(queries: Sequence[Query]) -> list[tuple[Query, ...]]:
    """The connected components, in the order of their first queries."""
    publisher = {name: i for i, query in enumerate(queries) for name in query.publishes}
    parent = list(range(len(queries)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, query in enumerate(queries):
        for name in query.reads:
            if name in publisher:
                a, b = sorted((root(i), root(publisher[name])))
                parent[b] = a
    groups: dict[int, list[Query]] = {}
    for i, query in enumerate(queries):
        groups.setdefault(root(i), []).append(query)
    return [tuple(group) for group in groups.values()]


@dataclass
class _Draft:
    """A component whose placement is being decided."""

    queries: tuple[Query, ...]
    mode: str = ""
    reason: str = ""
    routes: tuple[tuple[tuple[str, ...], ...], ...] = ()
    shard: int | None = None

    def finished(self) -> Component:
        return Component(self.queries, self.mode, self.reason, self.routes, self.shard)


class _Planner:
    """Keyed components first: the others can then ride on the channels that exist."""

    def __init__(
        self, queries: Sequence[Query], shards: int, kept: Mapping[str, Placement]
    ) -> None:
        self._groups = linked(queries)
        self._shards = shards
        self._kept = kept
        counts = Counter(n for q in queries for o in q.outputs for n in correlating(o.node))
        self._preferred = {name: rank for rank, (name, _) in enumerate(counts.most_common())}

    def components(self) -> tuple[Component, ...]:
        drafts = [self._place(group) for group in self._groups]
        used = Counter(
            name for d in drafts if d.mode == KEYED_MODE for name in d.finished().channels
        )
        load = Counter(d.shard for d in drafts if d.shard is not None)
        for draft in drafts:
            if draft.mode == SPREAD_MODE:
                draft.routes = self._spread_routes(draft.queries, used)
            elif draft.mode == WHOLE_MODE and draft.shard is None:
                draft.shard = min(range(self._shards), key=lambda k: (load[k], k))
                load[draft.shard] += 1
        return tuple(draft.finished() for draft in drafts)

    def _place(self, queries: tuple[Query, ...]) -> _Draft:
        kept = {q.id: self._kept[q.id] for q in queries if q.id in self._kept}
        homes = {p.shard for p in kept.values() if p.mode == WHOLE_MODE}
        if homes:
            return self._stay_whole(queries, kept)
        stateless = all(is_stateless(o.node) for q in queries for o in q.outputs)
        if stateless and all(p.mode == SPREAD_MODE for p in kept.values()):
            return _Draft(queries, SPREAD_MODE, "no query in it has state")
        try:
            routes = self._search(queries, {i: p.routes for i, p in kept.items()})
        except Unkeyable as refusal:
            if kept:
                raise _moved(queries, kept, f"now they cannot be keyed: {refusal}") from None
            return _Draft(queries, WHOLE_MODE, str(refusal), _whole_routes(queries))
        names = _Draft(queries, KEYED_MODE, "", routes).finished().channels
        shown = ", ".join(f"{s} by {r}" for s, r in map(split_channel, names))
        return _Draft(queries, KEYED_MODE, shown, routes)

    def _stay_whole(self, queries: tuple[Query, ...], kept: Mapping[str, Placement]) -> _Draft:
        places = {(p.mode, p.shard) for p in kept.values()}
        if len(places) > 1:
            raise _moved(queries, kept, "now they are linked and must run on one shard")
        ((_, shard),) = places
        return _Draft(queries, WHOLE_MODE, "as in the checkpoint", _whole_routes(queries), shard)

    def _search(
        self, queries: tuple[Query, ...], fixed: Mapping[str, tuple[tuple[str, ...], ...]]
    ) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """A routing of all outputs that agrees on the published streams, by backtracking.

        Outputs are taken in an order in which each reads earlier ones only. Choosing an option
        for a published output fixes what is located in its events for those that read it.
        """
        order = _dependency_order(queries)
        read = {name for query in queries for name in query.reads}
        chosen: list[tuple[list[Option], int]] = []
        published: dict[str, frozenset[str]] = {}
        refusal = Unkeyable("its queries need different routes of one stream")
        for _ in range(MAX_STEPS + len(order)):
            if len(chosen) == len(order):
                return _by_query(queries, order, chosen)
            query, index = order[len(chosen)]
            output = query.outputs[index]
            routes = fixed.get(query.id)
            try:
                router = Router(published, self._preferred)
                options = router.options(output.node, routes[index] if routes else None)
                # Nobody depends on the choice for an output that is not read.
                chosen.append((options if output.publish in read else options[:1], 0))
            except Unkeyable as reason:
                refusal = reason
                _backtrack(order, chosen, published)
                if not chosen:
                    raise refusal from None
            options, at = chosen[-1]
            _publish(order, chosen, published, options[at])
        raise Unkeyable("too many ways to route it were tried")

    def _spread_routes(
        self, queries: tuple[Query, ...], used: Counter[str]
    ) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """Ride on a keyed channel of the stream if there is one: it has each event once."""
        own = {name for query in queries for name in query.publishes}

        def route(stream: str) -> str:
            if stream in own:
                return stream
            keyed = [name for name in used if split_channel(name)[0] == stream]
            return max(keyed, key=lambda n: used[n]) if keyed else channel(stream, SPREAD)

        return tuple(
            self._kept[query.id].routes
            if query.id in self._kept
            else tuple(tuple(route(r.stream) for r in leaves(o.node)) for o in query.outputs)
            for query in queries
        )


def _publish(
    order: list[tuple[Query, int]],
    chosen: list[tuple[list[Option], int]],
    published: dict[str, frozenset[str]],
    option: Option,
) -> None:
    query, index = order[len(chosen) - 1]
    name = query.outputs[index].publish
    if name is not None:
        published[name] = option.located


def _backtrack(
    order: list[tuple[Query, int]],
    chosen: list[tuple[list[Option], int]],
    published: dict[str, frozenset[str]],
) -> None:
    """Take back choices up to the last one that had an alternative, and take that."""
    while chosen:
        query, index = order[len(chosen) - 1]
        published.pop(query.outputs[index].publish or "", None)
        options, at = chosen.pop()
        if at + 1 < len(options):
            chosen.append((options, at + 1))
            return


def _by_query(
    queries: tuple[Query, ...],
    order: list[tuple[Query, int]],
    chosen: list[tuple[list[Option], int]],
) -> tuple[tuple[tuple[str, ...], ...], ...]:
    found = {
        (query.id, index): options[at].leaves
        for (query, index), (options, at) in zip(order, chosen, strict=True)
    }
    return tuple(tuple(found[q.id, i] for i in range(len(q.outputs))) for q in queries)


def _dependency_order(queries: tuple[Query, ...]) -> list[tuple[Query, int]]:
    """The outputs of all queries, publishers before readers (cycles were refused earlier)."""
    publisher = {o.publish: (q, i) for q in queries for i, o in enumerate(q.outputs) if o.publish}
    order: dict[tuple[str, int], tuple[Query, int]] = {}
    waiting = [(q, i) for q in reversed(queries) for i in reversed(range(len(q.outputs)))]
    while waiting:
        query, index = waiting[-1]
        needed = [
            publisher[read.stream]
            for read in leaves(query.outputs[index].node)
            if read.stream in publisher
        ]
        missing = [(q, i) for q, i in needed if (q.id, i) not in order]
        if missing:
            waiting.extend(missing)
        else:
            order.setdefault((query.id, index), waiting.pop())
    return list(order.values())


def _whole_routes(queries: tuple[Query, ...]) -> tuple[tuple[tuple[str, ...], ...], ...]:
    own = {name for query in queries for name in query.publishes}
    return tuple(
        tuple(
            tuple(r.stream if r.stream in own else channel(r.stream, WHOLE) for r in leaves(o.node))
            for o in query.outputs
        )
        for query in queries
    )


def _moved(queries: tuple[Query, ...], kept: Mapping[str, Placement], why: str) -> CheckpointError:
    old = ", ".join(f"'{name}' ({_shown(p)})" for name, p in sorted(kept.items())[:5])
    new = [f"'{q.id}'" for q in queries if q.id not in kept]
    added = f" with {', '.join(new[:5])} added" if new else ""
    return CheckpointError(
        "E414",
        f"the checkpoint has the state of {old} where it was routed;{added} {why}",
        "start with a new checkpoint directory, or leave out what links these queries",
    )


def _shown(placement: Placement) -> str:
    if placement.mode == WHOLE_MODE:
        return f"whole on shard {placement.shard}"
    channels = dict.fromkeys(name for routes in placement.routes for name in routes)
    return f"{placement.mode}, reading {', '.join(channels)}"


def explain(distribution: Distribution) -> str:
    """The placement of every component in words, for people."""
    lines = [f"{distribution.shards} shards, {len(distribution.components)} components"]
    for component in distribution.components:
        names = [query.id for query in component.queries]
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        where = f" on shard {component.shard}" if component.shard is not None else ""
        lines.append(f"  {component.mode}{where}: {shown}")
        word = {KEYED_MODE: "keyed: ", WHOLE_MODE: "not keyed: "}.get(component.mode, "")
        lines.append(f"    {word}{component.reason}")
        lines.append(f"    reads {', '.join(component.channels)}")
    return "\n".join(lines)
