"""Selection joins: very many queries with one join over the same streams, each with its own ranges.

What a query asks of each stream by itself is a box: an interval of each attribute that it restricts.
The m-op reads the streams whole, and has the boxes of all its members in one index.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from braid.algebra.expressions import conjunction, is_true
from braid.algebra.joins import parts_of
from braid.algebra.nodes import Read
from braid.algebra.relations import Join, Relation, Window, WindowKind
from braid.algebra.types import Kind, kind_of
from braid.plan.predicates import TEXT_TESTS, Clause, normalise
from braid.plan.relational import WindowJoinRecipe, WindowJoinSpec

#: Attributes that a query restricts, at least: fewer are found by one index on one of them.
LEAST_DIMENSIONS = 3
#: Streams with more attributes are not held whole.
MOST_COLUMNS = 64


@dataclass(frozen=True)
class SelectionJoinSpec(WindowJoinSpec):
    """A join with windows by time inside over whole streams: for each member, what comes to the
    combinations of events that are in its windows and in its boxes.

    The members' births are data, like their boxes: `birth` is None.
    """

    def describe(self) -> str:
        return f"selection {super().describe()}"


@dataclass(frozen=True)
class SelectionJoinRecipe(WindowJoinRecipe):
    """Also what a member asks of each input, and from when on it sees events."""

    asked: tuple[Clause, ...] = ()
    birth: int | None = None


@lru_cache(4096)
def boxes_of(join: Join) -> tuple[Clause, ...] | None:
    """What is asked of each input by itself, if it is all boxes: None if the join is no such one."""
    if not all(_is_stream(relation) for relation in join.inputs):
        return None
    parts = parts_of(join)
    if not parts.equalities or len(parts.connected()) > 1:
        return None
    found = []
    for selections in parts.selections:
        predicate = normalise(conjunction(selections))
        if len(predicate.clauses) != 1 or not is_true(predicate.residual):
            return None
        (clause,) = predicate.clauses
        if any(atom.kind in TEXT_TESTS for atom in clause):
            return None
        found.append(clause)
    restricted = sum(len({atom.key for atom in clause}) for clause in found)
    return tuple(found) if restricted >= LEAST_DIMENSIONS else None


def _is_stream(relation: Relation) -> bool:
    """Whether a relation is a window by time on a stream, of which all attributes can be held."""
    if not isinstance(relation, Window) or not isinstance(relation.input, Read):
        return False
    by_time = relation.kind in (WindowKind.RANGE, WindowKind.NOW)
    return by_time and len(relation.schema.names) <= MOST_COLUMNS


def streams_of(join: Join) -> tuple[str, ...]:
    """The streams that the inputs of a join are windows on, as far as they are."""
    nodes = (relation.input for relation in join.inputs if isinstance(relation, Window))
    return tuple(node.stream for node in nodes if isinstance(node, Read))


def columns_of(relation: Relation) -> tuple[str, ...]:
    """The attributes of an input that are held, whoever asks for them: so queries that restrict
    different ones have the same buffer."""
    schema = relation.schema
    return tuple(a.name for a in schema if kind_of(a.type) not in (Kind.OPAQUE, Kind.NULL))
