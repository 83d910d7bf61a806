"""Placement: the decided distribution as data: placements, components, routes, shard plans.

Queries are handled as `Members`: all of one template that run alike, whatever their number. A
shard reads *channels*: a stream by one route, such as `Stock@Name` (routed by the hash of Name),
`Stock@?` (each event to some shard) or `Stock@*` (all events, to the shards that need them).
`channels_for` gives a shard its queries with every `Read` of a declared stream renamed to its
channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra import nodes as algebra
from braid.algebra.documents import Documents
from braid.algebra.nodes import Extension, Iterate, Node, Project, Read, SameTime, Select, Union
from braid.algebra.relations import ToStream
from braid.algebra.streams import Stream, sharable_classes
from braid.algebra.templates import Members, Output, Template
from braid.distribution.document_routes import is_value_route
from braid.distribution.hashing import shard_of
from braid.distribution.keys import SPREAD, WHOLE, channel, split_channel

KEYED_MODE = "keyed"
SPREAD_MODE = "spread"
WHOLE_MODE = "whole"

#: For each output of a template, the channels of its leaves in order.
LeafRoutes = tuple[tuple[str, ...], ...]

#: A channel that ingest fills: its name, and for `Stock@*` one shard that gets it.
Standing = tuple[str, int | None]


@dataclass(frozen=True)
class Placement:
    """Where queries run. Whole without a shard: each on the one that the hash of its id names."""

    mode: str
    routes: LeafRoutes
    shard: int | None = None

    @property
    def is_split(self) -> bool:
        return self.mode == WHOLE_MODE and self.shard is None


@dataclass(frozen=True)
class Component:
    """Queries that run together, by template, and why they run as they do."""

    groups: tuple[Members, ...]
    mode: str
    reason: str
    routes: tuple[LeafRoutes, ...]
    shard: int | None = None

    @cached_property
    def channels(self) -> tuple[str, ...]:
        """The channels of declared streams that the component reads."""
        own = {name for group in self.groups for name in group.template.publishes}
        names = (name for group in self.routes for output in group for name in output)
        return tuple(dict.fromkeys(name for name in names if name not in own))

    @property
    def is_split(self) -> bool:
        return self.mode == WHOLE_MODE and self.shard is None

    def placement(self, group: int) -> Placement:
        return Placement(self.mode, self.routes[group], self.shard)

    def homes(self, shards: int) -> range:
        """The shards that run a part of it."""
        return range(shards) if self.shard is None else range(self.shard, self.shard + 1)

    def some_ids(self, count: int) -> tuple[list[str], int]:
        """A few ids for messages, and their number."""
        shown: list[str] = []
        for group in self.groups:
            shown += group.ids.slice(0, count - len(shown)).to_pylist()
        return shown, sum(map(len, self.groups))


@dataclass(frozen=True)
class Routes:
    """The routes of the events of one stream."""

    keys: tuple[str, ...]
    spread: bool
    whole: tuple[int, ...]
    #: The one channel whose late events are shown. An event may travel on several.
    primary: str

    def has(self, route: str, shard: int | None) -> bool:
        if route == WHOLE:
            return shard in self.whole
        return self.spread if route == SPREAD else route in self.keys


class EarlierPlacements:
    """Placements of an earlier run, by query."""

    def __init__(
        self,
        ids: pa.StringArray,
        numbers: npt.NDArray[np.int64],
        placements: Sequence[Placement],
    ) -> None:
        self._ids = ids
        self._numbers = numbers
        self._placements = placements

    @staticmethod
    def of(placed: Iterable[tuple[pa.StringArray, Placement]]) -> EarlierPlacements:
        known: dict[Placement, int] = {}
        ids, numbers = [pa.array([], pa.string())], [np.empty(0, np.int64)]
        for names, placement in placed:
            ids.append(names)
            number = known.setdefault(placement, len(known))
            numbers.append(np.full(len(names), number, np.int64))
        return EarlierPlacements(pa.concat_arrays(ids), np.concatenate(numbers), list(known))

    def split(self, members: Members) -> Iterator[tuple[Members, Placement | None]]:
        """The queries by their earlier placement; None for new ones."""
        if not len(self._ids) or not len(members):
            yield members, None
            return
        found = pc.index_in(members.ids, value_set=self._ids)
        at = found.fill_null(0).to_numpy(zero_copy_only=False)
        numbers = np.where(np.asarray(found.is_null()), -1, self._numbers[at])
        for number in np.unique(numbers).tolist():
            rows = np.flatnonzero(numbers == number)
            yield chosen(members, rows), None if number < 0 else self._placements[number]


@dataclass(frozen=True)
class Distribution:
    """All components of a set of queries over a number of shards.

    `standing`: channels that are filled even without readers, for queries that are added while the
    pipeline runs.
    """

    streams: Mapping[str, Stream]
    components: tuple[Component, ...]
    shards: int
    standing: frozenset[Standing] = frozenset()

    @property
    def is_stateless(self) -> bool:
        return all(c.mode == SPREAD_MODE for c in self.components)

    def placed(self) -> Iterator[tuple[Members, Placement]]:
        for component in self.components:
            for number, members in enumerate(component.groups):
                yield members, component.placement(number)

    @cached_property
    def kept(self) -> EarlierPlacements:
        """The placements and routes that a later run must keep."""
        return EarlierPlacements.of(
            (members.ids, placement) for members, placement in self.placed()
        )

    @cached_property
    def filled(self) -> frozenset[Standing]:
        """Every channel that ingest fills."""
        found = set(self.standing)
        for component in self.components:
            for name in component.channels:
                if split_channel(name)[1] == WHOLE:
                    found.update((name, shard) for shard in component.homes(self.shards))
                else:
                    found.add((name, None))
        return frozenset(found)

    @cached_property
    def read_streams(self) -> tuple[str, ...]:
        """The declared streams that queries read. The earliest of their times is the watermark."""
        used = {split_channel(name)[0] for name, _ in self.filled}
        return tuple(name for name in self.streams if name in used)

    @cached_property
    def routes(self) -> dict[str, Routes]:
        """The routes of each stream that is read."""
        by_stream: dict[str, list[tuple[str, int | None]]] = {n: [] for n in self.read_streams}
        for name, shard in sorted(self.filled, key=lambda f: (f[0], f[1] or 0)):
            stream, route = split_channel(name)
            by_stream[stream].append((route, shard))
        return {name: _routes(name, found) for name, found in by_stream.items()}

    @cached_property
    def aliases(self) -> dict[str, tuple[str, ...]]:
        """Channels that are read under other names too: where every shard gets all documents of a
        stream, those that go by their values have come already, and do not travel again."""
        found = {}
        for stream, routes in self.routes.items():
            values = [channel(stream, key) for key in routes.keys if is_value_route(key)]
            if values and len(routes.whole) == self.shards:
                found[channel(stream, WHOLE)] = tuple(values)
        return found

    def shows_late(self, shard: int, name: str) -> bool:
        """Whether late events that `shard` gets on the channel `name` go to the late output."""
        routes = self.routes[split_channel(name)[0]]
        if name != routes.primary:
            return False
        return split_channel(name)[1] != WHOLE or shard == routes.whole[0]


def _routes(stream: str, found: Sequence[tuple[str, int | None]]) -> Routes:
    keys = tuple(route for route, _ in found if route not in (WHOLE, SPREAD))
    spread = any(route == SPREAD for route, _ in found)
    whole = tuple(shard for route, shard in found if route == WHOLE and shard is not None)
    plain = [key for key in keys if not is_value_route(key)]
    single = [*plain, *([SPREAD] if spread else []), *([WHOLE] if whole else [])]
    chosen_route = (single or keys or [WHOLE])[0]
    return Routes(keys, spread, whole, channel(stream, chosen_route))


def chosen(members: Members, rows: npt.NDArray[np.int64]) -> Members:
    """Some of the queries, in their order."""
    if len(rows) == len(members):
        return members
    which = pa.array(rows, pa.int64())
    values = tuple(column.take(which) for column in members.values)
    return Members(members.template, members.ids.take(which), values)


# ---- what a shard runs ----


@dataclass(frozen=True)
class ShardPlan:
    """The queries of one shard; the arguments of `engine.shard.Shard`."""

    queries: tuple[Members, ...]
    streams: dict[str, Stream]
    channels: dict[str, str]
    #: Channels of sharable streams by the same route, whether this shard reads them or not.
    sharable: dict[str, tuple[str, ...]]


def channels_for(distribution: Distribution, shard: int) -> ShardPlan:
    """The queries of one shard, reading channels.

    `streams` are all that any query reads, also if this shard gets none of their events: time
    must be the same on every shard, so that they agree on what is late.
    """
    renamer = Renamer()
    queries: list[Members] = []
    channels: dict[str, str] = {}
    for component in distribution.components:
        if component.shard not in (None, shard):
            continue
        for members, routes in zip(component.groups, component.routes, strict=True):
            own = of_shard(members, shard, distribution.shards) if component.is_split else members
            queries.append(renamer.members(own, routes))
        channels.update((name, split_channel(name)[0]) for name in component.channels)
    for name, home in sorted(distribution.standing, key=lambda s: (s[0], s[1] or 0)):
        if home in (None, shard):
            channels[name] = split_channel(name)[0]
    streams = {name: distribution.streams[name] for name in distribution.read_streams}
    return ShardPlan(tuple(queries), streams, channels, _sharable(distribution, channels))


def _sharable(
    distribution: Distribution, channels: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    classes = sharable_classes(distribution.streams)
    return {
        name: tuple(channel(other, split_channel(name)[1]) for other in classes[stream])
        for name, stream in channels.items()
        if stream in classes
    }


def of_shard(members: Members, shard: int, shards: int) -> Members:
    """The split queries of one shard. Only their ids decide, so the choice is permanent."""
    return chosen(members, np.flatnonzero(shard_of(members.ids, shards) == shard))


class Renamer:
    """Templates that read channels: one for each template and way of routing it."""

    def __init__(self) -> None:
        # The originals are held too, so that their ids stay theirs.
        self._made: dict[tuple[int, LeafRoutes], tuple[Template, Template]] = {}

    def members(self, members: Members, routes: LeafRoutes) -> Members:
        return Members(self.template(members.template, routes), members.ids, members.values)

    def template(self, template: Template, routes: LeafRoutes) -> Template:
        known = self._made.get((id(template), routes))
        if known is None:
            known = (template, self._renamed(template, routes))
            self._made[id(template), routes] = known
        return known[1]

    def _renamed(self, template: Template, routes: LeafRoutes) -> Template:
        own = template.outputs[-1].publish
        if template.base is not None and own is not None:
            return self.template(template.base, routes).publishing(own)
        outputs = tuple(
            Output(_rename(output.node, iter(names)), output.publish)
            for output, names in zip(template.outputs, routes, strict=True)
        )
        return Template(outputs, template.types, mode=template.mode)


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
        case ToStream() | Documents() | Extension():
            return node.over(tuple(_rename(input_, names) for input_ in node.inputs))


def explain(distribution: Distribution) -> str:
    """A description of the placement of every component."""
    lines = [f"{distribution.shards} shards, {len(distribution.components)} components"]
    for component in distribution.components:
        names, count = component.some_ids(8)
        shown = ", ".join(names) + (f" and {count - 8} more" if count > 8 else "")
        where = f" on shard {component.shard}" if component.shard is not None else ""
        if component.is_split:
            where = " on all shards, each query on one"
        lines.append(f"  {component.mode}{where}: {shown or 'no query yet'}")
        word = {KEYED_MODE: "keyed: ", WHOLE_MODE: "not keyed: "}.get(component.mode, "")
        lines.append(f"    {word}{component.reason}")
        lines.append(f"    reads {', '.join(component.channels)}")
    return "\n".join(lines)
