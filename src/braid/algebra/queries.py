"""Queries: an id, a text, and the streams they produce.

A query is a template and the constants for its parameters. Of a million queries of one template,
only the ids, texts and constants exist a million times. The expressions with constants are made on
request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from braid.algebra.constraints import ConstraintMode
from braid.algebra.nodes import Node
from braid.algebra.templates import Members, Output, Template

__all__ = ["Members", "Output", "Query", "Template", "members_of"]


class Query:
    """A bound query, immutable. The last output is the query's own. The others are published
    sub-queries, each after those that it reads."""

    __slots__ = ("_outputs", "id", "template", "text", "values")

    id: str
    text: str
    template: Template
    values: tuple[Any, ...]
    _outputs: tuple[Output, ...] | None

    def __init__(
        self,
        id: str,
        text: str,
        outputs: tuple[Output, ...],
        views: tuple[str, ...] = (),
        mode: ConstraintMode | None = None,
    ) -> None:
        """A query that shares its template with no other."""
        self.id = id
        self.text = text
        self.template = Template(outputs, views=views, mode=mode)
        self.values = ()
        self._outputs = outputs

    @classmethod
    def of(cls, id: str, text: str, template: Template, values: tuple[Any, ...]) -> Query:
        """The query of a template with these constants."""
        query = cls.__new__(cls)
        query.id = id
        query.text = text
        query.template = template
        query.values = values
        query._outputs = None
        return query

    @property
    def outputs(self) -> tuple[Output, ...]:
        """All streams that the query produces, with its constants."""
        if self._outputs is None:
            self._outputs = self.template.instantiate(self.values)
        return self._outputs

    @property
    def node(self) -> Node:
        return self.outputs[-1].node

    @property
    def publishes(self) -> tuple[str, ...]:
        return self.template.publishes

    @property
    def reads(self) -> tuple[str, ...]:
        return self.template.reads

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Query):
            return NotImplemented
        if (self.id, self.text) != (other.id, other.text):
            return False
        same = self.template is other.template and repr(self.values) == repr(other.values)
        return same or self.outputs == other.outputs

    def __hash__(self) -> int:
        return hash((self.id, self.text))

    def __repr__(self) -> str:
        return f"Query(id={self.id!r}, text={self.text!r}, outputs={self.outputs!r})"

    def __reduce__(self) -> tuple[object, ...]:
        # Without the outputs, because all queries of one pickle share the template.
        return (Query.of, (self.id, self.text, self.template, self.values))


def members_of(queries: Iterable[Query]) -> list[Members]:
    """The queries by template, in the order in which the templates first appear."""
    groups: dict[Template, tuple[list[str], list[tuple[Any, ...]]]] = {}
    for query in queries:
        group = groups.get(query.template)
        if group is None:
            group = groups[query.template] = ([], [])
        group[0].append(query.id)
        group[1].append(query.values)
    return [Members.of(template, ids, values) for template, (ids, values) in groups.items()]
