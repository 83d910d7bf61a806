"""The overview of a running plan for `explain` and `stats`: m-ops, channels, exits, members.

Counts come from the members' routes, group by group. So a plan of a hundred thousand queries of one
template takes as long as a plan of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from braid.algebra.types import sql_name
from braid.engine.query_registry import Admitted, ExitPoint, QueryRegistry
from braid.engine.shard import Shard
from braid.operators.core.values import Words
from braid.operators.registry import REGISTRY
from braid.plan.plan import Mop, channel_owner, source_channel
from braid.plan.routes import Route

#: The most queries that are named.
NAMED = 3


@dataclass
class QuerySample:
    """The number of queries, and a few of their ids."""

    count: int = 0
    some: list[str] = field(default_factory=list)

    def add(self, admitted: Admitted, rows: Words) -> None:
        self.count += len(rows)
        for row in rows[: NAMED - len(self.some)].tolist():
            self.some.append(admitted.ids[row].as_py())


@dataclass
class ChannelView:
    """A channel between m-ops. `nodes`: the number of member nodes that it distinguishes;
    `membered`: whether events carry their members."""

    name: str
    queries: int = 0
    nodes: int = 0
    membered: bool = False


@dataclass
class MopView:
    """`operators`: the number of the queries' operators that it implements."""

    mop: Mop
    kind: str
    unit: str
    detail: dict[str, Any]
    members: QuerySample = field(default_factory=QuerySample)
    operators: int = 0
    templates: int = 0
    outputs: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return short(self.mop.signature)


@dataclass
class ExitView:
    point: ExitPoint
    #: What the queries show that are looked at.
    names: tuple[str, ...]
    queries: QuerySample = field(default_factory=QuerySample)


@dataclass
class Overview:
    """The plan of a shard, or the part that some queries use."""

    queries: int
    sources: dict[str, list[tuple[str, str]]]
    mops: dict[str, MopView]
    channels: dict[str, ChannelView]
    exits: list[ExitView]
    #: One for each template: its queries.
    templates: list[QuerySample]

    def readers(self, channel: str) -> list[str]:
        return [s for s, view in self.mops.items() if channel in view.mop.inputs]


def _shown_by(registry: QueryRegistry, queries: Sequence[int]) -> dict[int, dict[str, None]]:
    """The attributes that queries show at each exit that is one of theirs, by its identity."""
    found: dict[int, dict[str, None]] = {}
    for number in queries:
        admitted = registry.of(number)
        for exit_, point in zip(admitted.route.exits, admitted.exits, strict=True):
            found.setdefault(id(point), {}).update(dict.fromkeys(exit_.schema.names))
    return found


def short(signature: str) -> str:
    """A name that fits into a line. A published stream has its own."""
    return signature if signature.startswith("publish:") else signature[:8]


def collect_plan(shard: Shard, queries: Sequence[int] | None = None) -> Overview:
    """The whole plan, or the part that the queries with these numbers use, with all other queries
    of that part."""
    executor = shard.executor
    registry = executor.registry
    kept = None if queries is None else _mops_of(shard, queries)
    mops = {
        s: MopView(
            shard.plan.mops[s],
            REGISTRY.name_of(shard.plan.mops[s].spec),
            shard.unit(s),
            executor.logics[s].describe(),
        )
        for s in executor.order
        if kept is None or s in kept
    }
    found = _Collector(mops)
    for point in executor.exits.values():
        found.exits[id(point)] = ExitView(point, point.names)
    for admitted, rows in registry.living():
        found.add(admitted, rows)
    found.finish()
    exits, templates = list(found.exits.values()), list(found.templates.values())
    if queries is not None:
        shown = _shown_by(registry, queries)
        exits = [view for view in exits if id(view.point) in shown]
        for view in exits:
            view.names = tuple(shown[id(view.point)])
        routes = {id(registry.of(n).route) for n in queries}
        templates = [who for key, who in found.templates.items() if key in routes]
    return Overview(
        registry.count,
        _sources(shard, mops.values(), exits),
        mops,
        found.channels,
        exits,
        sorted(templates, key=lambda who: -who.count),
    )


def _mops_of(shard: Shard, queries: Sequence[int]) -> set[str]:
    """The m-ops of some queries, and the published streams that these read."""
    routes = {id(a.route): a.route for a in map(shard.executor.registry.of, queries)}
    own = {stage.mop for route in routes.values() for stage in route.stages}
    read = {channel_owner(c) for route in routes.values() for s in route.stages for c in s.inputs}
    return own | {s for s in read if s in shard.plan.mops}


def _sources(
    shard: Shard, mops: Iterable[MopView], exits: Iterable[ExitView]
) -> dict[str, list[tuple[str, str]]]:
    """The columns that queries read of each stream."""
    read = {c for view in mops for c in view.mop.inputs} | {e.point.channel for e in exits}
    return {
        name: [(a.name, sql_name(a.type)) for a in shape.schema]
        for name, shape in shard.plan.sources.items()
        if source_channel(name) in read
    }


class _Collector:
    """Counts the queries of each m-op, channel and exit."""

    def __init__(self, mops: dict[str, MopView]) -> None:
        self.mops = mops
        self.channels: dict[str, ChannelView] = {}
        self.exits: dict[int, ExitView] = {}
        self.templates: dict[int, QuerySample] = {}
        self._nodes: dict[str, list[Words]] = {}
        self._routes: set[int] = set()

    def add(self, admitted: Admitted, rows: Words) -> None:
        route = admitted.route
        self.templates.setdefault(id(route), QuerySample()).add(admitted, rows)
        for signature in dict.fromkeys(stage.mop for stage in route.stages):
            if signature in self.mops:
                self.mops[signature].members.add(admitted, rows)
        for k, stage in enumerate(route.stages):
            if stage.mop in self.mops:
                self.mops[stage.mop].operators += len(rows)
            self._channel(stage.output).queries += len(rows)
            self._nodes.setdefault(stage.output, []).append(admitted.nodes[k][rows])
        for exit_, point in zip(route.exits, admitted.exits, strict=True):
            self.exits[id(point)].queries.add(admitted, rows)
            if exit_.stage is not None:
                self._channel(exit_.channel).membered = True
        if id(route) not in self._routes:
            self._routes.add(id(route))
            self._add_route(route)

    def _add_route(self, route: Route) -> None:
        for signature in dict.fromkeys(stage.mop for stage in route.stages):
            if signature in self.mops:
                self.mops[signature].templates += 1
        for stage in route.stages:
            view = self.mops.get(stage.mop)
            if view is not None and stage.output not in view.outputs:
                view.outputs.append(stage.output)
            for channel, origin in zip(stage.inputs, stage.origins, strict=True):
                if origin is not None:
                    self._channel(channel).membered = True

    def _channel(self, name: str) -> ChannelView:
        return self.channels.setdefault(name, ChannelView(name))

    def finish(self) -> None:
        for name, parts in self._nodes.items():
            self.channels[name].nodes = len(np.unique(np.concatenate(parts)))
        for signature, view in self.mops.items():
            if not view.outputs:  # a published stream, which has no members
                view.outputs.append(signature)
            for channel in (*view.mop.inputs, *view.outputs):
                self._channel(channel)
