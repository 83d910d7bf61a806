"""Routing keys of patterns: attributes that keep all events of a match on one shard.

Routing sends each event of a stream to the shard that the hash of one of its attributes names.
A stateful operator may then run on every shard by itself if all events that can meet in it
have the same value there. This module finds, for one stream expression, the ways to choose a
routing attribute for each of its leaves so that this holds.

Its result for a node is a list of `Option`s. An option says which routing channel every leaf
reads, and `located`: the attributes of the node's events whose value is the routing value, so
that an operator above can be checked in turn.

| node     | what must hold, and what is located                                              |
| -------- | -------------------------------------------------------------------------------- |
| Read     | any one attribute with a stable hash; that one is located                        |
| Select   | nothing; as the input                                                            |
| Project  | nothing; the attributes that are plain copies of located ones                    |
| Union    | nothing; those located in both inputs                                            |
| Sequence | an equality `$1.a = $2.b` of located a and b; all located ones of both           |
| Iterate  | `$2.b = $1.a` of located ones, or `$2.a = $.a` with a located in both            |
| SameTime | cannot be keyed: it needs all events of an instant                            |
| Documents | one join by equal values: `document_routes.py`; one block: nothing              |
| ToStream | as the relations below it say, in `row_keys.py`                                  |

An equality is enough because a result then has one value for both sides: a pair of events
with different routing values never satisfies the predicate, so no shard misses one. NULLs are
equal to nothing (`eq`), or to each other only (`eq_null_safe`), and all go to one shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from braid.algebra.documents import Documents
from braid.algebra.expressions import Call, Expression, Ref, Source, conjuncts
from braid.algebra.joins import plain_ref
from braid.algebra.nodes import (
    Extension,
    Iterate,
    Node,
    Project,
    Read,
    SameTime,
    Select,
    Sequence,
    Union,
    walk_nodes,
)
from braid.algebra.relations import ToStream
from braid.algebra.types import Kind, kind_of
from braid.distribution.document_routes import (
    ValueRoute,
    chosen_route,
    located_names,
    needed_route,
    value_join,
)
from braid.distribution.routing_options import Option, Unkeyable, copied, distinct
from braid.distribution.row_keys import correlated, stream_options

#: The end of a channel's name: routed anywhere (each event once), or to whole components.
SPREAD = "?"
WHOLE = "*"

#: Between the names of channels whose events are the same ones.
FEED = "\x1f"


def channel(stream: str, route: str) -> str:
    """The name under which a shard gets a stream by one route: `Stock@Name`, `Stock@*`, `Stock@?`."""
    return f"{stream}@{route}"


def split_channel(name: str) -> tuple[str, str]:
    """The stream and the route of a channel's name."""
    stream, _, route = name.partition("@")
    return stream, route


def is_routable(name: str, type_: pa.DataType) -> bool:
    """Whether equal values of a type have equal hashes, the same on every machine."""
    return name not in (SPREAD, WHOLE) and kind_of(type_) not in (Kind.OPAQUE, Kind.NULL)


def is_stateless(node: Node) -> bool:
    return not any(
        isinstance(n, Sequence | Iterate | SameTime | ToStream | Documents)
        for n in walk_nodes(node)
    )


def leaves(node: Node) -> Iterator[Read]:
    """The reads of an expression by position, left to right: the order of `Option.leaves`."""
    return (n for n in walk_nodes(node) if isinstance(n, Read))


def equalities(predicate: Expression) -> Iterator[tuple[Ref, Ref]]:
    """The conjuncts that equate two attributes. The caller tries both orders."""
    for part in conjuncts(predicate):
        if isinstance(part, Call) and part.function in ("eq", "eq_null_safe"):
            left, right = (plain_ref(arg) for arg in part.args)
            if left is not None and right is not None:
                yield left, right


def correlating(node: Node) -> Iterator[str]:
    """The attributes in equalities of an expression: likely routing attributes."""
    for inner in walk_nodes(node):
        if isinstance(inner, Sequence | Iterate):
            for left, right in equalities(inner.predicate):
                yield from (left.name, right.name)
        elif isinstance(inner, ToStream):
            yield from correlated(inner.relation)


@dataclass(frozen=True)
class Router:
    """Finds the options of nodes.

    `published` gives the located attributes of streams that queries publish; a read of such a
    stream has no choice of its own. `preferred` ranks attributes: low comes first, so that
    queries with a choice agree and an event is sent once and not twice. `fixed` are the
    channels of the leaves where an earlier run has decided them already. `allowed`: the routes of
    each stream that may be chosen, if not all may. `values`: by which values documents are sent.
    `constants`: those of the one query that is looked at, if there is one.
    """

    published: Mapping[str, frozenset[str]]
    preferred: Mapping[str, int]
    allowed: Mapping[str, frozenset[str]] | None = None
    values: Mapping[tuple[str, str], ValueRoute] = field(default_factory=dict)
    constants: tuple[pa.Array, ...] | None = None

    def options(self, node: Node, fixed: tuple[str, ...] | None = None) -> list[Option]:
        """The ways to route a node, the preferred first. Raises `Unkeyable` if there is none."""
        if fixed is not None and len(fixed) != sum(1 for _ in leaves(node)):
            raise Unkeyable("its routes were saved for another expression")
        return self._options(node, iter(fixed) if fixed is not None else None)

    def _options(self, node: Node, fixed: Iterator[str] | None) -> list[Option]:
        match node:
            case Read():
                return self._read(node, next(fixed) if fixed is not None else None)
            case Select(input=inner):
                return self._options(inner, fixed)
            case Project():
                return distinct(copied(node.items, o) for o in self._options(node.input, fixed))
            case SameTime():
                raise Unkeyable("SAMETIME needs all events of an instant")
            case Extension():
                raise Unkeyable(f"{type(node).__name__} needs all events of its inputs")
            case Documents():
                return self._documents(node, fixed)
            case ToStream():
                return stream_options(node, lambda stream: self._options(stream, fixed))
            case Union():
                pairs = self._pairs(node, fixed)
                return distinct(
                    Option(a.located & b.located, a.leaves + b.leaves) for a, b in pairs
                )
            case Sequence():
                pairs = self._pairs(node, fixed)
                found = distinct(_sequence(node, a, b) for a, b in pairs)
                return found or _refuse("NEXT", node.predicate)
            case Iterate():
                pairs = self._pairs(node, fixed)
                found = distinct(_iterate(node, a, b) for a, b in pairs)
                return found or _refuse("FOLD", node.predicate)

    def _documents(self, node: Documents, fixed: Iterator[str] | None) -> list[Option]:
        """Routes by the value of the query's one join. Documents without a join may be anywhere."""
        if len(node.blocks) == 1:
            found = self._options(node.sources[0], fixed)
            return [Option(frozenset(), found[-1].leaves)]  # the last way is to send them anywhere
        join = value_join(node)
        channels = []
        for block, source in enumerate(node.sources):
            assert isinstance(source, Read)
            if source.stream in self.published:
                raise Unkeyable("documents of a published stream are joined")
            known = next(fixed) if fixed is not None else None
            if known is None:
                needed = needed_route(node, join, block, self.constants)
                allowed = None
                if self.allowed is not None:
                    allowed = self.allowed.get(source.stream, frozenset())
                route = chosen_route(needed, source.stream, self.values, allowed)
                known = channel(source.stream, route)
            channels.append(known)
        return [Option(located_names(node, join), tuple(channels))]

    def _pairs(
        self, node: Union | Sequence | Iterate, fixed: Iterator[str] | None
    ) -> list[tuple[Option, Option]]:
        first = self._options(node.first, fixed)
        second = self._options(node.second, fixed)
        return [(a, b) for a in first for b in second]

    def _read(self, node: Read, fixed: str | None) -> list[Option]:
        if node.stream in self.published:
            return [Option(self.published[node.stream], (node.stream,))]
        if fixed is not None:
            route = split_channel(fixed)[1]
            located = frozenset() if route in (SPREAD, WHOLE) else frozenset({route})
            return [Option(located, (fixed,))]
        names = [a.name for a in node.schema if is_routable(a.name, a.type)]
        last = len(self.preferred)
        names.sort(key=lambda name: self.preferred.get(name, last))
        options = [Option(frozenset({n}), (channel(node.stream, n),)) for n in names]
        # A branch without an equality may be anywhere, as long as each event is there once.
        options.append(Option(frozenset(), (channel(node.stream, SPREAD),)))
        if self.allowed is None:
            return options
        routes = self.allowed.get(node.stream, frozenset())
        found = [o for o in options if split_channel(o.leaves[0])[1] in routes]
        if not found:
            raise Unkeyable(f"no part of stream {node.stream} is routed by a key")
        return found


def _sequence(node: Sequence, first: Option, second: Option) -> Option | None:
    if not _linked(node.predicate, first.located, second.located):
        return None
    attributes = (*node.first.schema, *node.second.schema)
    split = len(node.first.schema)
    located = {
        name
        for i, (name, a) in enumerate(zip(node.names, attributes, strict=True))
        if a.name in (first.located if i < split else second.located)
    }
    return Option(frozenset(located), first.leaves + second.leaves)


def _iterate(node: Iterate, first: Option, second: Option) -> Option | None:
    updated = {name for name, _ in node.aggregates}
    steady = (first.located & second.located) - updated
    if not (
        _linked(node.predicate, first.located, second.located)
        or _linked_to_last(node.predicate, steady)
    ):
        return None
    located = {
        f"{name}_1" if name in node.second.schema else name
        for name in first.located
        if name not in updated
    }
    located |= second.located - updated
    return Option(frozenset(located), first.leaves + second.leaves)


def _linked(predicate: Expression, first: frozenset[str], second: frozenset[str]) -> bool:
    """Whether an equality makes a located attribute of each side equal."""
    for pair in equalities(predicate):
        for a, b in (pair, pair[::-1]):
            if a.source is Source.FIRST and b.source is Source.SECOND:
                if a.name in first and b.name in second:
                    return True
    return False


def _linked_to_last(predicate: Expression, steady: frozenset[str]) -> bool:
    """Whether `$2.a = $.a` carries one value from the first event through every iteration."""
    for pair in equalities(predicate):
        for a, b in (pair, pair[::-1]):
            if a.source is Source.LAST and b.source is Source.SECOND:
                if a.name == b.name and a.name in steady:
                    return True
    return False


def _refuse(word: str, predicate: Expression) -> list[Option]:
    shown = {Source.FIRST: "$1", Source.SECOND: "$2", Source.LAST: "$"}
    pairs = [
        f"{shown.get(a.source, '')}.{a.name} = {shown.get(b.source, '')}.{b.name}"
        for a, b in equalities(predicate)
        if a.source is not b.source
    ]
    if not pairs:
        raise Unkeyable(f"a {word} does not relate its inputs by an equality of attributes")
    listed = " AND ".join(dict.fromkeys(pairs))
    raise Unkeyable(
        f"the equality {listed} of a {word} does not lead back to one routing attribute "
        "of every stream below it"
    )
