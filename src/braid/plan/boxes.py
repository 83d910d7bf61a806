"""Boxes: the predicates of queries on single inputs of a join, as an interval per attribute."""

from __future__ import annotations

from functools import lru_cache

from braid.algebra.expressions import conjunction, is_true
from braid.algebra.joins import parts_of
from braid.algebra.nodes import Read
from braid.algebra.relations import Join, Relation, Window, WindowKind
from braid.algebra.types import Kind, kind_of
from braid.plan.predicates import TEXT_TESTS, Clause, normalise

#: Attributes that a query restricts, at least: fewer are found by one index on one of them.
LEAST_DIMENSIONS = 3


#: Streams with more attributes are not held whole.
MOST_COLUMNS = 64


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
