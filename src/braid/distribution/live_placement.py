"""Live placement: finds a place for a query that is added while the pipeline runs.

The routes are fixed when the pipeline starts. A new query can be keyed by attributes that events
are already routed by, read any channel if it has no state, or run whole on a shard that gets all
events. If it needs another route, `PlacementRefused` names the route, and the pipeline is restarted
with it. The placement depends only on the routes and the registered queries, so all shards agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from braid.algebra.templates import Template
from braid.distribution.distribution import search, whole_routes
from braid.distribution.hashing import shard_of
from braid.distribution.keys import SPREAD, WHOLE, Router, channel, is_stateless, split_channel
from braid.distribution.placement import (
    KEYED_MODE,
    SPREAD_MODE,
    WHOLE_MODE,
    Distribution,
    LeafRoutes,
    Placement,
    Standing,
)
from braid.distribution.routing_options import Unkeyable


class PlacementRefused(Exception):
    """The reason why a query has no place. `wanted` are the channels that it needs; empty if no
    route helps."""

    def __init__(self, reason: str, wanted: Iterable[Standing] = ()) -> None:
        super().__init__(reason)
        self.wanted = tuple(wanted)


@dataclass(frozen=True)
class _PublishedAt:
    """Where the events of a published stream are, and by which attributes."""

    mode: str
    shard: int | None
    located: frozenset[str]


class LivePlacement:
    """Places queries on the routes of a distribution, and tracks where streams are published."""

    def __init__(self, distribution: Distribution) -> None:
        self._routes = distribution.routes
        self._shards = distribution.shards
        self._published: dict[str, _PublishedAt] = {}
        self._constants: tuple[pa.Array, ...] = ()
        for members, placement in distribution.placed():
            self.add(members.template, placement)

    def add(self, template: Template, placement: Placement) -> None:
        """Record where a query publishes its streams."""
        for output, routes in zip(template.outputs, placement.routes, strict=True):
            if output.publish is None:
                continue
            located: frozenset[str] = frozenset()
            if placement.mode != WHOLE_MODE:
                located = Router(self._located(), {}).options(output.node, routes)[0].located
            known = self._published.get(output.publish)
            if known is not None:
                located &= known.located
            self._published[output.publish] = _PublishedAt(placement.mode, placement.shard, located)

    def remove(self, template: Template) -> None:
        for name in template.publishes:
            self._published.pop(name, None)

    def are_filled(self, placement: Placement, published: Iterable[str]) -> bool:
        """Whether all channels of a placement are still filled."""
        own = set(published) | set(self._published)
        names = {n for routes in placement.routes for n in routes if n not in own}
        return all(self._is_filled(name, placement.shard) for name in names)

    def place(self, query_id: str, template: Template, constants: Sequence[Any] = ()) -> Placement:
        """Place a query; raises `PlacementRefused`."""
        pairs = zip(constants, template.types, strict=False)
        self._constants = tuple(pa.array([value], type_) for value, type_ in pairs)
        read = [name for name in template.reads if name not in template.publishes]
        homes = {self._published[name] for name in read if name in self._published}
        streams = [name for name in read if name not in self._published]
        if any(home.mode == WHOLE_MODE for home in homes):
            return self._place_with_sources(template, homes, streams)
        try:
            return self._place_keyed(template, self._allowed())
        except Unkeyable as refusal:
            reason = str(refusal)
        shared = set(range(self._shards))
        for name in streams:
            routes = self._routes.get(name)
            shared &= set(routes.whole) if routes is not None else set()
        if shared and not homes:
            return self._place_whole(template, self._hashed_shard(query_id, sorted(shared)))
        raise self._placement_refused(query_id, template, streams, bool(homes), reason)

    def _place_with_sources(
        self, template: Template, homes: set[_PublishedAt], streams: list[str]
    ) -> Placement:
        """Place a query on the shard that publishes the streams it reads."""
        places = {(home.mode, home.shard) for home in homes}
        if len(places) > 1:
            raise PlacementRefused("it reads published streams that are on different shards")
        ((_, shard),) = places
        assert shard is not None, "split queries publish nothing"
        wanted = [(channel(name, WHOLE), shard) for name in streams]
        missing = [w for w in wanted if not self._is_filled(*w)]
        if missing:
            raise PlacementRefused(_needs(missing), missing)
        return self._place_whole(template, shard)

    def _place_keyed(
        self, template: Template, allowed: Mapping[str, frozenset[str]] | None
    ) -> Placement:
        keys = {key for routes in self._routes.values() for key in routes.keys}
        preferred = dict.fromkeys(sorted(keys), 0)
        (routes,) = search(
            [template],
            [None],
            lambda known: Router(known, preferred, allowed, constants=self._constants or None),
            self._located(),
        )
        stateless = all(is_stateless(output.node) for output in template.outputs)
        return Placement(SPREAD_MODE if stateless else KEYED_MODE, routes)

    def _placement_refused(
        self, query_id: str, template: Template, streams: list[str], bound: bool, reason: str
    ) -> PlacementRefused:
        try:
            routes = self._place_keyed(template, None).routes
        except Unkeyable as refusal:
            if bound:
                return PlacementRefused(f"its inputs are divided over the shards, and {refusal}")
            shard = self._hashed_shard(query_id, list(range(self._shards)))
            wanted: list[Standing] = [(channel(name, WHOLE), shard) for name in streams]
        else:
            wanted = [(name, None) for name in self._declared(template, routes)]
            if all(is_stateless(output.node) for output in template.outputs):
                wanted = [(channel(name, SPREAD), None) for name in streams]
        missing = [w for w in wanted if not self._is_filled(*w)]
        return PlacementRefused(_needs(missing) if missing else reason, missing)

    def _declared(self, template: Template, routes: LeafRoutes) -> list[str]:
        own = set(template.publishes) | set(self._published)
        names = (name for output in routes for name in output if name not in own)
        return list(dict.fromkeys(names))

    def _place_whole(self, template: Template, shard: int) -> Placement:
        (routes,) = whole_routes([template], self._published)
        return Placement(WHOLE_MODE, routes, shard)

    def _hashed_shard(self, query_id: str, shards: list[int]) -> int:
        return shards[int(shard_of(pa.array([query_id]), len(shards))[0])]

    def _located(self) -> dict[str, frozenset[str]]:
        return {name: home.located for name, home in self._published.items()}

    def _allowed(self) -> dict[str, frozenset[str]]:
        return {
            name: frozenset(routes.keys) | ({SPREAD} if routes.spread else set())
            for name, routes in self._routes.items()
        }

    def _is_filled(self, name: str, shard: int | None) -> bool:
        stream, route = split_channel(name)
        routes = self._routes.get(stream)
        return routes is not None and routes.has(route, shard)


def _needs(missing: Iterable[Standing]) -> str:
    names = ", ".join(dict.fromkeys(name for name, _ in missing))
    return f"it needs events by a route that does not exist: {names}"
