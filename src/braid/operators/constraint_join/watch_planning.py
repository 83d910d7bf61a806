"""Which declared constraints a query has watched at their streams: those that are about streams that
it joins, whatever the join is and does.

    Istream(Select ... From Orders [Rows 5] As O, Items [Range 10] As I Where O.id = I.id)
    CREATE CONSTRAINT one ON Orders (id) KEY                          watched
    CREATE CONSTRAINT soon ON Items (id) REFERENCES Orders (id)       watched
    CREATE CONSTRAINT other ON Payments (id) KEY                      not: no query joins Payments

The streams below a published stream don't count: a query that joins a published stream joins that stream
only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from braid.algebra.constraints import Constraint
from braid.algebra.nodes import Node, Read
from braid.algebra.relations import Join, Relation, ToStream, walk_rows, windows
from braid.operators.constraint_join.declared_spec import DeclaredWatchSpec
from braid.plan.lower import lower
from braid.plan.planning import Planning
from braid.plan.predicate_pushdown import rearrange
from braid.plan.routes import PlainRecipe, Route, Stage
from braid.plan.sharing import WATCH, signature

#: The stream that an expression is, if it is one.
Named = Callable[[Node], str | None]


def _read_as(node: Node) -> str | None:
    return node.stream if isinstance(node, Read) else None


def joined_streams(node: Node, named: Named = _read_as) -> Iterator[dict[str, Node]]:
    """Of each join of an expression: the streams that it reads, by name."""
    if isinstance(node, ToStream):
        for part in walk_rows(node.relation):
            if isinstance(part, Join):
                yield _streams_below(part, named)
    for below in node.inputs:
        if named(below) is None:
            yield from joined_streams(below, named)


def _streams_below(relation: Relation, named: Named) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for window in windows(relation):
        _find_streams(window.input, named, found)
    return found


def _find_streams(node: Node, named: Named, found: dict[str, Node]) -> None:
    name = named(node)
    if name is not None:
        found.setdefault(name, node)
        return
    for below in node.inputs:
        _find_streams(below, named, found)


def watched(
    nodes: Iterable[Node], declared: tuple[Constraint, ...], named: Named = _read_as
) -> dict[Constraint, tuple[Node, ...]]:
    """The constraints of the streams that are joined, with these streams: their own, and of
    REFERENCES the one that it refers to."""
    found: dict[Constraint, tuple[Node, ...]] = {}
    joins = [streams for node in nodes for streams in joined_streams(node, named)]
    for constraint in declared:
        about = [name for name in (constraint.stream, constraint.target) if name is not None]
        for streams in joins:
            if all(name in streams for name in about):
                found.setdefault(constraint, tuple(streams[name] for name in about))
    return found


def asked_of_streams(
    nodes: Iterable[Node], declared: tuple[Constraint, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The streams that are read because of that, and which attributes of them."""
    for constraint in watched(nodes, declared):
        yield constraint.stream, constraint.attributes
        if constraint.target is not None:
            yield constraint.target, constraint.target_attributes


def watch(walk: Planning, nodes: Iterable[Node]) -> None:
    """Have what is declared of joined streams watched there."""
    _, declared = walk.constraints
    for constraint, streams in watched(nodes, declared, walk.stream_of).items():
        names = (constraint.attributes, constraint.target_attributes)
        with walk.without_members():
            channels = [
                walk.channel(rearrange(lower(node)), asked, WATCH, ())
                for node, asked in zip(streams, names, strict=False)
            ]
        inputs = tuple(channel.signature for channel in channels)
        spec = DeclaredWatchSpec(tuple(c.shape for c in channels), constraint)
        mop = signature((WATCH, constraint, inputs))
        none = tuple(None for _ in inputs)
        walk.add_stage(Stage(mop, spec, inputs, mop, PlainRecipe(), none))


def is_watched(route: Route) -> bool:
    """Whether a route has what is declared watched."""
    return any(isinstance(stage.spec, DeclaredWatchSpec) for stage in route.stages)
