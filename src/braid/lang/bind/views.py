"""Views: named queries whose expression is inlined into their readers.

A view is a stream if its query is one (a pattern, a plain SELECT, or Istream, Dstream or Rstream),
and otherwise a relation. It is bound once. A reader contains the view's own expression, so only the
catalog knows of views.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from braid.algebra import nodes
from braid.algebra.expressions import Expression, Ref, Source
from braid.algebra.nodes import reads
from braid.algebra.relations import MapRows, Relation
from braid.algebra.schema import Schema
from braid.lang.bind.dependencies import dependencies
from braid.lang.bind.scopes import Bound
from braid.lang.bind.tables import Table
from braid.lang.parse import syntax
from braid.lang.parse.problems import Problem

if TYPE_CHECKING:
    from braid.lang.bind.binder import Binder


@dataclass(frozen=True, eq=False)
class View:
    """`text` is the whole statement; `views` are the other views that it names."""

    name: str
    text: str
    bound: Bound | Table
    views: tuple[str, ...]

    @property
    def is_relation(self) -> bool:
        return isinstance(self.bound, Table)

    @property
    def node(self) -> nodes.Node | Relation:
        return self.bound.relation if isinstance(self.bound, Table) else self.bound.node

    @property
    def schema(self) -> Schema:
        return self.bound.schema

    @property
    def reads(self) -> tuple[str, ...]:
        bound = self.bound.stream if isinstance(self.bound, Table) else self.bound
        return reads(bound.node)


def bind_view(binder: Binder, statement: syntax.CreateView) -> Bound | Table:
    """The view of a statement, under its own name and with its column names."""
    published = dependencies(statement.query).publishes
    if published:
        name, at = next(iter(published.items()))
        hint = "a query that reads the view can publish it"
        raise Problem("E185", f"a view publishes nothing, and this one {name!r}", at, hint)
    query, left = _named(statement)
    found = binder.bound(query)
    if left:
        found = _renamed(found, statement)
    label = statement.name.name
    if isinstance(found, Table):
        return Table.of(found.relation, label, found.stream.aliases)
    return Bound(found.node, label, found.aliases, (), found.sequence)


def _named(statement: syntax.CreateView) -> tuple[syntax.AnyQuery, bool]:
    """The query with the view's names in its SELECT, and whether they must be set afterwards
    instead."""
    query, columns = statement.query, statement.columns
    if isinstance(query, syntax.Detect):
        return query, bool(columns)
    items = query.items
    if not columns or items is None or not all(isinstance(i, syntax.Item) for i in items):
        return query, bool(columns)
    _check_count(statement, len(items))
    named = tuple(
        replace(item, name=column)
        for item, column in zip(items, columns, strict=True)
        if isinstance(item, syntax.Item)
    )
    return replace(query, items=named), False


def _renamed(found: Bound | Table, statement: syntax.CreateView) -> Bound | Table:
    schema = found.schema
    _check_count(statement, len(schema))
    items: dict[str, Expression] = {}
    for column, attribute in zip(statement.columns, schema, strict=True):
        if column.name in items:
            raise Problem("E108", f"the view has {column.name!r} twice", column.at)
        items[column.name] = Ref(Source.INPUT, attribute.name, attribute.type)
    if isinstance(found, Table):
        return Table.of(MapRows(found.relation, tuple(items.items())), "")
    return Bound(nodes.Project(found.node, tuple(items.items())), "")


def _check_count(statement: syntax.CreateView, count: int) -> None:
    given = len(statement.columns)
    if given != count:
        at = (statement.columns[0].at[0], statement.columns[-1].at[1])
        message = f"the view is given {given} columns, and its query has {count}"
        raise Problem("E180", message, at)


def view_names(found: Collection[tuple[str, object]]) -> tuple[str, ...]:
    """The views among the names that a query looked up."""
    return tuple(name for name, thing in found if isinstance(thing, View))
