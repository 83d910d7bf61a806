"""Computed columns: expressions over whole columns become hidden attributes, computed first.

See `lower.py`. Names begin with `__v`, which no attribute of a user does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import groupby

import pyarrow as pa

from braid.algebra.expressions import Call, Expression, Literal, Ref, Source, refs, transform, walk
from braid.algebra.functions import is_vector
from braid.algebra.nodes import Node, Project
from braid.algebra.relations import Relation

PREFIX = "__v"

Hidden = dict[Expression, str]


@lru_cache(1 << 16)
def has_vector(expression: Expression) -> bool:
    return any(is_vector(e) for e in walk(expression))


@lru_cache(1 << 16)
def cost_of(expression: Expression) -> float:
    """The cost of the users' functions that an expression calls; 0 without any."""
    return sum(e.cost for e in walk(expression) if isinstance(e, Call))


def by_cost(asked: Iterable[Expression]) -> Iterator[tuple[Expression, ...]]:
    """Conditions in groups of equal cost, the cheapest first."""
    for _, group in groupby(sorted(asked, key=cost_of), key=cost_of):
        yield tuple(group)


def hoist(expression: Expression, hidden: Hidden) -> Expression:
    """The expression with every outermost vector function replaced by a hidden attribute."""

    def change(part: Expression) -> Expression | None:
        if not is_vector(part):
            return None
        name = hidden.setdefault(part, f"{PREFIX}{len(hidden)}")
        return Ref(source_of(part), name, part.type)

    return transform(expression, change)


def source_of(expression: Expression) -> Source:
    """The one input that a vector function looks at (a constant: the second, where there is one)."""
    found = {ref.source for ref in refs(expression)}
    assert len(found) <= 1, "the binder refuses vector functions over several inputs"
    return found.pop() if found else Source.INPUT


def as_input(expression: Expression) -> Expression:
    """The same function, said of the input's own attributes."""

    def change(part: Expression) -> Expression | None:
        return Ref(Source.INPUT, part.name, part.type) if isinstance(part, Ref) else None

    return transform(expression, change)


def all_items(node: Node | Relation) -> tuple[tuple[str, Expression], ...]:
    return tuple((a.name, Ref(Source.INPUT, a.name, a.type)) for a in node.schema)


def extended(node: Node, extra: list[tuple[str, Expression]]) -> Node:
    return lower_project(Project(node, (*all_items(node), *extra))) if extra else node


def lower_project(node: Project) -> Node:
    """Items may be vector functions of columns and literals; all else is computed before."""
    hidden = no_names(node.input)
    items = tuple((name, item(expression, hidden)) for name, expression in node.items)
    extra = [(name, expression) for expression, name in new_ones(hidden)]
    return Project(extended(node.input, extra), items) if extra else node


def item(expression: Expression, hidden: Hidden) -> Expression:
    """What is left to compute in a projection once the hidden attributes are there."""
    if is_vector(expression):
        assert isinstance(expression, Call)
        return replace(expression, args=tuple(_argument(a, hidden) for a in expression.args))
    return hoist(expression, hidden) if has_vector(expression) else expression


def _argument(expression: Expression, hidden: Hidden) -> Expression:
    """What a vector function is applied to: columns, literals and vector functions of these."""
    if isinstance(expression, Ref | Literal):
        return expression
    if is_vector(expression):
        return item(expression, hidden)
    name = hidden.setdefault(expression, f"{PREFIX}{len(hidden)}")
    return Ref(Source.INPUT, name, expression.type)


def no_names(*nodes: Node | Relation) -> Hidden:
    """An empty set of hidden attributes, numbered after those that the inputs already have."""
    taken = {n for node in nodes for n in node.schema.names if n.startswith(PREFIX)}
    return {Ref(Source.INPUT, name, pa.null()): name for name in _numbered(taken)}


def _numbered(taken: set[str]) -> list[str]:
    highest = max(
        (int(name[len(PREFIX) :]) for name in taken if name[len(PREFIX) :].isdigit()), default=-1
    )
    return [f"{PREFIX}{i}" for i in range(highest + 1)]


def new_ones(hidden: Hidden) -> list[tuple[Expression, str]]:
    return [(e, name) for e, name in hidden.items() if not isinstance(e, Ref)]


def as_column(expression: Expression, hidden: Hidden) -> Expression:
    """A reference to the expression's value."""
    if isinstance(expression, Ref):
        return expression
    name = hidden.setdefault(expression, f"{PREFIX}{len(hidden)}")
    return Ref(Source.INPUT, name, expression.type)
