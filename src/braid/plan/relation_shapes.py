"""Helpers that look through the selections and projections over a relation."""

from __future__ import annotations

from braid.algebra.expressions import Ref
from braid.algebra.relations import Join, KeepRows, MapRows, Relation, Window, WindowKind


def bottom(relation: Relation) -> Relation:
    """What is below selections and projections: these make changes of changes."""
    while isinstance(relation, KeepRows | MapRows):
        relation = relation.input
    return relation


def shown_of(relation: Relation, bottom: Relation) -> frozenset[str]:
    """The columns of what is below selections and projections that come through as they are."""
    names = frozenset(relation.schema.names)
    while relation is not bottom:
        assert isinstance(relation, KeepRows | MapRows)
        if isinstance(relation, MapRows):
            computed = (e for name, e in relation.items if name in names)
            names = frozenset(e.name for e in computed if isinstance(e, Ref))
        relation = relation.input
    return names


def of_time(join: Join) -> bool:
    """Whether all inputs of a join are windows by time, perhaps with rows chosen and computed."""
    kinds = (WindowKind.RANGE, WindowKind.NOW)
    below = (bottom(relation) for relation in join.inputs)
    return all(isinstance(window, Window) and window.kind in kinds for window in below)
