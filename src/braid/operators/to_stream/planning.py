"""Istream, Dstream and Rstream as stages, and the walk through the relations below them.

Between a window and Istream, Dstream or Rstream flow changes of rows (`plan/deltas.py`), so
a selection or a projection of rows is the selection or projection of a channel, with the weight
as one column more. What is asked of rows sinks as far as it can:

    WHERE over a projection              -> below it
    WHERE over [Range], [Now], unbounded -> below the window, onto the stream
    WHERE over [Rows]                    -> stays: a row counts whether or not it is wanted; only
                                            what is asked of the partition's keys goes below
    WHERE over one input of a join       -> onto that input
    the rest of a join's WHERE           -> equalities are hashed, all else is asked of candidates

Rstream speaks whenever an event occurs on a stream under its windows, also one that WHERE
refuses: so it reads these streams as they are beside the rows.
"""

from __future__ import annotations

import pyarrow as pa

from braid.algebra.expressions import Literal, Parameter, Ref, Source
from braid.algebra.relations import Relation, StreamKind, ToStream
from braid.operators.project.planning import projected
from braid.operators.to_stream.spec import ToStreamSpec
from braid.plan.deltas import WEIGHT
from braid.plan.planning import Conjuncts, Items, Planning, Request, RowsRequest, plain_items
from braid.plan.relation_shapes import bottom, shown_of
from braid.plan.routes import PlainRecipe
from braid.plan.sharing import TO_STREAM, Channel, Operator, signature

_WEIGHT_ITEM = (WEIGHT, Ref(Source.INPUT, WEIGHT, pa.int64()))


def to_stream(walk: Planning, node: ToStream, request: Request) -> Channel:
    """The events. Only Rstream can leave columns out: the others compare whole rows."""
    found = walk.form(ToStream, walk, node, request)
    if found is not None:
        return found
    relation, speaks = node.relation, node.kind is StreamKind.RSTREAM
    names = tuple(n for n in relation.schema.names if not speaks or n in request.needed)
    relations = Relations(walk, node)
    birth = walk.birth if speaks else None
    definition = (node.kind.value, names, birth)
    rows = relations.exactly(relation, names, (), signature((TO_STREAM, definition)), speaks)
    streams = tuple(dict.fromkeys(relations.streams)) if speaks else ()
    inputs = (rows, *streams)
    operator = Operator(TO_STREAM, inputs, definition, ())
    membered = tuple(channel.membered for channel in inputs)
    shapes = tuple(channel.shape for channel in streams)
    spec = ToStreamSpec(rows.shape, node.kind.value, shapes, membered, birth)
    sharing = walk.sharing(operator)
    return walk.add(operator, sharing, spec, PlainRecipe(), membered=any(membered))


class Relations:
    """The relations of one Istream, Dstream or Rstream on their way through the rules."""

    def __init__(self, walk: Planning, output: ToStream) -> None:
        self.walk = walk
        self.output = output
        below = bottom(output.relation)
        is_istream = output.kind is StreamKind.ISTREAM
        has_windows_inside = is_istream and walk.has_rule("s_window_join")
        self.only_changes = None if output.kind is StreamKind.RSTREAM else below
        self.only_coming = below if is_istream else None
        self.coming = below if has_windows_inside else None
        self.shown: frozenset[str] = frozenset()
        if has_windows_inside:
            self.shown = shown_of(output.relation, below)
        self.inside: list[Literal | Parameter | int] | None = None
        self.streams: list[Channel] = []

    @property
    def weight(self) -> Items:
        return (_WEIGHT_ITEM,) if self.inside is None else ()

    def rows(self, relation: Relation, request: RowsRequest) -> Channel:
        return self.walk.planned_rows(self, relation, request)

    def exactly(
        self,
        relation: Relation,
        names: tuple[str, ...],
        asked: Conjuncts,
        port: str,
        speaks: bool,
    ) -> Channel:
        source = self.rows(relation, RowsRequest(frozenset(names), asked, port, speaks))
        items = (*plain_items(relation.schema, names), *self.weight)
        if source.shape.schema.names == tuple(name for name, _ in items):
            return source
        return projected(self.walk, source, items, ())
