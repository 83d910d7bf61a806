"""Distribution: decides which queries are split by a key, which run anywhere, which stay whole.

Queries that are linked by what they publish and read form a *component*, the unit of
placement. A component is

- `spread` if it has no state: each event goes to any shard, once;
- `keyed` if its streams can be routed by attributes so that no pattern is torn apart
  (`distribution/keys.py` says when): it runs on every shard, each with its share of the events;
- `whole` otherwise: it lives on one shard, which gets all events of its streams. Many queries of
  one template that publish nothing need not live together: they are split over the shards by
  their ids, and every shard gets all events.

Nothing here is done for each query: it is decided for templates, whose queries are `Members`.
State lives where events were sent, so a placement, once used, is kept: `distribute` takes the
placements of an earlier run and leaves those queries where they are, or refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from braid.algebra.queries import Query, members_of
from braid.algebra.streams import Stream
from braid.algebra.templates import Members, Template
from braid.distribution.document_routes import is_value_route, shown_route, value_routes
from braid.distribution.keys import (
    SPREAD,
    WHOLE,
    Router,
    channel,
    correlating,
    is_stateless,
    leaves,
    split_channel,
)
from braid.distribution.placement import (
    KEYED_MODE,
    SPREAD_MODE,
    WHOLE_MODE,
    Component,
    Distribution,
    EarlierPlacements,
    LeafRoutes,
    Placement,
    Routes,
    ShardPlan,
    Standing,
    channels_for,
    explain,
)
from braid.distribution.routing_options import Option, Unkeyable
from braid.errors import CheckpointError

__all__ = [
    "Component",
    "Distribution",
    "EarlierPlacements",
    "Placement",
    "Routes",
    "ShardPlan",
    "Standing",
    "channels_for",
    "distribute",
    "explain",
    "linked",
]

Linked = TypeVar("Linked", Query, Members)

#: How many choices the search for a consistent routing of a component may try.
MAX_STEPS = 10_000


def distribute(
    queries: Sequence[Query] | Sequence[Members],
    streams: Mapping[str, Stream],
    shards: int,
    kept: EarlierPlacements | None = None,
    standing: frozenset[Standing] = frozenset(),
) -> Distribution:
    """Place queries; those in `kept` stay where they are, or it is a `CheckpointError`."""
    planner = _Planner(_grouped(queries), shards, kept or EarlierPlacements.of(()))
    return Distribution(dict(streams), planner.components(), shards, standing)


def _grouped(queries: Sequence[Query] | Sequence[Members]) -> list[Members]:
    alone = [q for q in queries if isinstance(q, Query)]
    return members_of(alone) + [q for q in queries if isinstance(q, Members)]


def linked(queries: Sequence[Linked]) -> list[tuple[Linked, ...]]:
    """The connected components, in the order of their first queries."""
    found = _linked([query.template for query in queries])
    return [tuple(queries[i] for i in group) for group in found]


def _linked(templates: Sequence[Template]) -> list[list[int]]:
    publishers: dict[str, list[int]] = {}
    for i, template in enumerate(templates):
        for name in template.publishes:
            publishers.setdefault(name, []).append(i)
    parent = list(range(len(templates)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    def link(i: int, j: int) -> None:
        a, b = sorted((root(i), root(j)))
        parent[b] = a

    for i, template in enumerate(templates):
        for name in template.reads:
            for other in publishers.get(name, ()):
                link(i, other)
    for same in publishers.values():
        for other in same[1:]:
            link(same[0], other)
    found: dict[int, list[int]] = {}
    for i in range(len(templates)):
        found.setdefault(root(i), []).append(i)
    return list(found.values())


@dataclass
class _Draft:
    """A component whose placement is being decided; `kept` says where each group was."""

    groups: tuple[Members, ...]
    kept: tuple[Placement | None, ...]
    mode: str = ""
    reason: str = ""
    routes: tuple[LeafRoutes, ...] = ()
    shard: int | None = None

    def finished(self) -> Component:
        return Component(self.groups, self.mode, self.reason, self.routes, self.shard)

    @property
    def templates(self) -> tuple[Template, ...]:
        return tuple(group.template for group in self.groups)

    @property
    def can_split(self) -> bool:
        """Whether its queries need not live together."""
        return len(self.groups) == 1 and not self.templates[0].publishes


class _Planner:
    """Keyed components first: the others can then ride on the channels that exist."""

    def __init__(self, groups: Sequence[Members], shards: int, kept: EarlierPlacements) -> None:
        parts = [part for members in groups for part in kept.split(members)]
        self._drafts = [
            _Draft(tuple(parts[i][0] for i in found), tuple(parts[i][1] for i in found))
            for found in _linked([members.template for members, _ in parts])
        ]
        self._shards = shards
        self._preferred = _preferred(groups)
        self._values = value_routes(groups)
        # Templates that are other names of one are routed alike: once.
        self._decided: dict[tuple[int, Placement | None], _Draft] = {}

    def components(self) -> tuple[Component, ...]:
        for draft in self._drafts:
            self._place(draft)
        used = Counter(
            name for d in self._drafts if d.mode == KEYED_MODE for name in d.finished().channels
        )
        load = Counter(d.shard for d in self._drafts if d.shard is not None)
        best = _best_channels(used)
        for draft in self._drafts:
            if draft.mode == SPREAD_MODE:
                draft.routes = _spread_routes(draft, best)
            elif draft.mode == WHOLE_MODE and draft.shard is None and not self._is_split(draft):
                draft.shard = min(range(self._shards), key=lambda k: (load[k], k))
                load[draft.shard] += 1
        return tuple(draft.finished() for draft in self._drafts)

    @staticmethod
    def _is_split(draft: _Draft) -> bool:
        if any(p is not None and p.is_split for p in draft.kept):
            return True
        return draft.can_split and len(draft.groups[0]) > 1

    def _place(self, draft: _Draft) -> None:
        if len(draft.groups) > 1:
            self._decide(draft)
            return
        (template,), (kept,) = draft.templates, draft.kept
        key = (id(template.base or template), kept)
        known = self._decided.get(key)
        if known is None:
            self._decide(draft)
            self._decided[key] = draft
            return
        draft.mode, draft.reason, draft.routes = known.mode, known.reason, known.routes
        draft.shard = kept.shard if kept is not None else None

    def _decide(self, draft: _Draft) -> None:
        kept = [p for p in draft.kept if p is not None]
        templates = draft.templates
        if any(p.mode == WHOLE_MODE for p in kept):
            self._stay_whole(draft, kept)
            return
        stateless = all(is_stateless(o.node) for t in templates for o in t.outputs)
        if stateless and all(p.mode == SPREAD_MODE for p in kept):
            draft.mode, draft.reason = SPREAD_MODE, "no query in it has state"
            return
        try:
            fixed = [p.routes if p is not None else None for p in draft.kept]
            draft.routes = search(templates, fixed, self._router)
        except Unkeyable as refusal:
            if kept:
                raise _moved(draft, f"now they cannot be keyed: {refusal}") from None
            draft.mode, draft.reason = WHOLE_MODE, str(refusal)
            draft.routes = whole_routes(templates)
            return
        draft.mode = KEYED_MODE
        names = draft.finished().channels
        routes = map(split_channel, names)
        draft.reason = ", ".join(f"{stream} by {shown_route(route)}" for stream, route in routes)

    def _router(self, known: Mapping[str, frozenset[str]]) -> Router:
        return Router(known, self._preferred, values=self._values)

    def _stay_whole(self, draft: _Draft, kept: Sequence[Placement]) -> None:
        places = {(p.mode, p.shard) for p in kept}
        if len(places) > 1:
            raise _moved(draft, "now they are linked and must run on one shard")
        ((_, shard),) = places
        if shard is None and not draft.can_split:
            raise _moved(draft, "now they are linked and must run on one shard")
        draft.mode, draft.reason, draft.shard = WHOLE_MODE, "as in the checkpoint", shard
        draft.routes = whole_routes(draft.templates)


def _preferred(groups: Sequence[Members]) -> dict[str, int]:
    """Attributes by how many queries relate events by them."""
    counts: Counter[str] = Counter()
    named: dict[int, list[str]] = {}
    for group in groups:
        base = group.template.base or group.template
        if id(base) not in named:
            named[id(base)] = [n for o in base.outputs for n in correlating(o.node)]
        for name in named[id(base)]:
            counts[name] += max(1, len(group))
    return {name: rank for rank, (name, _) in enumerate(counts.most_common())}


# ---- routes of a component ----

_Place = tuple[int, int]


def search(
    templates: Sequence[Template],
    fixed: Sequence[LeafRoutes | None],
    router: Callable[[Mapping[str, frozenset[str]]], Router],
    published: Mapping[str, frozenset[str]] | None = None,
) -> tuple[LeafRoutes, ...]:
    """A routing of all outputs that agrees on the published streams, by backtracking.

    Outputs are taken in an order in which each reads earlier ones only. Choosing an option for
    a published output fixes what is located in its events for those that read it. `published`:
    what is located in streams of others. Raises `Unkeyable`.
    """
    search_ = _Search(templates, dict(published or {}))
    refusal = Unkeyable("its queries need different routes of one stream")
    for _ in range(MAX_STEPS + len(search_.order)):
        if search_.is_done:
            return search_.routes()
        template, index = search_.next
        routes = fixed[template]
        output = templates[template].outputs[index]
        try:
            options = router(search_.published).options(
                output.node, routes[index] if routes else None
            )
        except Unkeyable as reason:
            refusal = reason
            if not search_.back():
                raise refusal from None
            continue
        # Nobody depends on the choice for an output that is not read.
        search_.choose(options if output.publish in search_.read else options[:1])
    raise Unkeyable("the search for its routes was too long")


class _Search:
    """Choices made so far, and what is located in published streams because of them."""

    def __init__(self, templates: Sequence[Template], published: dict[str, frozenset[str]]) -> None:
        self._templates = templates
        self.order = _dependency_order(templates)
        self.read = {name for template in templates for name in template.reads}
        self.published = published
        self._given = dict(published)
        self._chosen: list[tuple[list[Option], int]] = []

    @property
    def is_done(self) -> bool:
        return len(self._chosen) == len(self.order)

    @property
    def next(self) -> _Place:
        return self.order[len(self._chosen)]

    def choose(self, options: list[Option], at: int = 0) -> None:
        self._chosen.append((options, at))
        self._locate(len(self._chosen) - 1)

    def _locate(self, position: int) -> None:
        name = self._name(position)
        if name is not None:
            # Several groups may publish into one stream: what is located in all of them.
            options, at = self._chosen[position]
            located = options[at].located
            self.published[name] = located & self.published.get(name, located)

    def back(self) -> bool:
        """Take back choices up to the last one that had an alternative, and take that."""
        while self._chosen:
            options, at = self._chosen.pop()
            if at + 1 < len(options):
                self._chosen.append((options, at + 1))
                self.published = dict(self._given)
                for position in range(len(self._chosen)):
                    self._locate(position)
                return True
        return False

    def _name(self, position: int) -> str | None:
        template, index = self.order[position]
        return self._templates[template].outputs[index].publish

    def routes(self) -> tuple[LeafRoutes, ...]:
        found = {
            place: options[at].leaves
            for place, (options, at) in zip(self.order, self._chosen, strict=True)
        }
        return tuple(
            tuple(found[t, i] for i in range(len(template.outputs)))
            for t, template in enumerate(self._templates)
        )


def _dependency_order(templates: Sequence[Template]) -> list[_Place]:
    """The outputs of all templates, publishers before readers (cycles were refused earlier)."""
    publishers: dict[str, list[_Place]] = {}
    for t, template in enumerate(templates):
        for i, output in enumerate(template.outputs):
            if output.publish is not None:
                publishers.setdefault(output.publish, []).append((t, i))
    order: dict[_Place, None] = {}
    waiting = [
        (t, i)
        for t in reversed(range(len(templates)))
        for i in reversed(range(len(templates[t].outputs)))
    ]
    while waiting:
        number, index = waiting[-1]
        missing = [
            place
            for read in leaves(templates[number].outputs[index].node)
            for place in publishers.get(read.stream, ())
            if place not in order
        ]
        if missing:
            waiting.extend(missing)
        else:
            order[waiting.pop()] = None
    return list(order)


def _best_channels(used: Counter[str]) -> dict[str, str]:
    """For each stream the keyed channel that most components read."""
    found: dict[str, str] = {}
    for name, _ in used.most_common():
        stream, route = split_channel(name)
        if not is_value_route(route):  # a document may come by several shards, or none
            found.setdefault(stream, name)
    return found


def _spread_routes(draft: _Draft, best: Mapping[str, str]) -> tuple[LeafRoutes, ...]:
    """Ride on a keyed channel of the stream if there is one: it has each event once."""
    own = {name for template in draft.templates for name in template.publishes}

    def route(stream: str) -> str:
        return stream if stream in own else best.get(stream, channel(stream, SPREAD))

    return tuple(
        kept.routes
        if kept is not None
        else tuple(tuple(route(r.stream) for r in leaves(o.node)) for o in template.outputs)
        for template, kept in zip(draft.templates, draft.kept, strict=True)
    )


def whole_routes(
    templates: Sequence[Template], published: Mapping[str, object] | None = None
) -> tuple[LeafRoutes, ...]:
    """Every declared stream as a whole; `published` are streams of others."""
    own = {name for template in templates for name in template.publishes} | set(published or ())
    return tuple(
        tuple(
            tuple(r.stream if r.stream in own else channel(r.stream, WHOLE) for r in leaves(o.node))
            for o in template.outputs
        )
        for template in templates
    )


def _moved(draft: _Draft, why: str) -> CheckpointError:
    old, new = [], []
    for members, placement in zip(draft.groups, draft.kept, strict=True):
        names = members.ids.slice(0, 5).to_pylist()
        if placement is None:
            new += [f"'{name}'" for name in names]
        else:
            old += [f"'{name}' ({_shown(placement)})" for name in names]
    added = f" with {', '.join(new[:5])} added" if new else ""
    return CheckpointError(
        "E414",
        f"the checkpoint has the state of {', '.join(sorted(old)[:5])} where it was routed;"
        f"{added} {why}",
        "start with a new checkpoint directory, or leave out what links these queries",
    )


def _shown(placement: Placement) -> str:
    if placement.is_split:
        return "whole, by its id"
    if placement.mode == WHOLE_MODE:
        return f"whole on shard {placement.shard}"
    channels = dict.fromkeys(name for routes in placement.routes for name in routes)
    return f"{placement.mode}, reading {', '.join(channels)}"
