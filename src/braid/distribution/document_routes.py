"""Document routes: a document goes to every shard that owns one of its join values.

A query that joins two documents by one pair of equal values finds them together where the hash of
that value leads; a shard joins by its own values only, so that each result comes from one of them. A
document is sent to a shard once, however many of its values belong there.

The route of a stream names the column with its documents and the elements whose values count:
`=["doc",["author","title"]]`, or `=["doc",null]` if all do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.documents import Documents, ValueJoin
from braid.algebra.expressions import Expression, Literal, Parameter
from braid.algebra.nodes import Read, walk_nodes
from braid.algebra.templates import Members
from braid.distribution.routing_options import Unkeyable

_MARK = "="
#: With more names than this, all values count.
_MOST_NAMES = 64

#: Names of elements; None: any.
Names = frozenset[str] | None


@dataclass(frozen=True)
class ValueRoute:
    """The column with the documents, and the elements whose values determine their shards."""

    column: str
    names: Names

    @staticmethod
    def parse(route: str) -> ValueRoute:
        column, names = json.loads(route.removeprefix(_MARK))
        return ValueRoute(column, None if names is None else frozenset(names))

    def __str__(self) -> str:
        every = self.names is None or len(self.names) > _MOST_NAMES
        written = [self.column, None if every else sorted(self.names or ())]
        return _MARK + json.dumps(written, separators=(",", ":"), ensure_ascii=False)

    def covers(self, other: ValueRoute) -> bool:
        if self.column != other.column:
            return False
        return self.names is None or (other.names is not None and other.names <= self.names)

    @property
    def shown(self) -> str:
        names = "every element" if self.names is None else ", ".join(sorted(self.names))
        return f"the values of {names} in {self.column}"


def is_value_route(route: str) -> bool:
    return route.startswith(_MARK)


def shown_route(route: str) -> str:
    """A route in words."""
    return ValueRoute.parse(route).shown if is_value_route(route) else route


def value_join(query: Documents) -> ValueJoin:
    """The join whose value can divide a query over shards; raises `Unkeyable`."""
    if len(query.blocks) > 2:
        raise Unkeyable(f"{len(query.blocks)} documents are joined by more than one value")
    equal = [join for join in query.joins if join.operator == "="]
    if len(equal) != 1:
        what = "no equal value" if not equal else f"{len(equal)} values at once"
        raise Unkeyable(f"documents are joined by {what}, which do not determine one shard")
    (join,) = equal
    if join.first not in query.blocks[0].shown and join.second not in query.blocks[1].shown:
        raise Unkeyable(
            "the value by which documents are joined has no variable, "
            "so several values may give the same result"
        )
    if not all(isinstance(source, Read) for source in query.sources):
        raise Unkeyable("the joined documents are computed")
    return join


def located_names(query: Documents, join: ValueJoin) -> frozenset[str]:
    """The columns of the results that have the dividing value."""
    nodes = (query.blocks[0].nodes[join.first], query.blocks[1].nodes[join.second])
    return frozenset(node.variable for node in nodes if node.variable is not None)


def needed_route(
    query: Documents, join: ValueJoin, block: int, values: Sequence[pa.Array] | None = None
) -> ValueRoute:
    """The route that a block needs of its stream. Names that are parameters may be any, unless
    their values are given."""
    name = query.blocks[block].nodes[(join.first, join.second)[block]].name
    return ValueRoute(query.columns[block], _names(name, values))


def _names(name: Expression | None, values: Sequence[pa.Array] | None) -> Names:
    if isinstance(name, Literal):
        return frozenset({str(name.value)})
    if isinstance(name, Parameter) and values is not None:
        return frozenset(map(str, pc.unique(values[name.index]).to_pylist()))
    return None


def value_routes(groups: Iterable[Members]) -> dict[tuple[str, str], ValueRoute]:
    """One route for each stream and column that suits all queries, so that documents travel once."""
    found: dict[tuple[str, str], Names] = {}
    for members in groups:
        for query in _documents(members):
            try:
                join = value_join(query)
            except Unkeyable:
                continue
            for block, source in enumerate(query.sources):
                assert isinstance(source, Read)
                needed = needed_route(query, join, block, members.values)
                place = (source.stream, needed.column)
                known = found.get(place, frozenset())
                found[place] = (
                    None if known is None or needed.names is None else known | needed.names
                )
    return {place: ValueRoute(place[1], names) for place, names in found.items()}


def _documents(members: Members) -> list[Documents]:
    return [
        part
        for output in members.template.outputs
        for part in walk_nodes(output.node)
        if isinstance(part, Documents) and len(part.blocks) > 1
    ]


def chosen_route(
    needed: ValueRoute,
    stream: str,
    planned: Mapping[tuple[str, str], ValueRoute],
    allowed: frozenset[str] | None,
) -> str:
    """The route by which a block reads its stream: an existing one, if new ones are not allowed."""
    if allowed is None:
        return str(planned.get((stream, needed.column), needed))
    for route in sorted(allowed):
        if is_value_route(route) and ValueRoute.parse(route).covers(needed):
            return route
    raise Unkeyable(f"documents of {stream} are not routed by {needed.shown}")
